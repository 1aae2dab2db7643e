"""The plugin for pytest, in real pytest processes: the same test suite with each plugin for async tests."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.test_imports import modules_after

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples/test_agent.py"
NO_ASYNCIO = "-p no:asyncio"
STYLES = {
    "pytest-trio": f"{NO_ASYNCIO} -o trio_mode=true",
    "anyio": f"{NO_ASYNCIO} -o anyio_mode=auto",
    "pytest-asyncio": "-o asyncio_mode=auto -o asyncio_default_fixture_loop_scope=function",
}


def run_pytest(suite: Path, options: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run a test suite outside of this repository's configuration, with warnings as errors."""
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    alone = ["-c", str(tmp_path / "pytest.ini"), "--rootdir", str(tmp_path), "-p", "no:cacheprovider"]
    at_temp = ["--basetemp", str(tmp_path / "inner")]
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", *alone, *at_temp, *options.split(), str(suite)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.parametrize(("style", "passed"), [("pytest-trio", 4), ("anyio", 8), ("pytest-asyncio", 4)])
def test_the_example_passes_in_each_style(style: str, passed: int, tmp_path: Path) -> None:
    done = run_pytest(EXAMPLE, STYLES[style], tmp_path)
    assert f"{passed} passed" in done.stdout, done.stdout
    assert done.returncode == 0, done.stdout


def test_the_page_shows_the_example() -> None:
    code = EXAMPLE.read_text("utf-8").partition("\n\nimport ")[2]
    assert code
    assert code in (ROOT / "docs/embed/index.md").read_text("utf-8")


SUITE = """
import trio, trio.testing

async def answer(turn):
    return "Good morning."

async def test_with_a_clock_of_its_own(hermes_life, autojump_clock):
    async with hermes_life(answer) as life:
        assert trio.lowlevel.current_clock() is autojump_clock
        assert await life.gateway.say("first", "hello") == "Good morning."

async def test_that_fails(hermes_life):
    async with hermes_life(answer) as life:
        assert await life.gateway.say("first", "hello") == "Good evening."

async def test_without_a_life():
    assert not isinstance(trio.lowlevel.current_clock(), trio.testing.MockClock)
"""


def test_a_test_keeps_its_clock_and_fails_as_any_other(tmp_path: Path) -> None:
    suite = tmp_path / "test_suite.py"
    suite.write_text(SUITE)
    done = run_pytest(suite, STYLES["pytest-trio"], tmp_path)
    assert "1 failed, 2 passed" in done.stdout, done.stdout
    assert "Good evening." in done.stdout


def test_the_plugin_loads_nothing_by_itself() -> None:
    loaded = modules_after("import hermes_trio.testing.pytest_plugin")
    assert {one for one in loaded if one.startswith("hermes_trio")} == {
        "hermes_trio",
        "hermes_trio.testing",
        "hermes_trio.testing.pytest_plugin",
    }
    assert not loaded & {"trio", "anyio", "msgspec"}
