"""Hearing that work waits which other gateways have stored, so that it is taken up at once.

A hint is never the truth: a gateway also looks from time to time at what waits in its chats. So a lost
connection costs at most that time.

It may touch the database, and calls what looks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import trio

from ...base.errors import StoreError
from ...host.loop.worker import finished
from ...log import Log
from ...state.db.engine import Listener
from ..home.open_home import Home

CONNECT_AGAIN_AFTER = 1.0
"""Seconds until a lost connection is opened again."""

log = Log(__name__)


async def hear_hints(home: Home, look: Callable[[], object]) -> None:
    """Call `look` after each hint, and after a time in which hints may have been lost. Runs until it is
    cancelled; returns at once where no other gateway stores anything."""
    if home.owner is None:
        return
    opened: list[Listener] = []

    def open_listener() -> Listener | None:
        listener = home.database.listen(home.life)
        opened[:] = [] if listener is None else [listener]
        return listener

    def close_all() -> None:
        for one in opened:
            one.close()

    with home.worker("hints") as runner:
        try:
            while True:
                try:
                    listener = await finished(runner, open_listener)
                    if listener is None:
                        return
                    with closing(listener):
                        look()
                        while True:
                            await trio.lowlevel.wait_readable(listener.fileno())
                            if listener.heard():
                                look()
                except StoreError as error:
                    log.warning("hints not heard; connecting again", error=str(error))
                await trio.sleep(CONNECT_AGAIN_AFTER)
        finally:
            runner(close_all, lambda _: None)  # after a cancellation the job of opening may still run
