"""The loop: ask the model, run the tools it asks for, ask again, until it answers.

What the model says is shown while it writes; what it wants done is stored before it is done, and what came
of it as soon as it is known. So the transcript is true at every moment, and a cut leaves one that the
next life can go on with. What people say meanwhile goes behind the tools' results.

There is a limit to the number of requests. When it is reached the model is asked once more, for an answer
from what it knows, and what it still wants done then is not done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from ..events import ReasoningAvailable
from ..state.entry import Usage
from ..state.transcript import ToolCall
from ..tools.tool import Result, Tool
from .calls import run_calls
from .history import conversation
from .providers.model import (
    Assistant,
    FallsBack,
    Finished,
    Message,
    Model,
    ReasoningDelta,
    Request,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
    ToolResult,
    ToolSpec,
    User,
    Waits,
)
from .turn import Turn

MOST_CONTINUATIONS = 4
MOST_STRIKES = 3
"""After so many answers in a row of which no call could be made, the model is not asked for more."""
WORTH_TELLING = 5.0
"""Seconds of waiting for a model that a person wants to know of."""

GO_ON = "(Your answer was cut at its length limit. Go on exactly where it ends.)"
NOTHING_YET = "(You have said nothing to the person yet. Answer them now.)"
NO_MORE_TOOLS = (
    "(No more tools can be used in this turn. Answer now from what you know: what was done, what was found, "
    "what is left to do.)"
)


@dataclass(slots=True)
class Reply:
    """What a model answered to one request."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    broken: list[ToolCallBroken] = field(default_factory=list)
    finished: Finished | None = None

    @property
    def opaque(self) -> str | None:
        return self.finished.opaque if self.finished else None

    @property
    def was_cut_short(self) -> bool:
        return self.finished is not None and self.finished.reason == "length"


async def answer(turn: Turn, model: Model, tools: Mapping[str, Tool], system: str, *, most: int) -> str:
    """Answer one message, with at most so many requests to the model before the last one."""
    messages = conversation(turn.history, turn.prompt)
    request = Request(messages=(), system=system, tools=tuple(map(_spec, tools.values())))
    said, continued, nudged, strikes = "", 0, False, 0
    for _ in range(most):
        reply = await _ask(turn, model, replace(request, messages=tuple(messages)))
        if reply.calls or reply.broken:
            said, strikes = "", 0 if any(call.name in tools for call in reply.calls) else strikes + 1
            messages += await _round(turn, tools, reply)
            if strikes == MOST_STRIKES:
                break
            continue
        said += reply.text
        if reply.was_cut_short and continued < MOST_CONTINUATIONS:
            continued += 1
            messages += [Assistant(reply.text, opaque=reply.opaque), User(GO_ON)]
        elif not said.strip() and not nudged:
            nudged = True
            messages.append(User(NOTHING_YET))
        else:
            return said
    messages.append(User(NO_MORE_TOOLS))
    return (await _ask(turn, model, replace(request, messages=tuple(messages)))).text


def _spec(tool: Tool) -> ToolSpec:
    return ToolSpec(tool.name, tool.description, tool.parameters)


async def _ask(turn: Turn, model: Model, request: Request) -> Reply:
    """Ask the model once, and show what it writes."""
    await turn.requesting()
    reply = Reply()
    async with model.stream(request) as items:
        async for item in items:
            match item:
                case TextDelta(text):
                    reply.text += text
                    await turn.say(text)
                case ReasoningDelta(text):
                    await turn.emit(ReasoningAvailable(text))
                case ToolCallReady(call):
                    reply.calls.append(call)
                case ToolCallBroken():
                    reply.broken.append(item)
                case Usage():
                    turn.usage = item if turn.usage is None else _sum(turn.usage, item)
                case Finished():
                    reply.finished = item
                case Waits(seconds, because) if seconds >= WORTH_TELLING:
                    turn.mention(f"⏳ The model: {because.problem}; asking again in {seconds:.0f} s.")
                case FallsBack(name, because):
                    turn.mention(f"⚠ {because} Going on with {name}.")
                case _:
                    turn.active()
    return reply


def _sum(one: Usage, other: Usage) -> Usage:
    """What was used in both. What the second prompt was long is what the conversation is long."""
    unknown = one.cost_usd is None or other.cost_usd is None
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        other.last_prompt_tokens,
        None if unknown else (one.cost_usd or 0) + (other.cost_usd or 0),
    )


async def _round(turn: Turn, tools: Mapping[str, Tool], reply: Reply) -> list[Message]:
    """Do what the model asked for; returns what the conversation has gained by it."""
    unusable = {broken.id: broken for broken in reply.broken}
    asked = [*reply.calls, *(ToolCall(broken.id, broken.name, "{}") for broken in reply.broken)]
    await turn.calls(reply.text, *asked, opaque=reply.opaque)
    results = await run_calls(turn, tools, reply.calls)
    for call in asked:
        if call.id in unusable:
            results[call.id] = _told(unusable[call.id])
            await turn.result(call, results[call.id].content, "error")
    gained: list[Message] = [Assistant(reply.text, tuple(asked), reply.opaque)]
    gained += [ToolResult(call.id, results[call.id].content, results[call.id].is_error) for call in asked]
    return gained + [User(text) for text in await turn.steered()]


def _told(broken: ToolCallBroken) -> Result:
    return Result(
        f"Nothing was done: {broken.problem}. What came of the arguments: {broken.arguments[:500]}",
        is_error=True,
    )
