"""Webhook of a Bot API server for tests: each update is posted to an address, one at a time, and repeated
until the answer is 200."""

from __future__ import annotations

import json

import trio

from ...testing import http_post
from .bot_state import BotState

AGAIN_AFTER = 0.05


async def bring(api: BotState) -> None:
    """Post the updates that wait, while a webhook is set. The real server requires HTTPS, which a proxy in
    front of the bot terminates; this one uses plain HTTP."""
    while True:
        await api.until(lambda: bool(api.webhook and api.waiting))
        oldest = api.waiting[0]
        body, status = json.dumps(api.update(oldest)).encode(), None
        with trio.CancelScope() as api.bringing:
            status = await post(api.webhook, body, api.webhook_secret)
        if status == 200 and oldest in api.waiting:
            api.accept(oldest)
        elif status != 200:
            api.not_accepted()
            await trio.sleep(AGAIN_AFTER)


async def post(url: str, body: bytes, secret: str, *, method: str = "POST") -> int | None:
    """Post an update and return the status of the answer; None without an answer."""
    return await http_post.post(url, body, {"X-Telegram-Bot-Api-Secret-Token": secret}, method=method)
