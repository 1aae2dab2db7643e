"""A server of Telegram's Bot API in a process of its own, which can stop to answer."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.connection import Connection

import psutil
import trio

from ..server_process import server_process

TOKEN = "4242:a-token-of-the-bench-0123456789abcde"  # noqa: S105 - of a server on this machine
PERSON = "42"


@dataclass(frozen=True, slots=True)
class TelegramServer:
    """A server of the Bot API."""

    pid: int
    port: int

    def wedge(self) -> None:
        """Answer no call any more: the kernel still takes connections and requests."""
        psutil.Process(self.pid).suspend()
        os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WNOWAIT)


@contextmanager
def telegram_server() -> Iterator[TelegramServer]:
    """Run a server during the block."""
    with server_process(_serve) as (pid, pipe):
        yield TelegramServer(pid, pipe.recv())


def _serve(pipe: Connection) -> None:
    from hermes_platforms.telegram.testing.bot_api import open_bot_api

    async def serving() -> None:
        async with open_bot_api() as api:
            api.token = TOKEN
            pipe.send(api.port)
            await trio.sleep_forever()

    trio.run(serving)
