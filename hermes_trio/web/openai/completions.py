"""Chat completions in OpenAI's form: a turn of the agent, whole or as a stream.

The agent uses its own tools. A client sees each use and need not act: in a stream it is an event with a name
of its own, whose chunk is empty for clients that do not know the name.

| the turn ends | whole | as a stream |
|---|---|---|
| answered | 200 | `finish_reason` stop, and the usage in the last chunk |
| not answered, with some text | 200, `finish_reason` length, `X-Hermes-Completed: false` | an error |
| not answered, without text | 502 `agent_incomplete`, or by the model's error, see below | an error |
| before it began, because the gateway stops | 503 `gateway_draining` | an error |

An error in a stream is a chunk that has `error`; `[DONE]` is always the last. A client that goes away in the
middle ends the turn that was begun for it alone. Without a stream an idempotency key means that it comes
back, and keeps the turn running.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.errors import GatewayError
from ...base.events import INTERRUPTED, MessageDelta, RunCompleted, RunFailed, ToolCompleted, ToolStarted
from ...config.schema import GatewayConfig
from ...gateway.operations.conversation_entry import Conversations, EnteredMessage, session_name
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
from ..http.event_stream import EventStream, Write, cancel_when_gone, frame
from ..http.http_errors import (
    Draining,
    Refusal,
    json_response,
    openai_error,
    read_body,
    refusal_response,
)
from ..nodes.forwarding import SessionElsewhere
from .chat_messages import LONGEST_WITH_PICTURES, conversation_of, target_of
from .completion_request import completion_asked
from .run_routes import DONE, STOP_WITHIN

SESSION = "X-Hermes-Session-Id"
DEFAULT_MODEL = "default"
OWNER = "hermes-trio"
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


@dataclass(frozen=True, slots=True)
class CompletionRoutes:
    """The handlers of models and chat completions."""

    config: GatewayConfig
    runs: Runs
    conversations: Conversations
    gateway_over: trio.Event
    callers: Counter[str]
    """The number of clients that wait for the answer of each run."""
    elsewhere: SessionElsewhere

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`: the models that may be named. All of them are the gateway's own."""
        return json_response({"object": "list", "data": [_model(name) for name in _names(self.config)]})

    async def model(self, request: Request) -> Response:
        """`GET /v1/models/{id}`: one of the models."""
        name = request.path_params["model"]
        if name not in _names(self.config):
            raise Refusal(404, "model_not_found", "There is no such model.", "GET /v1/models has the list.")
        return json_response(_model(name))

    async def complete(self, request: Request) -> ASGIApp:
        """`POST /v1/chat/completions`: an answer, whole or as a stream. `X-Hermes-Session-Id` continues a
        session with its stored messages; without it the messages of the request are the whole conversation.
        The same request with the same `Idempotency-Key` gets the same answer."""
        body = await read_body(request, LONGEST_WITH_PICTURES)
        asked, session_id = completion_asked(body), request.headers.get(SESSION)
        target, content = target_of(request, body, session_id), conversation_of(asked.messages)
        if session_id is not None:
            content = replace(content, history=None, earlier_files=())
        if (elsewhere := await self.elsewhere(request, session_name(content, target), body)) is not None:
            return elsewhere
        is_stream, comes_again = asked.stream, target.key is not None
        has_usage_chunk = bool(asked.stream_options and asked.stream_options.include_usage)
        # A list, from which it is taken: it may hold a long conversation, and the answer lasts a whole turn.
        entering = [partial(self.conversations.enter, content, target)]

        async def respond(scope: Scope, receive: Receive, send: Send) -> None:
            run_id = self.runs.world.new_id()
            # Before the message is stored, so that no event of the run has to be read from its journal.
            with self.runs.journals.live.watching(run_id) as watch:
                entered = await entering.pop()(run_id)
                own_watch = watch if entered.posted.run_id == run_id else None
                completion = Completion(
                    self.runs,
                    entered,
                    own_watch,
                    model=_names(self.config)[-1],
                    has_usage_chunk=has_usage_chunk,
                )
                response: ASGIApp
                if is_stream:
                    response = EventStream(partial(self._stream, completion), {SESSION: entered.session})
                else:
                    waiting = partial(self._waiting, completion, comes_again=comes_again)
                    response = _WholeAnswer(completion, waiting)
                await response(scope, receive, send)

        return respond

    @asynccontextmanager
    async def _waiting(self, completion: Completion, *, comes_again: bool = False) -> AsyncIterator[None]:
        """Count a client that waits for this answer. If it goes before the end, stop the turn that was begun
        for it alone."""
        run_id, callers = completion.run_id, self.callers
        callers[run_id] += 1
        try:
            yield
        except BaseException:  # the client has gone: the answer was cancelled, or a write failed
            alone = completion.entered.is_ours and callers[run_id] == 1
            if alone and not comes_again and not self.gateway_over.is_set():
                with trio.move_on_after(STOP_WITHIN, shield=True):
                    await self.runs.stop(run_id)
            raise
        finally:
            callers[run_id] -= 1
            if not callers[run_id]:
                del callers[run_id]

    async def _stream(self, completion: Completion, write: Write) -> bytes:
        async def tell(record: Record) -> None:
            text = completion.add(record)
            if text:
                await write(frame(completion.chunk({"content": text})))
            if record.event in (ToolStarted.event, ToolCompleted.event):
                progress = completion.chunk({}, **_progress(record))
                await write(b"event: hermes.tool.progress\n" + frame(progress))

        async def silence() -> None:
            await write(b": heartbeat\n\n")

        async with self._waiting(completion):
            await write(frame(completion.chunk({"role": "assistant", "content": ""})))
            await completion.follow(RunFollower(tell, _ignore, silence))
        if completion.is_answered:
            return b"".join(map(frame, completion.last_chunks())) + DONE
        refusal = await completion.refusal()
        return frame(completion.chunk({}, "error", error=openai_error(refusal))) + DONE


def _names(config: GatewayConfig) -> list[str]:
    return [DEFAULT_MODEL, *([config.model.name] if config.model.name else [])]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


class Completion:
    """An answer in the making, and its chunks for the client."""

    def __init__(
        self,
        runs: Runs,
        entered: EnteredMessage,
        watch: Subscription | None,
        *,
        model: str,
        has_usage_chunk: bool,
    ) -> None:
        """`watch` is a subscription that has all events of the run, if there is one. `has_usage_chunk` says
        that a stream sends the usage in a chunk of its own, without choices."""
        self.runs, self.entered, self._watch = runs, entered, watch
        self.run_id = entered.posted.run_id
        self.text = ""
        self.end: Record | None = None
        self._model, self._has_usage_chunk = model, has_usage_chunk
        self._made_at = int(runs.world.time())
        self._is_after_tools = False

    @property
    def is_answered(self) -> bool:
        return self.end is not None and self.end.event == RunCompleted.event

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

    def response(self) -> Response:
        """Return the whole answer."""
        headers = {SESSION: self.entered.session}
        if not self.is_answered:
            code = fields_of(self.end).get("code", "") if self.end is not None else ""
            error = code if re.fullmatch(r"\w+", code, re.ASCII) else "incomplete"
            headers |= {"X-Hermes-Completed": "false", "X-Hermes-Partial": "true", "X-Hermes-Error": error}
        message = {"role": "assistant", "content": self.text, "refusal": None}
        reason = "stop" if self.is_answered else "length"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return json_response(self._headed("chat.completion", [choice], usage=self.usage), headers=headers)

    def chunk(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
        """Return one chunk of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        if self._has_usage_chunk:
            more = {"usage": None, **more}
        return self._headed("chat.completion.chunk", [choice], **more)

    def last_chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks after the text of an answer. Only the last of them has the usage, because many
        clients add up the usage of all chunks."""
        if self._has_usage_chunk:
            yield self.chunk({}, "stop")
            yield self._headed("chat.completion.chunk", [], usage=self.usage)
        else:
            yield self.chunk({}, "stop", usage=self.usage)

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of the turn; zeros if they are unknown, because clients expect numbers."""
        used = fields_of(self.end).get("usage", {}) if self.end is not None else {}
        prompt, completion = used.get("input_tokens", 0), used.get("output_tokens", 0)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _headed(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        head = {"id": f"chatcmpl-{self.run_id}", "object": kind, "created": self._made_at}
        return {**head, "model": self._model, "choices": choices, **more}


class _WholeAnswer:
    """A response that is made when the run is over, if the client is still there."""

    def __init__(
        self, completion: Completion, waiting: Callable[[], AbstractAsyncContextManager[None]]
    ) -> None:
        """`waiting` opens the block in which the client counts as waiting."""
        self._completion, self._waiting = completion, waiting
        self._error: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(cancel_when_gone, receive, nursery.cancel_scope)
            await self._follow()
            nursery.cancel_scope.cancel(reason="the run is over")
        if self._error is not None:
            raise self._error
        if self._completion.text or self._completion.is_answered:
            response = self._completion.response()
        else:
            response = refusal_response(await self._completion.refusal(), scope["path"])
        await response(scope, receive, send)

    async def _follow(self) -> None:
        completion = self._completion

        async def tell(record: Record) -> None:
            completion.add(record)
            await trio.lowlevel.checkpoint()

        try:
            async with self._waiting():
                await completion.follow(RunFollower(tell, _ignore, _ignore))
        except GatewayError as error:
            self._error = error  # raised in the nursery it would come in a group


async def _ignore() -> None:
    """Ignore a gap or a silence: no part of an answer tells the client about it."""
    await trio.lowlevel.checkpoint()


def _progress(record: Record) -> dict[str, Any]:
    fields = fields_of(record)
    status = (
        "running" if record.event == ToolStarted.event else "failed" if fields.get("error") else "completed"
    )
    return {
        "tool": fields.get("tool"),
        "label": fields.get("preview", ""),
        "toolCallId": fields.get("call_id"),
        "status": status,
    }
