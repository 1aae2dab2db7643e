"""An answer in the making: the text of a run for a client that waits for it, whole or as a stream.

A client that goes away in the middle ends the turn that was begun for it alone. Without a stream an
idempotency key means that it comes back, and keeps the turn running.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

import trio
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.errors import GatewayError
from ...base.events import INTERRUPTED, MessageDelta, RunCompleted, RunFailed, ToolCompleted, ToolStarted
from ...gateway.operations.conversation_entry import EnteredMessage
from ...gateway.operations.run_follower import (
    RunFollower,
    fields_of,
    follow,
    follow_from_start,
    silence_of,
)
from ...gateway.operations.run_state import Runs
from ...journal.broadcast import Subscription
from ...journal.record import Record
from ..http.event_stream import EventStream, Write, cancel_when_gone
from ..http.http_errors import Draining, Refusal, refusal_response
from .run_routes import STOP_WITHIN

SESSION = "X-Hermes-Session-Id"
STATUS_OF_MODEL_ERRORS = {
    "context_length_exceeded": 400,
    "content_filter": 400,
    "model_request_refused": 400,
    "model_key_refused": 424,
    "model_no_credit": 424,
    "model_unknown": 424,
    "model_certificate_refused": 424,
    "not_a_model_server": 424,
    "rate_limit_exceeded": 429,
    "model_overloaded": 503,
}
"""The status for a turn that failed because of the model. Clients repeat a request after 408, 409, 429 and
5xx, so a lasting error has another status: 400 if the request is at fault, and 424 (Failed Dependency) if the
owner of the gateway has to act. The latter is not 401, 403 or 404, because the client's own key, address and
model name are right, and it would ask its user to change them."""

Enter = Callable[[str], Awaitable[EnteredMessage]]
"""Stores the message of a request, whose run gets this id."""


class Answer:
    """The answer of one run."""

    def __init__(self, runs: Runs, entered: EnteredMessage, watch: Subscription | None) -> None:
        """`watch` is a subscription that has all events of the run, if there is one."""
        self.runs, self.entered, self._watch = runs, entered, watch
        self.run_id = entered.posted.run_id
        self.text = ""
        self.end: Record | None = None
        self.made_at = int(runs.world.time())
        self._is_after_tools = False

    @property
    def is_answered(self) -> bool:
        return self.end is not None and self.end.event == RunCompleted.event

    @property
    def tokens(self) -> tuple[int, int]:
        """The tokens that the turn has sent and received; zeros if they are unknown, because clients expect
        numbers."""
        used = fields_of(self.end).get("usage", {}) if self.end is not None else {}
        return used.get("input_tokens", 0), used.get("output_tokens", 0)

    async def follow(self, follower: RunFollower) -> None:
        """Tell the events of the run until it is over or the gateway ends."""
        runs, run_id, watch = self.runs, self.run_id, self._watch
        within = silence_of(runs, None)
        if watch is None or not await follow_from_start(runs, run_id, follower, watch, within):
            await follow(runs, run_id, follower)

    def add(self, record: Record) -> str:
        """Take in an event, and return the text that it adds. Text after a tool use begins a new paragraph,
        as in a chat."""
        fields, text = fields_of(record), ""
        if record.terminal:
            self.end = record
            output = fields.get("output", "")
            text = "" if self.text.endswith(output) else output
            self._is_after_tools = True
        elif record.event == MessageDelta.event:
            text = fields.get("delta", "")
        elif record.event in (ToolStarted.event, ToolCompleted.event):
            self._is_after_tools = True
        if text and self.text and self._is_after_tools:
            text = "\n\n" + text
        if text:
            self.text, self._is_after_tools = self.text + text, False
        return text

    async def refusal(self) -> Refusal:
        """Return the reason why there is no answer."""
        if await self._drop_if_unbegun():
            return Draining()
        fields = fields_of(self.end) if self.end is not None and self.end.event == RunFailed.event else {}
        message = fields.get("error") or "The run was stopped."
        remedy = f"GET /v1/runs/{self.run_id} has the state of the run."
        headers, code = {SESSION: self.entered.session}, fields.get("code", "")
        if fields.get("retry_after") is not None:
            headers["Retry-After"] = str(math.ceil(fields["retry_after"]))
        status = STATUS_OF_MODEL_ERRORS.get(code)
        if status is None:
            status, code = 502, "agent_incomplete"
        return Refusal(status, code, message, remedy, headers)

    async def _drop_if_unbegun(self) -> bool:
        """Return whether the run did not begin because the gateway stops. Then drop its message, so that
        the next life does not answer it for nobody; with an idempotency key the client may come back, and
        the message stays."""
        if self.end is not None and fields_of(self.end).get("code") != INTERRUPTED:
            return False
        state = await self.runs.state(self.run_id)
        if state is None or not state.waits:
            return False
        if self.entered.is_ours and state.message is not None and state.message.event.fingerprint is None:
            await self.runs.drop(state)
        return True


@dataclass(frozen=True, slots=True)
class Callers:
    """The clients that wait for answers."""

    runs: Runs
    gateway_over: trio.Event
    counts: Counter[str] = field(default_factory=Counter)
    """The number of clients that wait for the answer of each run."""

    @asynccontextmanager
    async def waiting(self, answer: Answer, *, comes_again: bool = False) -> AsyncIterator[None]:
        """Count a client that waits for this answer. If it goes before the end, stop the turn that was begun
        for it alone."""
        run_id, counts = answer.run_id, self.counts
        counts[run_id] += 1
        try:
            yield
        except BaseException:  # the client has gone: the answer was cancelled, or a write failed
            alone = answer.entered.is_ours and counts[run_id] == 1
            if alone and not comes_again and not self.gateway_over.is_set():
                with trio.move_on_after(STOP_WITHIN, shield=True):
                    await self.runs.stop(run_id)
            raise
        finally:
            counts[run_id] -= 1
            if not counts[run_id]:
                del counts[run_id]


@asynccontextmanager
async def _answering(runs: Runs, entering: list[Enter]) -> AsyncIterator[Answer]:
    """Store the message of a request, and yield the answer to it."""
    run_id = runs.world.new_id()
    # Before the message is stored, so that no event of the run has to be read from its journal.
    with runs.journals.live.watching(run_id) as watch:
        entered = await entering.pop()(run_id)
        yield Answer(runs, entered, watch if entered.posted.run_id == run_id else None)


class AnswerForm(Protocol):
    """An answer in the form that a client expects."""

    def response(self) -> Response:
        """Return the whole answer, if it has any text."""

    async def stream(self, callers: Callers, write: Write) -> bytes:
        """Write the answer while it is made, and return the last bytes."""


def responding(
    callers: Callers,
    enter: Enter,
    form: Callable[[Answer], AnswerForm],
    *,
    is_stream: bool,
    comes_again: bool,
) -> ASGIApp:
    """Return what answers a request whose message `enter` stores."""
    # A list, from which it is taken: it may hold a long conversation, and the answer lasts a whole turn.
    entering = [enter]

    async def respond(scope: Scope, receive: Receive, send: Send) -> None:
        async with _answering(callers.runs, entering) as answer:
            made = form(answer)
            response: ASGIApp
            if is_stream:
                response = EventStream(partial(made.stream, callers), {SESSION: answer.entered.session})
            else:
                waiting = partial(callers.waiting, answer, comes_again=comes_again)
                response = _WholeAnswer(answer, waiting, made.response)
            await response(scope, receive, send)

    return respond


class _WholeAnswer:
    """A response that is made when the run is over, if the client is still there."""

    def __init__(
        self,
        answer: Answer,
        waiting: Callable[[], AbstractAsyncContextManager[None]],
        response: Callable[[], Response],
    ) -> None:
        """`waiting` opens the block in which the client counts as waiting; `response` returns what it gets
        if there is any text."""
        self._answer, self._waiting, self._response = answer, waiting, response
        self._error: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_gone, receive, nursery.cancel_scope)
            await self._follow()
            nursery.cancel_scope.cancel(reason="the run is over")
        if self._error is not None:
            raise self._error
        if self._answer.text or self._answer.is_answered:
            response = self._response()
        else:
            response = refusal_response(await self._answer.refusal(), scope["path"])
        await response(scope, receive, send)

    async def _follow(self) -> None:
        answer = self._answer

        async def tell(record: Record) -> None:
            answer.add(record)
            await trio.lowlevel.checkpoint()

        try:
            async with self._waiting():
                await answer.follow(RunFollower(tell, ignore, ignore))
        except GatewayError as error:
            self._error = error  # raised in the nursery it would come in a group


async def ignore() -> None:
    """Ignore a gap or a silence: no part of an answer tells the client about it."""
    await trio.lowlevel.checkpoint()
