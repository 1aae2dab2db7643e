"""Answers in the form of OpenAI, for programs that know no other: a turn of the agent as a chat completion.

The agent uses its own tools, and a client sees that they are used and need not do anything: in a stream, each
use is an event of its own name, which is a piece of the answer with nothing in it for who does not know it.

| how the turn ends | whole | as a stream |
|---|---|---|
| answered | 200 | `finish_reason` stop, and the usage in the last piece |
| not answered, but something was said | 200, `finish_reason` length, `X-Hermes-Completed: false` | an error |
| not answered, and nothing was said | 502 `agent_incomplete`, or by the model's error, see below | an error |
| not begun, for the gateway goes | 503 `gateway_draining` | an error |

An error in a stream is a piece that has `error`; `[DONE]` is the last in any case. Who goes away in the
middle ends the turn that was begun for them alone. Without a stream, an idempotency key says that they come
again.
"""

from __future__ import annotations

import math
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import trio
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from ...base.errors import GatewayError
from ...base.events import INTERRUPTED, MessageDelta, RunCompleted, RunFailed, ToolCompleted, ToolStarted
from ...config.schema import GatewayConfig
from ...journal.record import Record
from ..api.event_stream import EventStream, Write, frame, until_gone
from ..api.run_follower import Follower, fields_of, follow, standing
from ..api.run_routes import DONE, STOP_WITHIN, drop, stop_run
from ..http.http_errors import Draining, Refusal, answer, openai_error, read_body, told
from .completion_request import ChatCompletion, completion_asked
from .openai_sessions import Entered, Said, enter, place_of, said_in

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ..app import Web

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
"""The status of an answer to a client whose turn failed because of the model. Clients send a request again
after 408, 409, 429 and 5xx, so an error that lasts has another status: 400 where the request is at fault, and
424 (Failed Dependency) where the owner of the gateway has to act. Not 401, 403 or 404 for the latter: the
client's own key is good, and so are its address and its model name; it would ask its user for others."""


async def models(web: Web, request: Request) -> Response:
    """`GET /v1/models`: who answers."""
    return answer({"object": "list", "data": [_model(name) for name in _names(web.gateway.home.config)]})


async def model(web: Web, request: Request) -> Response:
    """`GET /v1/models/{id}`"""
    name = request.path_params["model"]
    if name not in _names(web.gateway.home.config):
        raise Refusal(404, "model_not_found", "There is no such model.", "GET /v1/models has the list.")
    return answer(_model(name))


def _names(config: GatewayConfig) -> list[str]:
    return [DEFAULT_MODEL, *([config.model.name] if config.model.name else [])]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


async def complete(web: Web, request: Request) -> ASGIApp:
    """`POST /v1/chat/completions`: an answer, whole or while it is written. `X-Hermes-Session-Id` continues a
    session, with what is stored there; else the messages are all there is. An `Idempotency-Key` makes the
    same request, sent again, the same answer."""
    body = await read_body(request)
    asked, session_id = completion_asked(body), request.headers.get(SESSION)
    place, said = place_of(request, body, session_id), said_in(asked.messages)
    if session_id is not None:
        said = Said(said.text, None, said.instructions)
    entered = await enter(web, said, place)
    reply = Reply(web.gateway, entered, asked)
    if asked.stream:
        return EventStream(partial(_stream, web, reply), {SESSION: entered.session})
    return _Whole(web, reply, comes_again=place.key is not None)


class Reply:
    """An answer that comes into being, and the pieces of it as a client sees them."""

    def __init__(self, gateway: Gateway, entered: Entered, asked: ChatCompletion) -> None:
        self.gateway, self.entered = gateway, entered
        self.run_id = entered.posted.run_id
        self.text = ""
        self.end: Record | None = None
        self._has_usage_chunk = bool(asked.stream_options and asked.stream_options.include_usage)
        """Whether the usage is sent in a chunk of its own, without choices."""
        self._model = _names(gateway.home.config)[-1]
        self._made_at = int(gateway.home.world.time())
        self._is_behind_tools = False

    @property
    def is_answered(self) -> bool:
        return self.end is not None and self.end.event == RunCompleted.event

    def piece_of(self, record: Record) -> str:
        """What an event adds to the text: what is said behind a tool stands apart, as in a chat."""
        said, piece = fields_of(record), ""
        if record.terminal:
            self.end = record
            output = said.get("output", "")
            piece = "" if self.text.endswith(output) else output
            self._is_behind_tools = True
        elif record.event == MessageDelta.event:
            piece = said.get("delta", "")
        elif record.event in (ToolStarted.event, ToolCompleted.event):
            self._is_behind_tools = True
        if piece and self.text and self._is_behind_tools:
            piece = "\n\n" + piece
        if piece:
            self.text, self._is_behind_tools = self.text + piece, False
        return piece

    async def unbegun(self) -> bool:
        """Whether it has not begun, because the gateway goes, and is not begun later: what nobody will fetch
        must not be answered twice, once for nobody. Who has a key may come for it."""
        if self.end is not None and fields_of(self.end).get("code") != INTERRUPTED:
            return False
        stands = await standing(self.gateway, self.run_id)
        if stands is None or not stands.waits:
            return False
        if self.entered.is_ours and stands.message is not None and stands.message.event.fingerprint is None:
            await drop(self.gateway, stands)
        return True

    async def refusal(self) -> Refusal:
        """Why there is no answer."""
        if await self.unbegun():
            return Draining()
        said = fields_of(self.end) if self.end is not None and self.end.event == RunFailed.event else {}
        message = said.get("error") or "The run was stopped."
        remedy = f"GET /v1/runs/{self.run_id} says what has become of it."
        headers, code = {SESSION: self.entered.session}, said.get("code", "")
        if said.get("retry_after") is not None:
            headers["Retry-After"] = str(math.ceil(said["retry_after"]))
        status = STATUS_OF_MODEL_ERRORS.get(code)
        if status is None:
            status, code = 502, "agent_incomplete"
        return Refusal(status, code, message, remedy, headers)

    def whole(self) -> Response:
        """All of it at once."""
        headers = {SESSION: self.entered.session}
        if not self.is_answered:
            code = fields_of(self.end).get("code", "") if self.end is not None else ""
            error = code if re.fullmatch(r"\w+", code, re.ASCII) else "incomplete"
            headers |= {"X-Hermes-Completed": "false", "X-Hermes-Partial": "true", "X-Hermes-Error": error}
        message = {"role": "assistant", "content": self.text, "refusal": None}
        reason = "stop" if self.is_answered else "length"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return answer(self._headed("chat.completion", [choice], usage=self.usage), headers=headers)

    def chunk(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
        """A piece of it."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        if self._has_usage_chunk:
            more = {"usage": None, **more}
        return self._headed("chat.completion.chunk", [choice], **more)

    def last_chunks(self) -> Iterator[dict[str, Any]]:
        """Return the chunks after the text of an answer. The usage stands in the last of them and in no
        other, because many clients add up the usage of all chunks."""
        if self._has_usage_chunk:
            yield self.chunk({}, "stop")
            yield self._headed("chat.completion.chunk", [], usage=self.usage)
        else:
            yield self.chunk({}, "stop", usage=self.usage)

    @property
    def usage(self) -> dict[str, int]:
        """What it took; clients read these numbers without looking whether they are there."""
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


async def _nothing() -> None:
    """What is missing of an answer is missing, and nobody is told that nothing happens."""
    await trio.lowlevel.checkpoint()


@asynccontextmanager
async def _waiting(web: Web, reply: Reply, *, comes_again: bool = False) -> AsyncIterator[None]:
    """A client waits for this. If it goes before the end, the turn ends that was begun for it alone."""
    run_id, gateway = reply.run_id, reply.gateway
    web.callers[run_id] += 1
    try:
        yield
    except BaseException:  # the client has gone: cancelled, or broken off in the middle of a write
        alone = reply.entered.is_ours and web.callers[run_id] == 1
        if alone and not comes_again and not gateway.shutdown.work_over.is_set():
            with trio.move_on_after(STOP_WITHIN, shield=True):
                await stop_run(gateway, run_id)
        raise
    finally:
        web.callers[run_id] -= 1
        if not web.callers[run_id]:
            del web.callers[run_id]


class _Whole:
    """A response that is made when the run is over, if the client is still there then."""

    def __init__(self, web: Web, reply: Reply, *, comes_again: bool) -> None:
        self._web, self._reply, self._comes_again = web, reply, comes_again
        self._trouble: GatewayError | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_gone, receive, nursery.cancel_scope)
            await self._follow()
            nursery.cancel_scope.cancel(reason="the run is over")
        if self._trouble is not None:
            raise self._trouble
        if self._reply.text or self._reply.is_answered:
            response = self._reply.whole()
        else:
            response = told(await self._reply.refusal(), scope["path"])
        await response(scope, receive, send)

    async def _follow(self) -> None:
        async def tell(record: Record) -> None:
            self._reply.piece_of(record)
            await trio.lowlevel.checkpoint()

        try:
            async with _waiting(self._web, self._reply, comes_again=self._comes_again):
                await follow(self._reply.gateway, self._reply.run_id, Follower(tell, _nothing, _nothing))
        except GatewayError as error:
            self._trouble = error  # out of a nursery it would come in a group


async def _stream(web: Web, reply: Reply, write: Write) -> None:
    async def tell(record: Record) -> None:
        piece = reply.piece_of(record)
        if piece:
            await write(frame(reply.chunk({"content": piece})))
        if record.event in (ToolStarted.event, ToolCompleted.event):
            await write(b"event: hermes.tool.progress\n" + frame(reply.chunk({}, **_progress(record))))

    async def silence() -> None:
        await write(b": heartbeat\n\n")

    async with _waiting(web, reply):
        await write(frame(reply.chunk({"role": "assistant", "content": ""})))
        await follow(web.gateway, reply.run_id, Follower(tell, _nothing, silence))
    if reply.is_answered:
        for chunk in reply.last_chunks():
            await write(frame(chunk))
    else:
        refusal = await reply.refusal()
        await write(frame(reply.chunk({}, "error", error=openai_error(refusal))))
    await write(DONE)


def _progress(record: Record) -> dict[str, Any]:
    said = fields_of(record)
    status = (
        "running" if record.event == ToolStarted.event else "failed" if said.get("error") else "completed"
    )
    return {
        "tool": said.get("tool"),
        "label": said.get("preview", ""),
        "toolCallId": said.get("call_id"),
        "status": status,
    }
