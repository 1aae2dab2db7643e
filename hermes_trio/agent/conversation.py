"""The conversation of a turn with its model: the requests and the replies.

The text of the model is shown while it is written. A conversation that is too long for the model is shortened
before a request, or when the server refuses it as too long; messages of people wait meanwhile.
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
from .history import disarmed_rows, messages_for, messages_of, opening_of
from .past_conversation import PastConversation
from .providers.model import (
    Finished,
    Model,
    ModelReplaced,
    ModelRequest,
    PicturesRefused,
    ReasoningDelta,
    RetryScheduled,
    TextDelta,
    ToolCallBroken,
    ToolCallReady,
)
from .providers.model_errors import ContextTooLong
from .providers.model_messages import Message
from .shortening import Shortener, may_shorten_automatically

WORTH_TELLING = 5.0
"""Shortest wait for a retry, in seconds, that the person is told of. It counts from the start of the failed
attempt to the next attempt."""


@dataclass(slots=True)
class ModelReply:
    """The reply of a model to one request."""

    text: str = ""
    calls: list[ToolCall] = field(default_factory=list)
    """All tool calls, in the model's order."""
    broken: dict[str, ToolCallBroken] = field(default_factory=dict)
    """The calls that cannot be run, by call id."""
    finished: Finished | None = None

    @property
    def opaque(self) -> str | None:
        """Data of the model that it needs back with this reply."""
        return self.finished.opaque if self.finished else None

    @property
    def was_cut_short(self) -> bool:
        """True if the reply ended at its length limit."""
        return self.finished is not None and self.finished.reason == "length"


class Conversation:
    """The messages of one turn, and the requests that send them to the model."""

    def __init__(
        self,
        turn: AgentTurn,
        model: Model,
        request: ModelRequest,
        past: PastConversation,
        compaction: Compaction,
        window: int | None,
    ) -> None:
        """`request` holds everything except the messages; `past` the messages before this turn; `window` is
        the context length of the model, in tokens, if known."""
        self._turn, self._model, self._compaction, self._window = turn, model, compaction, window
        self._opening = opening_of(turn.turn_id, turn.prompt, turn.said)
        self.past = past
        self._messages = [*self.past.messages, *messages_for([self._opening], compaction)]
        self._unstored = 0
        """Number of messages at the end that no row holds."""
        self._request = replace(request, messages=())
        known = turn.entry.usage.last_prompt_tokens
        self._tokens = known + tokens([self._messages[-1]]) if known else 0
        """Length of the next prompt, based on the last count of the server; 0 before the first count."""

    def extend(self, *messages: Message, stored: bool = True) -> None:
        """Add messages to the conversation. `stored` says that rows hold them; else only the model gets
        them."""
        self._messages += messages
        self._unstored = 0 if stored else self._unstored + len(messages)
        if self._tokens:
            self._tokens += tokens(messages)

    async def ask(self, *, may_call: bool = True) -> ModelReply:
        """Send a request, show the reply while it is written, and return it. `may_call` allows tool calls."""
        if self._is_too_long and may_shorten_automatically(self._compaction, self._turn.world.time()):
            await self._shorten(0)
        attempts = iter(range(len(KEPT)))
        while True:
            try:
                return await self._request_reply(may_call)
            except ContextTooLong as error:
                too_long = error
            self._window = min(filter(None, (self._window, too_long.limit)), default=None)
            if not await self._try_to_shorten(attempts):
                raise too_long

    async def _try_to_shorten(self, attempts: Iterator[int]) -> bool:
        """Shorten until an attempt saves something; return False when no attempt is left."""
        for attempt in attempts:
            if await self._shorten(attempt):
                return True
        return False

    @property
    def _is_too_long(self) -> bool:
        """True if the next request should be shortened."""
        return self._window is not None and self._length >= limit(self._window)

    @property
    def _length(self) -> int:
        """Length of the next request in tokens, as counted by the server or estimated."""
        if self._tokens:
            return self._tokens
        new = tuple(self._messages[len(self.past.messages) :])
        return self.past.tokens + tokens_of(replace(self._request, messages=new))

    async def _request_reply(self, may_call: bool) -> ModelReply:
        """Send one request, show its reply while it is written, and return it."""
        turn, reply, attempt_began = self._turn, ModelReply(), trio.current_time()
        messages, earlier = tuple(self._messages), self.past.earlier
        request = replace(self._request, messages=messages, earlier=earlier, may_call=may_call)
        async with coalescing(turn) as shown, self._model.stream(request) as items:
            async for item in items:
                match item:
                    case TextDelta(text):
                        reply.text += text
                        shown.say(text)
                    case ReasoningDelta(text):
                        shown.say(text, is_reasoning=True)
                    case ToolCallReady(call):
                        reply.calls.append(call)
                    case ToolCallBroken(call_id, name):
                        reply.calls.append(ToolCall(call_id, name, "{}"))
                        reply.broken[call_id] = item
                    case Usage():
                        self._count(item)
                        self._tokens = item.last_prompt_tokens
                    case Finished():
                        reply.finished = item
                    case RetryScheduled(seconds, because):
                        turn.active()
                        next_at = trio.current_time() + seconds
                        if next_at - attempt_began >= WORTH_TELLING:
                            turn.mention(f"⏳ The model: {because.problem}; asking again in {seconds:.0f} s.")
                        attempt_began = next_at
                    case ModelReplaced(name, because):
                        turn.mention(f"⚠ {because} Going on with {name}.")
                    case PicturesRefused(name, said):
                        if self._opening.files:
                            turn.mention(f"⚠ {name} takes no pictures, and answers without yours. ({said})")
                    case _:
                        turn.active()
        return reply

    def _count(self, used: Usage) -> None:
        """Add the usage of a request to that of the turn."""
        turn = self._turn
        turn.usage = used if turn.usage is None else add_usage(turn.usage, used)

    async def _shorten(self, attempt: int) -> bool:
        """Shorten the conversation; return whether that saved something."""
        turn = self._turn
        shortener = Shortener(
            self._model, turn.database, turn.session_id, turn.world.time, self._count, turn.active
        )
        with turn.not_now("shortening the conversation"):
            rows = self._with_prompt(await turn.database.read(transcript.load, turn.session_id))
            done = await shortener.shorten(rows, self._compaction, window=self._window, attempt=attempt)
        self._compaction = done.compaction
        if turn.usage is not None:
            turn.usage = replace(turn.usage, last_prompt_tokens=0)
        if done.saved:
            unstored = self._messages[len(self._messages) - self._unstored :]
            self._messages = [*messages_of(rows, done.compaction), *unstored]
            self.past = PastConversation()
            self._tokens = self._tokens * done.after // done.before
        return done.saved

    def _with_prompt(self, stored: Sequence[TranscriptRow]) -> list[TranscriptRow]:
        """Return the transcript with the prompt of this turn in place of the person's messages that opened
        it."""
        turn_id = self._turn.turn_id
        ours = dropwhile(lambda row: row.role == "user", (row for row in stored if row.turn_id == turn_id))
        before = (row for row in stored if row.turn_id != turn_id)
        return [*disarmed_rows(before), self._opening, *disarmed_rows(ours)]


def add_usage(one: Usage, other: Usage) -> Usage:
    """Return the sum of two usages. The length of the last prompt is that of `other`, the later one."""
    unknown = one.cost_usd is None or other.cost_usd is None
    return Usage(
        one.input_tokens + other.input_tokens,
        one.output_tokens + other.output_tokens,
        one.cache_read_tokens + other.cache_read_tokens,
        one.cache_write_tokens + other.cache_write_tokens,
        other.last_prompt_tokens,
        None if unknown else (one.cost_usd or 0) + (other.cost_usd or 0),
    )
