"""Helpers for the tests of the link to Telegram."""

from __future__ import annotations

from hermes_platforms.telegram.telegram_link import TelegramLink
from hermes_platforms.telegram.testing import ApiError, BotApi
from hermes_trio.platform import Outgoing


def message(text: str = "Hi.", *, chat: str = "42", **more: object) -> Outgoing:
    """Return a message to send."""
    return Outgoing(chat_id=chat, text=text, key="key-1", **more)  # type: ignore[arg-type]


def bad(description: str) -> ApiError:
    """Return the answer to an invalid request."""
    return ApiError(400, f"Bad Request: {description}")


def asked(telegram: BotApi, method: str) -> list[dict[str, object]]:
    """Return the parameters of the calls of a method."""
    return [dict(one.params) for one in telegram.asked if one.method == method]


async def receive(link: TelegramLink, into: list[str]) -> None:
    """Append the texts of events to a list, until the link is lost."""
    async for event in link.receive():
        into.append(event.text)  # noqa: PERF401
