"""The loop: ask the model, run the tools it asks for, ask again, until it answers.

What the model says is shown while it writes; what it wants done is stored before it is done, and what came
of it as soon as it is known. So the transcript is true at every moment, and a cut leaves one that the
next life can go on with. What people say meanwhile goes behind the tools' results.

There is a limit to the number of requests. When it is reached the model is asked once more, for an answer
from what it knows, and what it still wants done then is not done.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..state.db.column_text import disarmed
from ..tools.tool import Result, Tool
from .agent_turn import AgentTurn
from .conversation import Conversation, ModelReply
from .providers.model import AssistantMessage, Message, ToolCallBroken, ToolResult, UserMessage
from .tool_calls import run_calls

MOST_CONTINUATIONS = 4
MOST_STRIKES = 3
"""After so many answers in a row of which no call could be made, the model is not asked for more."""

GO_ON = "(Your answer was cut at its length limit. Go on exactly where it ends.)"
NOTHING_YET = "(You have said nothing to the person yet. Answer them now.)"
NO_MORE_TOOLS = (
    "(No more tools can be used in this turn. Answer now from what you know: what was done, what was found, "
    "what is left to do.)"
)


async def answer(turn: AgentTurn, conversation: Conversation, tools: Mapping[str, Tool], *, most: int) -> str:
    """Answer one message, with at most so many requests to the model before the last one."""
    said, continued, nudged, strikes = "", 0, False, 0
    for _ in range(most):
        reply = await conversation.ask()
        if reply.calls:
            can_be_made = any(call.name in tools and call.id not in reply.broken for call in reply.calls)
            strikes = 0 if can_be_made else strikes + 1
            conversation.extend(*await _round(turn, tools, said, reply))
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


async def _round(turn: AgentTurn, tools: Mapping[str, Tool], said: str, reply: ModelReply) -> list[Message]:
    """Do what the model asked for; returns what the conversation has gained by it. What was `said` before
    stands in no row yet."""
    await turn.calls(said + reply.text, *reply.calls, opaque=reply.opaque)
    results = await run_calls(turn, tools, [call for call in reply.calls if call.id not in reply.broken])
    for call in reply.calls:
        if call.id in reply.broken:
            results[call.id] = _told(reply.broken[call.id])
            await turn.result(call, results[call.id].content, "error")
    gained: list[Message] = [AssistantMessage(reply.text, tuple(reply.calls), reply.opaque)]
    for call in reply.calls:
        result = results[call.id]
        gained.append(ToolResult(call.id, disarmed(result.content), result.is_error))
    return gained + [UserMessage(disarmed(text)) for text in await turn.steered()]


def _told(broken: ToolCallBroken) -> Result:
    return Result(
        f"Nothing was done: {broken.problem}. What came of the arguments: {broken.arguments[:500]}",
        is_error=True,
    )
