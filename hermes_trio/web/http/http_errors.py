"""What a client is told that does not get what it asked for: `{error: {code, message, remedy}}`, and below
`/v1/` the same in the form that clients of OpenAI know; and how a body is read, since most of that is found
out there."""

from __future__ import annotations

import re
from typing import Any, TypeVar

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ...base.errors import GatewayError, InvalidId, StoreError
from ...log import Log
from .connection import Hangup

OPENAI = "/v1/"
"""What the paths of that form begin with."""
MB = 1024 * 1024
LONGEST_BODY = 10 * MB
RETRY_AFTER = 5
"""Seconds after which it is worth asking again."""

_TYPES = "GET /openapi.json has the fields and their types."
_PLACE = re.compile(r" - at `\$\.([^`]+)`\Z")
"""Where msgspec names the field that is wrong."""

T = TypeVar("T")

log = Log(__name__)


class Refusal(GatewayError):
    """Something a client asked for and does not get."""

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        remedy: str,
        headers: dict[str, str] | None = None,
        *,
        param: str | None = None,
    ) -> None:
        """`param` names the parameter of the body that is refused."""
        super().__init__(f"{message} {remedy}")
        self.status, self.code, self.message, self.remedy = status, code, message, remedy
        self.headers, self.param = headers, param


class NotThere(Refusal):
    """There is nothing of this name."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(404, "not_found", f"There is no such {what}.", remedy)


class Draining(Refusal):
    """No turn begins now."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "gateway_draining",
            "The gateway is ending or held, and begins no turn now.",
            "Ask again when GET /ready answers 200.",
            {"Retry-After": str(RETRY_AFTER)},
        )


def answer(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """A value as JSON."""
    body = msgspec.json.encode(value)
    return Response(body, status, headers=headers, media_type="application/json")


def told(refusal: Refusal, path: str) -> Response:
    """What the client reads that asked for this path."""
    if path.startswith(OPENAI):
        error = openai_error(refusal)
    else:
        error = {"code": refusal.code, "message": refusal.message, "remedy": refusal.remedy}
    return answer({"error": error}, refusal.status, refusal.headers)


_TYPES_OF_OPENAI = {
    401: "authentication_error",
    403: "permission_error",
    424: "model_error",
    429: "rate_limit_error",
}


def openai_error(refusal: Refusal) -> dict[str, Any]:
    """An error as clients of OpenAI know it."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "message": f"{refusal.message} {refusal.remedy}",
        "type": _TYPES_OF_OPENAI.get(refusal.status, kind),
        "param": refusal.param,
        "code": refusal.code,
    }


async def read_json(request: Request, kind: type[T], *, longest: int = LONGEST_BODY) -> T:
    """The body of a request, as a value of this type; no body is an empty object."""
    return parsed(await read_body(request, longest), kind)


def parsed(body: bytes, kind: type[T]) -> T:
    """A body that was read, as a value of this type."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        raise Refusal(400, "wrong_type", f"{error}.", _TYPES, param=place[1] if place else None) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, "bad_json", f"The body is no JSON: {error}.", "Send one JSON object.") from None


async def read_body(request: Request, longest: int = LONGEST_BODY) -> bytes:
    """The body of a request. One that is longer is refused as soon as that is known: most often before it
    is sent."""
    length = request.headers.get("content-length", "0")
    size, pieces, more = 0, [], True
    while more and int(length) <= longest >= size:
        message = await request.receive()
        if message["type"] == "http.disconnect":
            raise Hangup
        pieces.append(message.get("body", b""))
        size += len(pieces[-1])
        more = message.get("more_body", False)
    if more or size > longest:
        limit = f"{longest // MB} MB" if longest >= MB else f"{longest // 1024} KB"
        raise Refusal(413, "too_large", f"The body is larger than {limit}.", "Send less at a time.")
    return b"".join(pieces)


async def on_refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 - what it is registered for
    return told(error, request.scope["path"])


async def on_http_error(request: Request, error: Exception) -> Response:
    """What the router refuses: no such path, no such method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - what it is registered for
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    remedy = "GET /openapi.json has all paths, and what each of them takes."
    headers = dict(error.headers) if error.headers else None
    return told(Refusal(error.status_code, code, f"{error.detail}.", remedy, headers), request.scope["path"])


async def on_invalid_id(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidId)  # noqa: S101 - what it is registered for
    refusal = Refusal(400, "bad_id", f"This is no {error.what}.", f"It has {error.rule}.")
    return told(refusal, request.scope["path"])


async def on_gateway_error(request: Request, error: Exception) -> Response:
    """What we could not do: the disk is full, say."""
    log.error("a request could not be answered", path=request.url.path, error=str(error))
    status, code = (503, "store_unavailable") if isinstance(error, StoreError) else (500, "gateway_error")
    refusal = Refusal(status, code, "The gateway could not do that.", str(error))
    return told(refusal, request.scope["path"])


async def on_mistake(request: Request, error: Exception) -> Response:
    """A mistake of ours. Whoever called us logs it."""
    remedy = "Look into the log of the gateway, and report it."
    return told(Refusal(500, "internal", "The gateway made a mistake.", remedy), request.scope["path"])


HANDLERS = {
    Refusal: on_refusal,
    InvalidId: on_invalid_id,
    GatewayError: on_gateway_error,
    HTTPException: on_http_error,
    Exception: on_mistake,
}
