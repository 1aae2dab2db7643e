"""The loop: ask the model, run the tools that it calls, ask again, until it answers.

The text of the model is shown while it is written. Tool calls are stored before they run, and each result as
soon as it is known. So the transcript is true at every moment, and after a cut the next life continues from
it. Messages of people that arrive meanwhile come after the results of the tools.

The number of requests is limited. At the limit the model is asked once more, for an answer from what it
knows; tool calls in that answer are not run.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..state.db.column_text import disarmed
from ..tools.tool import Result, Tool
from .agent_turn import AgentTurn
from .conversation import Conversation, ModelReply
from .providers.model import ToolCallBroken
from .providers.model_messages import AssistantMessage, Message, ToolResult, UserMessage
from .tool_calls import run_calls

MOST_CONTINUATIONS = 4
MOST_STRIKES = 3
"""Consecutive answers without a single valid call after which the model gets no more tools."""

GO_ON = "(Your answer was cut at its length limit. Go on exactly where it ends.)"
NOTHING_YET = "(You have said nothing to the person yet. Answer them now.)"
NO_MORE_TOOLS = (
    "(No more tools can be used in this turn. Answer now from what you know: what was done, what was found, "
    "what is left to do.)"
)


async def answer(turn: AgentTurn, conversation: Conversation, tools: Mapping[str, Tool], *, most: int) -> str:
    """Answer one message with at most `most` requests to the model, and a last one without tools."""
    said, continued, nudged, strikes = "", 0, False, 0
    for _ in range(most):
        reply = await conversation.ask()
        if reply.calls:
            has_valid_call = any(call.name in tools and call.id not in reply.broken for call in reply.calls)
            strikes = 0 if has_valid_call else strikes + 1
            conversation.extend(*await _run_round(turn, tools, said, reply))
            said = ""
            if strikes == MOST_STRIKES:
                break
            continue
        said += reply.text
        if reply.was_cut_short and continued < MOST_CONTINUATIONS:
            continued += 1
            conversation.extend(
                AssistantMessage(reply.text, opaque=reply.opaque), UserMessage(GO_ON), stored=False
            )
        elif not said.strip() and not nudged:
            nudged = True
            conversation.extend(UserMessage(NOTHING_YET), stored=False)
        else:
            return said
    conversation.extend(UserMessage(NO_MORE_TOOLS), stored=False)
    return said + (await conversation.ask(may_call=False)).text


async def _run_round(
    turn: AgentTurn, tools: Mapping[str, Tool], said: str, reply: ModelReply
) -> list[Message]:
    """Run the calls of a reply; return the messages that the conversation gains. `said` is earlier text of
    the model that no row holds yet."""
    await turn.calls(said + reply.text, *reply.calls, opaque=reply.opaque)
    results = await run_calls(turn, tools, [call for call in reply.calls if call.id not in reply.broken])
    for call in reply.calls:
        if call.id in reply.broken:
            results[call.id] = _result_of_broken_call(reply.broken[call.id])
            await turn.result(call, results[call.id].content, "error")
    gained: list[Message] = [AssistantMessage(reply.text, tuple(reply.calls), reply.opaque)]
    for call in reply.calls:
        result = results[call.id]
        gained.append(ToolResult(call.id, disarmed(result.content), result.is_error))
    return gained + [UserMessage(disarmed(text)) for text in await turn.steered()]


def _result_of_broken_call(broken: ToolCallBroken) -> Result:
    return Result(
        f"Nothing was done: {broken.problem} Arguments as far as they arrived: {broken.arguments[:500]}",
        is_error=True,
    )
