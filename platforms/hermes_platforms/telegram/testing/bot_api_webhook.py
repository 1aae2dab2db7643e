"""Webhook of a Bot API server for tests: each update is posted to an address, one at a time, and repeated
until the answer is 200."""

from __future__ import annotations

import json
from urllib.parse import urlsplit

import trio
import trio.lowlevel

from .bot_state import BotState

AGAIN_AFTER = 0.05
PATIENCE = 60.0


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
    """Post a body and return the status of the answer; None without an answer."""
    where = urlsplit(url)
    if where.hostname != "127.0.0.1":  # a simulator sends nothing to other machines
        await trio.lowlevel.checkpoint()
        return None
    head = (
        f"{method} {where.path or '/'} HTTP/1.1\r\nHost: {where.netloc}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        f"X-Telegram-Bot-Api-Secret-Token: {secret}\r\n\r\n"
    )
    with trio.move_on_after(PATIENCE):
        try:
            async with await trio.open_tcp_stream(where.hostname or "", where.port or 80) as stream:
                await stream.send_all(head.encode() + body)
                answer = b""
                while b"\r\n\r\n" not in answer:
                    more = await stream.receive_some()
                    if not more:
                        return None
                    answer += more
                return int(answer.split(b" ")[1])
        except (OSError, trio.BrokenResourceError):
            return None
    return None
