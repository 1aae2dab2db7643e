"""A stop of the gateway by the signals that stop the program.

A web server that is stopped waits for its open requests before it tells its application, and a stream of
events lasts as long as the gateway. So a gateway behind such a server has to hear of the signal itself.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

import trio

from .gateway_handle import Gateway


@contextmanager
def stopped_by_signals(
    gateway: Gateway, numbers: tuple[signal.Signals, ...] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Stop the gateway on each of these signals during the block, and do then what the program does on it.
    Its streams end with their last event. Call it in the main thread, after the server has set its own
    handlers, for example in the lifespan of an application."""
    soon: Callable[[Callable[[], object]], object]
    if trio.lowlevel.in_trio_task():
        soon = trio.lowlevel.current_trio_token().run_sync_soon
    else:
        soon = asyncio.get_running_loop().call_soon_threadsafe
    before = {number: signal.getsignal(number) for number in numbers}

    def stop(number: int, frame: FrameType | None) -> None:
        soon(gateway.stop)
        handler = before[signal.Signals(number)]
        if callable(handler):
            handler(number, frame)

    for number in numbers:
        signal.signal(number, stop)
    try:
        yield
    finally:
        for number, handler in before.items():
            if signal.getsignal(number) is stop:  # else the server has put back its own
                signal.signal(number, handler)
