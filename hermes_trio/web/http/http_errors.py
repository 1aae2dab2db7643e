"""Errors for clients: `{error: {code, message, remedy}}`, and on paths below `/v1/` the same in OpenAI's
form. Also reading a request's body, because most errors of a client are found there."""

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
"""Paths that begin with this get errors in OpenAI's form."""
MB = 1024 * 1024
LONGEST_BODY = 10 * MB
RETRY_AFTER = 5
"""Seconds after which a client may try again."""

_TYPES = "GET /openapi.json has the fields and their types."
_PLACE = re.compile(r" - at `\$\.([^`]+)`\Z")
"""The field name in a message of msgspec."""

T = TypeVar("T")

log = Log(__name__)


class Refusal(GatewayError):
    """A request that is refused, with its status, code, message and remedy."""

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
    """A thing with this name does not exist."""

    def __init__(self, what: str, remedy: str) -> None:
        super().__init__(404, "not_found", f"There is no such {what}.", remedy)


class Draining(Refusal):
    """No turn begins now."""

    def __init__(self) -> None:
        super().__init__(
            503,
            "gateway_draining",
            "The gateway is stopping or held, and begins no turn now.",
            "Try again when GET /ready answers 200.",
            {"Retry-After": str(RETRY_AFTER)},
        )


def json_response(value: object, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as JSON."""
    body = msgspec.json.encode(value)
    return Response(body, status, headers=headers, media_type="application/json")


def refusal_response(refusal: Refusal, path: str) -> Response:
    """Return the answer to a refused request for this path."""
    if path.startswith(OPENAI):
        error = openai_error(refusal)
    else:
        error = {"code": refusal.code, "message": refusal.message, "remedy": refusal.remedy}
    return json_response({"error": error}, refusal.status, refusal.headers)


_TYPES_OF_OPENAI = {
    401: "authentication_error",
    403: "permission_error",
    424: "model_error",
    429: "rate_limit_error",
}


def openai_error(refusal: Refusal) -> dict[str, Any]:
    """Return an error in OpenAI's form."""
    kind = "server_error" if refusal.status >= 500 else "invalid_request_error"
    return {
        "message": f"{refusal.message} {refusal.remedy}",
        "type": _TYPES_OF_OPENAI.get(refusal.status, kind),
        "param": refusal.param,
        "code": refusal.code,
    }


async def read_json(request: Request, kind: type[T], *, longest: int = LONGEST_BODY) -> T:
    """Read the body of a request as a value of this type. An empty body is an empty object."""
    return parsed(await read_body(request, longest), kind)


def parsed(body: bytes, kind: type[T]) -> T:
    """Return a body as a value of this type."""
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        place = _PLACE.search(str(error))
        raise Refusal(400, "wrong_type", f"{error}.", _TYPES, param=place[1] if place else None) from None
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise Refusal(400, "bad_json", f"The body is not JSON: {error}.", "Send one JSON object.") from None


async def read_body(request: Request, longest: int = LONGEST_BODY) -> bytes:
    """Read the body of a request. One that is too long is refused as soon as this is known, usually before
    it is sent."""
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
    assert isinstance(error, Refusal)  # noqa: S101 - it is registered for this type
    return refusal_response(error, request.scope["path"])


async def on_http_error(request: Request, error: Exception) -> Response:
    """Answer a request for an unknown path, or with a wrong method."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for this type
    code = {404: "not_found", 405: "method_not_allowed"}.get(error.status_code, "refused")
    remedy = "GET /openapi.json has all paths and their methods."
    headers = dict(error.headers) if error.headers else None
    refusal = Refusal(error.status_code, code, f"{error.detail}.", remedy, headers)
    return refusal_response(refusal, request.scope["path"])


async def on_invalid_id(request: Request, error: Exception) -> Response:
    assert isinstance(error, InvalidId)  # noqa: S101 - it is registered for this type
    refusal = Refusal(400, "bad_id", f"This is not a valid {error.what}.", f"It has {error.rule}.")
    return refusal_response(refusal, request.scope["path"])


async def on_gateway_error(request: Request, error: Exception) -> Response:
    """Answer a request that the gateway could not fulfil, for example because the disk is full."""
    log.error("request failed", path=request.url.path, error=str(error))
    status, code = (503, "store_unavailable") if isinstance(error, StoreError) else (500, "gateway_error")
    refusal = Refusal(status, code, "The gateway could not do this.", str(error))
    return refusal_response(refusal, request.scope["path"])


async def on_bug(request: Request, error: Exception) -> Response:
    """Answer a request in which our code failed. The caller logs the error."""
    remedy = "Read the log of the gateway, and report the error."
    refusal = Refusal(500, "internal", "The gateway has a bug.", remedy)
    return refusal_response(refusal, request.scope["path"])


HANDLERS = {
    Refusal: on_refusal,
    InvalidId: on_invalid_id,
    GatewayError: on_gateway_error,
    HTTPException: on_http_error,
    Exception: on_bug,
}
