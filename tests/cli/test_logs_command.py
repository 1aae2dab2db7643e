"""`hermes-trio logs`: the log for people, filtered, and followed over a rotation."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from hermes_trio.cli import main
from hermes_trio.cli.logs import log_to_file
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.log import Log
from hermes_trio.testing import Script
from tests.machine import HERMES, PATIENCE, environment
from tests.stage import Stage

log = Log("hermes_trio.story")


def logs(home: Path, *options: str) -> Result:
    return CliRunner().invoke(main, ["logs", *options], env={"HERMES_HOME": str(home), "TZ": "UTC"})


def test_levels_and_the_number_of_lines_are_chosen(tmp_path: Path) -> None:
    with log_to_file(tmp_path, GatewayConfig(), {}):
        log.info("it is well", chat="42")
        log.warning("it was lost", error="a 'quoted' \"text\"\nof two lines")
        try:
            raise ValueError("broken")
        except ValueError:
            log.exception("it failed")
        log.info("it is well again", names=["a", "b c"])
    found = logs(tmp_path).stdout.splitlines()
    assert found[0].endswith("  info      it is well  chat=42")
    assert found[1].endswith("  warning   it was lost  error=a 'quoted' \"text\"\\nof two lines")
    assert found[2].endswith("  error     it failed")
    assert found[3] == "    Traceback (most recent call last):"
    assert found[-1].endswith("  info      it is well again  names=['a', 'b c']")
    worse = logs(tmp_path, "--level", "error").stdout.splitlines()
    assert worse == found[2:-1], "with the traceback"
    assert logs(tmp_path, "-n", "1").stdout.splitlines() == found[-1:]


def test_a_home_without_a_log_is_told(tmp_path: Path) -> None:
    done = logs(tmp_path)
    assert done.exit_code == 1
    assert "no gateway has run in this home" in done.stderr


async def test_the_way_of_a_message_is_in_the_log_of_its_chat_without_its_content(stage: Stage) -> None:
    stage.agent.on("sensitive", Script().says("An answer."))
    with log_to_file(stage.home, stage.config, {}):
        async with stage.life():
            await stage.says("sensitive", chat="1")
            await stage.says("Something else.", chat="2")
            session = stage.entry("1").session_id
    of_the_chat = logs(stage.home, "--chat", "1").stdout
    events = [re.split(r"\s{2,}", line)[2] for line in of_the_chat.splitlines()]
    assert events == ["message received", "turn ended", "message sent"]
    assert f"message sent  platform=memory chat=1 session={session}" in of_the_chat
    everything = logs(stage.home).stdout
    assert "gateway started  platforms=['memory']" in everything
    assert "sensitive" not in everything
    assert "An answer." not in everything


@pytest.mark.timeout(120)
async def test_the_log_is_followed_over_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "logs" / "gateway.log"
    with log_to_file(tmp_path, GatewayConfig(), {}):
        log.info("first")
    process = await trio.lowlevel.open_process(
        [*HERMES, "logs", "-f"], env=environment(tmp_path), stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        with trio.fail_after(PATIENCE):
            await _heard(process.stdout, b"first")
            with log_to_file(tmp_path, GatewayConfig(), {}):
                log.info("second")
            await _heard(process.stdout, b"second")
            path.rename(path.with_suffix(".log.1"))
            with log_to_file(tmp_path, GatewayConfig(), {}):
                log.info("third")
            await _heard(process.stdout, b"third")
    finally:
        process.kill()
        await process.wait()


async def _heard(stream: trio.abc.ReceiveStream, word: bytes) -> None:
    data = b""
    while word not in data:
        more = await stream.receive_some()
        assert more, "it goes on until it is ended"
        data += more
