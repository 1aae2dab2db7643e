"""Mapping of a server's error to a `ModelError`. Pure functions of both the HTTP status and the text, because
servers agree on neither.

An error is in the body of a refused request, or in the middle of a stream that began with status 200.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

import msgspec

from .endpoint import Endpoint
from .model_errors import (
    ContentRefused,
    ContextTooLong,
    KeyRefused,
    ModelError,
    ModelUnknown,
    NoCredit,
    NotAModelServer,
    Overloaded,
    RateLimited,
    RequestRefused,
    ServerTrouble,
)

_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|context (?:length|window|size)|prompt is too long"
    r"|input is too long|too many (?:input )?tokens|maximum (?:prompt|input) length|request_too_large"
    r"|exceeds? the (?:model's )?(?:maximum|max|token) (?:length|limit|number of tokens)"
)
_CONTEXT_LIMIT = re.compile(
    r"(?:maximum context length is|context size \(|context (?:length|window) (?:is|of|limit of)|>) *(\d{3,8})"
    r"|n_ctx\W{1,4}(\d{3,8})"
)
_NO_CREDIT = re.compile(
    r"insufficient_quota|billing|credit balance|insufficient (?:credits?|balance|funds)|payment required"
    r"|exceeded your current quota"
)
_TEMPORARY = re.compile(r"try again|resets? (?:at|in)|temporar")
_NO_MODEL = re.compile(
    r"model_not_found|model:? *[`'\"]?[\w./:@-]*[`'\"]? *(?:is |was |does )?"
    r"not (?:found|exist|supported|available)"
    r"|(?:unknown|invalid|no such) model|not a valid model|no endpoints found"
)
_CONTENT = re.compile(
    r"content_policy|content_filter|content management policy|usage policies|moderation|flagged"
    r"|invalid_prompt|safety system"
)
_SECONDS = re.compile(r"(?:try again in|retrydelay\W{1,5}) *(\d+(?:\.\d+)?) *(ms|s)\b")
_NO_KEY = "Set model.api_key, or the variable of the provider, such as OPENAI_API_KEY; then restart."
_BY_TYPE = (
    ("overloaded", 529),
    ("rate_limit", 429),
    ("authentication", 401),
    ("invalid_api_key", 401),
    ("permission", 403),
    ("not_found", 404),
    ("invalid_request", 400),
    ("badrequest", 400),
)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that the server asks to wait before the next request; None if it names none."""
    if milliseconds := _number(headers.get("retry-after-ms")):
        return milliseconds / 1000
    value = headers.get("retry-after")
    if value is None:
        return None
    seconds = _number(value)
    if seconds is None:
        try:
            moment = parsedate_to_datetime(value)
        except ValueError:
            return None
        seconds = ((moment if moment.tzinfo else moment.replace(tzinfo=UTC)) - now).total_seconds()
    return max(0.0, seconds)


def _number(text: str | None) -> float | None:
    return float(text) if text and re.fullmatch(r"\s*\d{1,9}(?:\.\d{0,9})?\s*", text) else None


def response_error(
    endpoint: Endpoint, status: int, headers: Mapping[str, str], body: bytes, now: datetime
) -> ModelError:
    """Return the error for an HTTP response with this status."""
    try:
        payload = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError):
        payload = body.decode("utf-8", "replace")
        if "<html" in payload[:2000].lower() or "<!doctype" in payload[:200].lower():
            payload = ""  # an HTML page: nothing in it is worth quoting
    return _error(endpoint, status, payload, retry_after(headers, now))


def stream_error(endpoint: Endpoint, payload: object) -> ModelError | None:
    """Return the error for a message in a stream; None if the message is no error."""
    match payload:
        case {"error": None} | {"error": ""} | {"error": False}:
            return None
        case {"error": _} | {"error_message": _} | {"object": "error"} | {"type": "error"}:
            return _error(endpoint, None, payload, None)
    return None


def _error(endpoint: Endpoint, status: int | None, payload: object, after: float | None) -> ModelError:
    """Return the error for a status, if known, and a payload."""
    kind, said, code = _details(payload)
    lower_text = f"{kind} {said}".lower()
    all_text = f"{lower_text} {payload}".lower()
    if status is None:
        status = code or next((number for word, number in _BY_TYPE if word in lower_text), 500)
    if after is None and (wait := _SECONDS.search(all_text)):
        after = float(wait[1]) / (1000 if wait[2] == "ms" else 1)
    is_client_error = 400 <= status < 500
    if status < 400:
        return NotAModelServer(endpoint, said=f"it answers {status}")
    if status == 413 or (
        status != 429 and _CONTEXT.search(lower_text) and (is_client_error or "exceed" in lower_text)
    ):
        limit = _CONTEXT_LIMIT.search(all_text)
        return ContextTooLong(endpoint, said=said, limit=int(limit[1] or limit[2]) if limit else None)
    if status == 402 and _TEMPORARY.search(lower_text):
        return RateLimited(endpoint, said=said, after=after)
    if status == 402 or (is_client_error and _NO_CREDIT.search(lower_text)):
        return NoCredit(endpoint, said=said)
    if status == 429:
        return RateLimited(endpoint, said=said, after=after)
    if is_client_error and _CONTENT.search(lower_text):
        return ContentRefused(endpoint, said=said)
    if status in (401, 403):
        # The text is not quoted: many servers repeat the key in it, or a part of it.
        if endpoint.api_key:
            return KeyRefused(endpoint)
        return KeyRefused(endpoint, problem="it wants a key", remedy=_NO_KEY)
    if status == 404 or (is_client_error and _NO_MODEL.search(lower_text)):
        return ModelUnknown(endpoint, said=said)
    if status in (503, 529) or "overloaded" in lower_text:
        return Overloaded(endpoint, said=said, after=after)
    if status == 408 or status >= 500:
        return ServerTrouble(endpoint, said=said, after=after)
    return RequestRefused(endpoint, said=said)


def _details(payload: object) -> tuple[str, str, int | None]:
    """Return the type, the message and the status code in an error of any shape."""
    if isinstance(payload, list) and payload:
        payload = payload[0]  # the format of Google
    if not isinstance(payload, dict):
        return "", payload if isinstance(payload, str) else "", None
    inner: dict[str, Any] = payload
    if isinstance(payload.get("error"), dict):
        inner = payload["error"]
    kind = " ".join(str(inner[key]) for key in ("type", "code", "status", "error_type") if inner.get(key))
    said = next(
        (
            str(text)
            for text in (
                inner.get("message"),
                payload.get("error"),
                payload.get("error_message"),
                payload.get("detail"),
            )
            if text
        ),
        "",
    )
    metadata = inner.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        said = f"{said}: {metadata['raw']}"  # OpenRouter: the text of its upstream provider
    code = inner.get("code")
    known = code if isinstance(code, int) and 400 <= code < 600 else None
    return kind, said, known
