"""The link of webhooks: events come from the listener, and an answer is posted to the address of its route,
signed as Standard Webhooks has it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping

from hermes_trio.platform import (
    FOR_EVER,
    BaseLink,
    ChatGone,
    FloodWait,
    MessageEvent,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    Refused,
    Traits,
)

from ..http_calls import HttpCalls, NoAnswer, NotReached
from .listener import Arrivals
from .settings import Route
from .signatures import signed

ANSWER_WITHIN = 30.0
LONGEST_WAIT = 3600.0
TRAITS = Traits(limit=65_536, takes_keys_for=FOR_EVER, own_door=True)
"""A caller has the secret of its route. A receiver knows a repeat by `webhook-id`, as the standard asks of
it."""


class WebhookLink(BaseLink):
    """A live link."""

    def __init__(
        self,
        arrivals: Arrivals,
        routes: Mapping[str, Route],
        calls: Mapping[str, HttpCalls],
        now: Callable[[], float],
    ) -> None:
        super().__init__(TRAITS)
        self._arrivals, self._routes, self._calls, self._now = arrivals, routes, calls, now

    def receive(self) -> AsyncIterator[MessageEvent]:
        return self._arrivals

    async def send(self, message: Outgoing) -> str | None:
        """Post a message to the address of its route. Without an address it stays in the session, which the
        page shows."""
        route = self._routes.get(message.chat_id.partition("/")[0])
        if route is None or route.answer is None:
            return None
        body = _body(message)
        headers = {
            "content-type": "application/json",
            **signed(route.answer_secret, message.key, int(self._now()), body),
        }
        try:
            response, text = await self._calls[route.answer].call(
                "POST", route.answer, content=body, headers=headers, within=ANSWER_WITHIN
            )
        except NotReached as error:
            raise NotSent(f"The address for answers is not reached: {error}.") from error
        except NoAnswer as error:
            raise OutcomeUnknown(f"The address for answers did not answer: {error}.") from error
        _check(response.status_code, response.headers.get("retry-after", ""))
        return _id_of(text)


def _body(message: Outgoing) -> bytes:
    route, _, chat = message.chat_id.partition("/")
    data = {
        "route": route,
        "chat": chat or None,
        "text": message.text,
        "is_notice": message.silent,
    }
    return json.dumps({"type": "message", "data": data}, ensure_ascii=False).encode()


def _check(status: int, retry_after: str) -> None:
    """Raise what a status means for the message."""
    if 200 <= status < 300:
        return
    text = f"The address for answers says {status}."
    if status == 429:
        raise FloodWait(min(float(retry_after), LONGEST_WAIT) if retry_after.isdecimal() else 60.0)
    if status == 410:
        raise ChatGone(text)
    if status == 503:
        raise NotSent(text)
    raise OutcomeUnknown(text) if status >= 500 else Refused(text)


def _id_of(text: bytes) -> str | None:
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    name = found.get("id") if isinstance(found, dict) else None
    return name if isinstance(name, str) and name else None
