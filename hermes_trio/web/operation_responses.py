"""The refusal that a client gets for each error of an operation."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from ..gateway.intake.requests import NoTurnsNow, TooManyWait
from ..gateway.operations.api_sessions import SessionUnreachable
from ..gateway.operations.conversation_entry import HistoryOfChat, IdempotencyKeyReused
from ..gateway.operations.operation_errors import OperationRefused
from .http.http_errors import RETRY_AFTER, Draining, Refusal, refusal_response

STATUS_AND_CODE: dict[type[Exception], tuple[int, str]] = {
    SessionUnreachable: (409, "no_way_to_chat"),
    HistoryOfChat: (409, "history_of_chat"),
    IdempotencyKeyReused: (422, "idempotency_key_reused"),
}


async def on_operation_refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, OperationRefused)  # noqa: S101 - it is registered for this type
    status, code = STATUS_AND_CODE[type(error)]
    return refusal_response(Refusal(status, code, error.message, error.remedy), request.scope["path"])


async def on_no_turns_now(request: Request, error: Exception) -> Response:
    return refusal_response(Draining(), request.scope["path"])


async def on_too_many_wait(request: Request, error: Exception) -> Response:
    wait = {"Retry-After": str(RETRY_AFTER)}
    remedy = "Wait until one is answered."
    refusal = Refusal(429, "too_many_waiting", str(error), remedy, wait)
    return refusal_response(refusal, request.scope["path"])


OPERATION_HANDLERS = {
    OperationRefused: on_operation_refused,
    NoTurnsNow: on_no_turns_now,
    TooManyWait: on_too_many_wait,
}
