"""Fixtures of XMPP."""

from __future__ import annotations

import os

import pytest

from tests.platforms.conftest import NEEDS_TRIO_ASYNCIO


@pytest.fixture
def own_process() -> None:
    """Leave the test to the process that may load trio-asyncio, which changes asyncio for a whole process."""
    if NEEDS_TRIO_ASYNCIO not in os.environ:
        pytest.skip("in the process of test_own_process.py")
