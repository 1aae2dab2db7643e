"""The moments at which signals arrive.

Python runs the handler of a signal between two instructions. A task of Trio learns of the signal only after
all tasks that are due before it, which is late where the event loop is late.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

import trio
import trio.lowlevel


@contextmanager
def arrivals_noted(numbers: Iterable[signal.Signals]) -> Iterator[Mapping[int, float]]:
    """Yield the time of the last arrival of each signal that Trio receives, on Trio's clock."""
    clock, arrived = trio.lowlevel.current_clock(), dict[int, float]()
    receivers = {number: signal.getsignal(number) for number in numbers}

    def note(number: int, frame: FrameType | None) -> None:
        arrived[number] = clock.current_time()
        receiver = receivers[signal.Signals(number)]
        assert callable(receiver)  # noqa: S101 - Trio's handler, installed before this block
        receiver(number, frame)

    for number in receivers:
        signal.signal(number, note)
    try:
        yield arrived
    finally:
        for number, receiver in receivers.items():
            signal.signal(number, receiver)
