"""A verified request to an event. Pure, and raises for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from urllib.parse import parse_qs

from hermes_trio.platform import MessageEvent, SessionSource

from .settings import Route
from .templates import rendered

LONGEST_ID = 200


def data_of(headers: Mapping[str, str], body: bytes) -> object:
    """Return the data of a request: JSON, also in the field `payload` of a form. Any other body is a
    text."""
    text = body.decode("utf-8", "replace")
    if headers.get("content-type", "").startswith("application/x-www-form-urlencoded"):
        try:
            fields = parse_qs(text, max_num_fields=100)
        except ValueError:
            return text
        if "payload" not in fields:
            return {name: values[0] for name, values in fields.items()}
        text = fields["payload"][0]
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def event_name(headers: Mapping[str, str], data: object) -> str:
    """Return the name of the event that a request tells of, as far as it has one."""
    kind = data.get("type") if isinstance(data, dict) else None
    return (
        headers.get("x-github-event")
        or headers.get("x-webhook-event")
        or (kind if isinstance(kind, str) else "")
    )


def parse(
    name: str,
    route: Route,
    delivery: str,
    headers: Mapping[str, str],
    data: object,
    platform: str,
    account: str,
) -> MessageEvent:
    """Return the event of a request to the route `name`. `delivery` is equal for repeats of the request.

    It is of the kind `internal`: whatever the data is, it is no command and no answer to a question."""
    where = rendered(route.chat, data, headers)[:LONGEST_ID].strip()
    user = rendered(route.user, data, headers)[:LONGEST_ID].strip()
    source = SessionSource(
        platform=platform,
        account=account,
        chat_id=f"{name}/{where}" if where else name,
        chat_type="group" if route.user else "dm",
        user_id=user or name,
    )
    text = rendered(route.text.replace("{route}", name), data, headers)
    return MessageEvent(source, text, message_id=delivery[:LONGEST_ID], kind="internal")
