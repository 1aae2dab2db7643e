"""The conversation of a turn with its model: what it is sent, and what it answers.

What the model writes is shown while it writes. A conversation that has become too long is made shorter
before the model is asked, or when it says that it cannot take it; what a person says meanwhile waits.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import dropwhile

import trio

from ..state.tables import transcript
from ..state.tables.compactions import Compaction
from ..state.tables.session_entry import Usage
from ..state.tables.transcript import ToolCall, TranscriptRow
from .agent_turn import AgentTurn
from .coalesce import coalescing
from .compaction import KEPT, limit, tokens, tokens_of
from .history import disarmed_rows, messages_of, opening_of
from .providers.model import (
    Finished,
    Message,
    Model,
    ModelReplaced,
    ModelRequest,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
)
from .providers.model_errors import ContextTooLong
from .shortening import Shortener, may_shorten_automatically

WORTH_TELLING = 5.0
"""Seconds of waiting for a model that a person wants to know of: those of an attempt that failed, and those
until the next one."""


@dataclass(slots=True)
class ModelReply:
    """What a model answered to one request."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    """All that it asked for, in its order."""
    broken: dict[str, ToolCallBroken] = field(default_factory=dict)
    """Of those, by their ids, what cannot be done."""
    finished: Finished | None = None

    @property
    def opaque(self) -> str | None:
        return self.finished.opaque if self.finished else None

    @property
    def was_cut_short(self) -> bool:
        return self.finished is not None and self.finished.reason == "length"


class Conversation:
    """What is said in a turn between its model and everybody else."""

    def __init__(
        self, turn: AgentTurn, model: Model, request: ModelRequest, compaction: Compaction, window: int | None
    ) -> None:
        """`request` has everything but the messages; `window` is what the model can take, if known."""
        self._turn, self._model, self._compaction, self._window = turn, model, compaction, window
        self._opening = opening_of(turn.turn_id, turn.prompt)
        self._messages = messages_of([*disarmed_rows(turn.history), self._opening], compaction)
        self._unstored = 0
        """How many of the last messages no row holds."""
        self._request = replace(request, messages=())
        known = turn.entry.usage.last_prompt_tokens
        self._tokens = known + tokens([self._messages[-1]]) if known else 0
        """How long the next prompt is, as far as a server has counted; 0 if none has."""

    def extend(self, *messages: Message, stored: bool = True) -> None:
        """This has been said since; rows hold it, or nobody but the model will ever know."""
        self._messages += messages
        self._unstored = 0 if stored else self._unstored + len(messages)
        if self._tokens:
            self._tokens += tokens(messages)

    async def ask(self, *, may_call: bool = True) -> ModelReply:
        """Ask the model, and show what it writes; with or without its tools."""
        if self._is_long and may_shorten_automatically(self._compaction, self._turn.world.time()):
            await self._shorten(0)
        attempts = iter(range(len(KEPT)))
        while True:
            try:
                return await self._asked(may_call)
            except ContextTooLong as error:
                refused = error
            self._window = min(filter(None, (self._window, refused.limit)), default=None)
            if not await self._is_shorter_after(attempts):
                raise refused

    async def _is_shorter_after(self, attempts: Iterator[int]) -> bool:
        for attempt in attempts:
            if await self._shorten(attempt):
                return True
        return False

    @property
    def _is_long(self) -> bool:
        return self._window is not None and self._length >= limit(self._window)

    @property
    def _length(self) -> int:
        return self._tokens or tokens_of(replace(self._request, messages=tuple(self._messages)))

    async def _asked(self, may_call: bool) -> ModelReply:
        turn, reply, tried_at = self._turn, ModelReply(), trio.current_time()
        request = replace(self._request, messages=tuple(self._messages), may_call=may_call)
        async with coalescing(turn) as voice, self._model.stream(request) as items:
            async for item in items:
                match item:
                    case TextDelta(text):
                        reply.text += text
                        voice.say(text)
                    case ReasoningDelta(text):
                        voice.say(text, aloud=False)
                    case ToolCallReady(call):
                        reply.calls.append(call)
                    case ToolCallBroken(call_id, name):
                        reply.calls.append(ToolCall(call_id, name, "{}"))
                        reply.broken[call_id] = item
                    case Usage():
                        self._use(item)
                        self._tokens = item.last_prompt_tokens
                    case Finished():
                        reply.finished = item
                    case RetryScheduled(seconds, because):
                        turn.active()
                        next_at = trio.current_time() + seconds
                        if next_at - tried_at >= WORTH_TELLING:
                            turn.mention(f"⏳ The model: {because.problem}; asking again in {seconds:.0f} s.")
                        tried_at = next_at
                    case ModelReplaced(name, because):
                        turn.mention(f"⚠ {because} Going on with {name}.")
                    case _:
                        turn.active()
        return reply

    def _use(self, used: Usage) -> None:
        turn = self._turn
        turn.usage = used if turn.usage is None else add_usage(turn.usage, used)

    async def _shorten(self, attempt: int) -> bool:
        """Make the conversation shorter, if that is possible."""
        turn = self._turn
        shortener = Shortener(
            self._model, turn.database, turn.session_id, turn.world.time, self._use, turn.active
        )
        with turn.not_now("shortening the conversation"):
            rows = self._rows(await turn.database.read(transcript.load, turn.session_id))
            done = await shortener.shorten(rows, self._compaction, window=self._window, attempt=attempt)
        self._compaction = done.compaction
        if turn.usage is not None:
            turn.usage = replace(turn.usage, last_prompt_tokens=0)
        if done.saved:
            unstored = self._messages[len(self._messages) - self._unstored :]
            self._messages = [*messages_of(rows, done.compaction), *unstored]
            self._tokens = self._tokens * done.after // done.before
        return done.saved

    def _rows(self, stored: Sequence[TranscriptRow]) -> list[TranscriptRow]:
        """The transcript with what is asked now in the place of what the person said."""
        turn_id = self._turn.turn_id
        ours = dropwhile(lambda row: row.role == "user", (row for row in stored if row.turn_id == turn_id))
        before = (row for row in stored if row.turn_id != turn_id)
        return [*disarmed_rows(before), self._opening, *disarmed_rows(ours)]


def add_usage(one: Usage, other: Usage) -> Usage:
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
