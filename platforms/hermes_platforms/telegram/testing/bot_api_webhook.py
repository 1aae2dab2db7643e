"""The webhook of a Bot API server: what people say is brought to an address, one update at a time, and
brought again until it is answered with 200."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import trio
import trio.lowlevel

if TYPE_CHECKING:
    from .bot_api import BotApi

AGAIN_AFTER = 0.05
PATIENCE = 60.0


async def bring(api: BotApi) -> None:
    """Bring what waits, while there is a webhook. The real server goes by HTTPS only; what stands between
    it and a bot takes that off."""
    while True:
        await api.until(lambda: bool(api.webhook and api.waiting))
        oldest = api.waiting[0]
        body, status = json.dumps(api.update(oldest)).encode(), None
        with trio.CancelScope() as api.bringing:
            status = await post(api.webhook, body, api.webhook_secret)
        if status == 200 and oldest in api.waiting:
            api.accept(oldest)
        elif status != 200:
            api.not_taken()
            await trio.sleep(AGAIN_AFTER)


async def post(url: str, body: bytes, secret: str, *, method: str = "POST") -> int | None:
    """The status that is answered; None if nothing is."""
    where = urlsplit(url)
    if where.hostname != "127.0.0.1":  # a simulator leaves this machine for nobody
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
