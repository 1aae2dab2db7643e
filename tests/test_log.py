"""The log of an embedded gateway: plain records without messages of people, and no output of its own."""

from __future__ import annotations

import io
import logging
import subprocess
import sys
from pathlib import Path

import pytest
import trio

from hermes_trio import open_gateway
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.testing import MemoryPlatform
from tests.stage import everyone

WORDS = "my private words"
TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"

PROGRAM = """
import sys, pathlib, trio
from hermes_trio import GatewayConfig, PlatformConfig, open_gateway
from hermes_trio.config.schema import ModelConfig
from hermes_trio.testing import MemoryPlatform

async def agent(turn):
    secret = "sk-ant-THIS-IS-MY-SECRET-0123456789"
    words = turn.prompt
    raise RuntimeError("the agent is broken")

async def main():
    platform = MemoryPlatform()
    config = GatewayConfig(
        model=ModelConfig(api_key="sk-ant-THIS-IS-MY-SECRET-0123456789"),
        platforms={"memory": PlatformConfig(allow_from="all")},
    )
    async with open_gateway(pathlib.Path(sys.argv[1]), config, agent=agent, adapters=[platform]):
        with trio.fail_after(50):
            await platform.until(lambda: platform.connected)
            await platform.says("my private words")
            await platform.until(lambda: platform.chat("42").last is not None)
    print(platform.chat("42").last)

trio.run(main)
"""


def test_a_failing_turn_writes_nothing_where_the_host_configured_no_logging(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", PROGRAM, str(tmp_path / "home")],
        capture_output=True,
        text=True,
        timeout=55,
    )
    assert "The agent failed" in done.stdout
    assert done.stderr == ""


async def test_a_failing_turn_is_a_plain_record_without_locals(tmp_path: Path) -> None:
    secret_local = "a local of the agent"

    async def agent(turn: TurnContext) -> str:
        of_the_agent, words = secret_local, turn.prompt
        assert words == WORDS
        raise RuntimeError("the agent is broken" + of_the_agent[:0])

    output = io.StringIO()
    handler = logging.StreamHandler(output)
    handler.setFormatter(logging.Formatter("%(levelname)s %(name)s %(funcName)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    try:
        platform = MemoryPlatform()
        async with open_gateway(tmp_path, everyone(), agent=agent, adapters=[platform]):
            await platform.says(WORDS)
            with trio.fail_after(30):
                await platform.until(lambda: platform.chat("42").last is not None)
    finally:
        root.removeHandler(handler)
    told = output.getvalue()
    assert "WARNING hermes_trio.gateway.turn.run _answer: agent failed run=" in told
    assert "RuntimeError: the agent is broken" in told
    assert WORDS not in told
    assert secret_local not in told
    assert len(told.splitlines()) < 40


async def test_the_log_of_a_host_contains_no_secret_of_its_gateways(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(turn: TurnContext) -> str:
        raise RuntimeError("401 for " + (turn.home / ".env").read_text() + TOKEN)

    async def one_life(home: Path) -> None:
        home.mkdir()
        (home / ".env").write_text(f"OPAQUE={home.name}-opaque-417\n")
        platform = MemoryPlatform()
        async with open_gateway(home, everyone(), agent=agent, adapters=[platform]):
            await platform.says(WORDS)
            with trio.fail_after(30):
                await platform.until(lambda: platform.chat("42").last is not None)

    async with trio.open_nursery() as nursery:  # two gateways at a time: each masks its own secrets
        nursery.start_soon(one_life, tmp_path / "one")
        nursery.start_soon(one_life, tmp_path / "two")
    assert caplog.text.count("RuntimeError: 401 for OPAQUE=***") == 2
    assert "opaque-417" not in caplog.text
    assert TOKEN not in caplog.text
    assert not any(record.exc_info for record in caplog.records if record.name.startswith("hermes_trio"))


def test_an_import_configures_no_logging() -> None:
    program = (
        "import logging, sys\n"
        "before = logging.getLogger().handlers[:], logging.getLogger().level\n"
        "import hermes_trio.embed.embedding, hermes_trio.web.app, hermes_platforms.telegram\n"
        "assert (logging.getLogger().handlers, logging.getLogger().level) == before\n"
        "assert 'structlog' not in sys.modules\n"
        "assert [type(h).__name__ for h in logging.getLogger('hermes_trio').handlers] == ['NullHandler']\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=50)
    assert (done.returncode, done.stderr) == (0, "")


def test_no_module_imports_structlog() -> None:
    """structlog is configured for a whole program, and without a configuration it prints local variables."""
    packages = Path(__file__).parent.parent
    modules = [*packages.glob("hermes_trio/**/*.py"), *packages.glob("platforms/**/*.py")]
    assert len(modules) > 200
    assert [module.name for module in modules if "import structlog" in module.read_text()] == []
