"""Chat completions in OpenAI's form: a turn of the agent, whole or as a stream.

The agent uses its own tools. A client sees each use and need not act: in a stream it is an event with a name
of its own, whose chunk is empty for clients that do not know the name.

| the turn ends | whole | as a stream |
|---|---|---|
| answered | 200 | `finish_reason` stop, and the usage in the last chunk |
| not answered, with some text | 200, `finish_reason` length, `X-Hermes-Completed: false` | an error |
| not answered, without text | 502 `agent_incomplete`, or by the model's error, see below | an error |
| before it began, because the gateway stops | 503 `gateway_draining` | an error |

An error in a stream is a chunk that has `error`; `[DONE]` is always the last.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from ...base.events import ToolCompleted, ToolStarted
from ...config.schema import GatewayConfig
from ...gateway.operations.conversation_entry import Conversations, session_name
from ...gateway.operations.run_follower import RunFollower, fields_of
from ...gateway.operations.run_state import Runs
from ...journal.record import Record
from ..http.event_stream import Write, frame
from ..http.http_errors import Refusal, json_response, openai_error, read_body
from ..nodes.forwarding import SessionElsewhere
from .answer import SESSION, Answer, Callers, ignore, responding
from .chat_messages import LONGEST_WITH_PICTURES, conversation_of, target_of
from .completion_request import ChatCompletion
from .parameters import asked_for
from .run_routes import DONE

DEFAULT_MODEL = "default"
OWNER = "hermes-trio"


@dataclass(frozen=True, slots=True)
class CompletionRoutes:
    """The handlers of models and chat completions."""

    config: GatewayConfig
    runs: Runs
    conversations: Conversations
    callers: Callers
    elsewhere: SessionElsewhere

    async def models(self, request: Request) -> Response:
        """`GET /v1/models`: the models that may be named. All of them are the gateway's own."""
        return json_response({"object": "list", "data": [_model(name) for name in model_names(self.config)]})

    async def model(self, request: Request) -> Response:
        """`GET /v1/models/{id}`: one of the models."""
        name = request.path_params["model"]
        if name not in model_names(self.config):
            raise Refusal(404, "model_not_found", "There is no such model.", "GET /v1/models has the list.")
        return json_response(_model(name))

    async def complete(self, request: Request) -> ASGIApp:
        """`POST /v1/chat/completions`: an answer, whole or as a stream. `X-Hermes-Session-Id` continues a
        session with its stored messages; without it the messages of the request are the whole conversation.
        The same request with the same `Idempotency-Key` gets the same answer."""
        body = await read_body(request, LONGEST_WITH_PICTURES)
        asked, session_id = asked_for(body, ChatCompletion), request.headers.get(SESSION)
        target, content = target_of(request, body, session_id), conversation_of(asked.messages)
        if session_id is not None:
            content = replace(content, history=None, earlier_files=())
        if (elsewhere := await self.elsewhere(request, session_name(content, target), body)) is not None:
            return elsewhere
        has_usage_chunk = bool(asked.stream_options and asked.stream_options.include_usage)
        model = model_names(self.config)[-1]
        return responding(
            self.callers,
            partial(self.conversations.enter, content, target),
            lambda answer: Completion(answer, model, has_usage_chunk),
            is_stream=bool(asked.stream),
            comes_again=target.key is not None,
        )


def model_names(config: GatewayConfig) -> list[str]:
    """Return the names of models that a client may give; the last one is in answers."""
    return [DEFAULT_MODEL, *([config.model.name] if config.model.name else [])]


def _model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": OWNER}


@dataclass(frozen=True, slots=True)
class Completion:
    """An answer in the form of a chat completion, whole or in chunks."""

    answer: Answer
    model: str
    has_usage_chunk: bool
    """A stream sends the usage in a chunk of its own, without choices."""

    def response(self) -> Response:
        """Return the whole answer."""
        answer, headers = self.answer, {SESSION: self.answer.entered.session}
        if not answer.is_answered:
            code = fields_of(answer.end).get("code", "") if answer.end is not None else ""
            error = code if re.fullmatch(r"\w+", code, re.ASCII) else "incomplete"
            headers |= {"X-Hermes-Completed": "false", "X-Hermes-Partial": "true", "X-Hermes-Error": error}
        message = {"role": "assistant", "content": answer.text, "refusal": None}
        reason = "stop" if answer.is_answered else "length"
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason}
        return json_response(self._headed("chat.completion", [choice], usage=self.usage), headers=headers)

    async def stream(self, callers: Callers, write: Write) -> bytes:
        """Write the chunks of the answer, and return the last ones."""
        answer = self.answer

        async def tell(record: Record) -> None:
            text = answer.add(record)
            if text:
                await write(frame(self.chunk({"content": text})))
            if record.event in (ToolStarted.event, ToolCompleted.event):
                await write(b"event: hermes.tool.progress\n" + frame(self.chunk({}, **_progress(record))))

        async def silence() -> None:
            await write(b": heartbeat\n\n")

        async with callers.waiting(answer):
            await write(frame(self.chunk({"role": "assistant", "content": ""})))
            await answer.follow(RunFollower(tell, ignore, silence))
        if answer.is_answered:
            return b"".join(map(frame, self.last_chunks())) + DONE
        refusal = await answer.refusal()
        return frame(self.chunk({}, "error", error=openai_error(refusal))) + DONE

    def chunk(self, delta: dict[str, Any], reason: str | None = None, **more: Any) -> dict[str, Any]:
        """Return one chunk of a stream."""
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
        if self.has_usage_chunk:
            more = {"usage": None, **more}
        return self._headed("chat.completion.chunk", [choice], **more)

    def last_chunks(self) -> Iterator[dict[str, Any]]:
        """Yield the chunks after the text of an answer. Only the last of them has the usage, because many
        clients add up the usage of all chunks."""
        if self.has_usage_chunk:
            yield self.chunk({}, "stop")
            yield self._headed("chat.completion.chunk", [], usage=self.usage)
        else:
            yield self.chunk({}, "stop", usage=self.usage)

    @property
    def usage(self) -> dict[str, int]:
        """The tokens of the turn."""
        prompt, completion = self.answer.tokens
        return {
            "prompt_tokens": prompt,
            "completion_tokens": completion,
            "total_tokens": prompt + completion,
        }

    def _headed(self, kind: str, choices: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        head = {"id": f"chatcmpl-{self.answer.run_id}", "object": kind, "created": self.answer.made_at}
        return {**head, "model": self.model, "choices": choices, **more}


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
