"""Agents and tools of asyncio in a program on Trio, in a process of their own: trio-asyncio changes asyncio
for a whole process."""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from .test_foreign_agents import NEEDS_TRIO_ASYNCIO


def test_agents_and_tools_of_asyncio_on_trio(tmp_path: Path) -> None:
    if find_spec("trio_asyncio") is None:  # not imported here
        pytest.skip("trio-asyncio is not installed")
    stories = [str(Path(__file__).with_name(f"test_{name}.py")) for name in ("foreign_agents", "host_tools")]
    at_temp = ["--basetemp", str(tmp_path / "inner")]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *at_temp, *stories],
        cwd=Path(__file__).parents[2],
        env={**os.environ, NEEDS_TRIO_ASYNCIO: "1"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout
    assert "9 passed" in done.stdout.splitlines()[-1]
