"""Fixtures: a platform over TCP, an adapter for it and a link."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio

from hermes_trio.platform.contract import (
    Link,
)
from hermes_trio.testing import LoopbackAdapter, LoopbackServer, open_loopback
from tests.testing.outgoing_messages import ALL_TRAITS

HELLO = b'{"type":"hello","id":1,"account":"main"}\n'
"""First line of a gateway."""


@pytest.fixture
async def platform() -> AsyncIterator[LoopbackServer]:
    async with open_loopback(traits=ALL_TRAITS) as server:
        with trio.fail_after(20):
            yield server


@pytest.fixture
def adapter(platform: LoopbackServer) -> LoopbackAdapter:
    return LoopbackAdapter(platform.port, traits=ALL_TRAITS)


@pytest.fixture
async def link(adapter: LoopbackAdapter) -> AsyncIterator[Link]:
    async with adapter.connect() as link:
        yield link
