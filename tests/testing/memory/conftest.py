"""Fixtures: a platform in memory and a link to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from hermes_trio.platform.contract import (
    Link,
)
from hermes_trio.testing import MemoryPlatform
from tests.testing.outgoing_messages import ALL_TRAITS


@pytest.fixture
def platform() -> MemoryPlatform:
    return MemoryPlatform(traits=ALL_TRAITS)


@pytest.fixture
async def link(platform: MemoryPlatform) -> AsyncIterator[Link]:
    async with platform.connect() as link:
        yield link
