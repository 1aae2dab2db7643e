"""Signatures of requests. Pure.

| scheme | signed | the request is known again by |
|---|---|---|
| `github` | the body | the body: the id in its header is not signed |
| `stripe` | a time and the body | the id in the body |
| `standard` | an id, a time and the body (Standard Webhooks, Svix) | the id |
| `hmac` | a time and the body (`X-Webhook-Timestamp`, `X-Webhook-Signature-V2`) | the signature |

A request whose time is more than five minutes away is refused. All comparisons take the same time.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Literal

Scheme = Literal["github", "stripe", "standard", "hmac"]
Headers = Mapping[str, str]
"""The headers of a request; the names are in small letters."""

MOST_SECONDS_AWAY = 300
"""Difference of the clocks, and time under way, that a signed time may have."""
_PREFIX = "whsec_"


def verified(scheme: Scheme, secret: str, headers: Headers, body: bytes, now: float) -> str | None:
    """Return the name by which a repeat of this request is known; None if it is not signed with the
    secret."""
    return _SCHEMES[scheme](secret, headers, body, now)


def signed(secret: str, name: str, at: int, body: bytes) -> dict[str, str]:
    """Return the headers of a request of ours, as Standard Webhooks has them."""
    digest = _mac(_standard_key(secret), f"{name}.{at}.".encode() + body)
    return {
        "webhook-id": name,
        "webhook-timestamp": str(at),
        "webhook-signature": f"v1,{b64encode(digest).decode()}",
    }


def _github(secret: str, headers: Headers, body: bytes, now: float) -> str | None:
    given = headers.get("x-hub-signature-256", "").removeprefix("sha256=")
    return hashlib.sha256(body).hexdigest() if _same(given, _mac(secret.encode(), body).hex()) else None


def _stripe(secret: str, headers: Headers, body: bytes, now: float) -> str | None:
    parts = [part.strip().partition("=") for part in headers.get("stripe-signature", "").split(",")]
    at = next((value for name, _, value in parts if name == "t"), "")
    right = _mac(secret.encode(), f"{at}.".encode() + body).hex()
    if not _is_near(at, now) or not any(_same(value, right) for name, _, value in parts if name == "v1"):
        return None
    with suppress(ValueError, RecursionError):
        event = json.loads(body)
        if isinstance(event, dict) and isinstance(event.get("id"), str) and event["id"]:
            return str(event["id"])
    return right


def _standard(secret: str, headers: Headers, body: bytes, now: float) -> str | None:
    name, at = (headers.get(one) or headers.get(other, "") for one, other in _STANDARD)
    right = b64encode(_mac(_standard_key(secret), f"{name}.{at}.".encode() + body)).decode()
    given = headers.get("webhook-signature") or headers.get("svix-signature", "")
    is_right = any(_same(one.removeprefix("v1,"), right) for one in given.split() if one.startswith("v1,"))
    return name if name and is_right and _is_near(at, now) else None


def _hmac(secret: str, headers: Headers, body: bytes, now: float) -> str | None:
    at = headers.get("x-webhook-timestamp", "")
    right = _mac(secret.encode(), f"{at}.".encode() + body).hex()
    given = headers.get("x-webhook-signature-v2", "").removeprefix("sha256=")
    return right if _same(given, right) and _is_near(at, now) else None


_STANDARD = (("webhook-id", "svix-id"), ("webhook-timestamp", "svix-timestamp"))
_SCHEMES: Mapping[Scheme, Callable[[str, Headers, bytes, float], str | None]] = {
    "github": _github,
    "stripe": _stripe,
    "standard": _standard,
    "hmac": _hmac,
}
SCHEMES: tuple[Scheme, ...] = tuple(_SCHEMES)


def _standard_key(secret: str) -> bytes:
    """Return the key of a secret: one that begins with `whsec_` is written as base64."""
    if secret.startswith(_PREFIX):
        with suppress(binascii.Error, ValueError):
            return b64decode(secret.removeprefix(_PREFIX), validate=True)
    return secret.encode()


def _mac(key: bytes, text: bytes) -> bytes:
    return hmac.digest(key, text, "sha256")


def _same(given: str, right: str) -> bool:
    return hmac.compare_digest(given.encode("utf-8", "replace"), right.encode())


def _is_near(at: str, now: float) -> bool:
    return at.isascii() and at.isdigit() and len(at) < 12 and abs(int(at) - now) <= MOST_SECONDS_AWAY
