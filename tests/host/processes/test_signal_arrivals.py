"""The time of arrival of a signal, which is before the event loop learns of it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
import trio

from hermes_trio.base.world import World
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.endings_table import MARGIN
from hermes_trio.gateway.ending.triggers import obey_signals
from hermes_trio.host.processes.process_identity import own

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGUSR1"), reason="POSIX signals")
GRACE = 30.0
BLOCKED = 0.3


@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGUSR1"])
async def test_the_grace_begins_at_the_arrival_of_the_signal(tmp_path: Path, name: str) -> None:
    control = Control()
    async with trio.open_nursery() as nursery:
        await nursery.start(obey_signals, control, tmp_path, own(), World(), GRACE)
        before = trio.current_time()
        signal.raise_signal(getattr(signal, name))
        arrived_by = trio.current_time()
        time.sleep(BLOCKED)  # noqa: ASYNC251 - the loop is late
        await control.ending()
        assert before <= control.asked_at <= arrived_by
        assert control.end_by == control.asked_at + GRACE + MARGIN
        nursery.cancel_scope.cancel()


async def test_the_signal_handlers_are_restored(tmp_path: Path) -> None:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1)}
    async with trio.open_nursery() as nursery:
        await nursery.start(obey_signals, Control(), tmp_path, own(), World(), GRACE)
        nursery.cancel_scope.cancel()
    assert before == {number: signal.getsignal(number) for number in before}
