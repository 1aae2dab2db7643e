"""The log of a gateway has every event, and never a secret."""

from __future__ import annotations

import logging
import os
import stat
from pathlib import Path

import pytest

from hermes_trio.base.errors import HomeUnusable
from hermes_trio.cli.logs import BACKUPS, MAX_BYTES, log_to_file
from hermes_trio.config.schema import GatewayConfig, ModelConfig, PlatformConfig
from hermes_trio.log import Log, log_masked_by
from hermes_trio.masking.redaction import KnownSecrets, Masking
from hermes_trio.platform.contract import CredentialsRefused, LinkLost, NotSent
from hermes_trio.testing import Script
from tests.stage import Stage

SECRET = "hunter2-hunter2"
TOKEN = "123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw0"
CONFIG = GatewayConfig(
    model=ModelConfig(api_key=SECRET, base_url=f"https://me:{SECRET}@host/v1"),
    platforms={"memory": PlatformConfig(allow_from="all", options={"app_secret": "correct horse"})},
)

log = Log("hermes_trio.story")


def text(home: Path) -> str:
    return (home / "logs" / "gateway.log").read_text(encoding="utf-8")


def test_a_line_has_time_level_event_and_fields(tmp_path: Path) -> None:
    with log_to_file(tmp_path, CONFIG, {}):
        log.info("a turn began", run="r1", turns=3, session="s1")
        log.debug("nobody reads this")
    [line] = text(tmp_path).splitlines()
    assert line.startswith("timestamp='20")
    assert line.endswith("level='info' event='a turn began' run='r1' turns=3 session='s1'")


def test_an_error_is_one_line_and_its_traceback_is_indented_below_it(tmp_path: Path) -> None:
    with log_to_file(tmp_path, CONFIG, {}):
        try:
            raise ValueError(f"the server said: Bearer {SECRET}")
        except ValueError as error:
            log.error("it failed", error=error, exc_info=True)
    line, head, *_, last = text(tmp_path).splitlines()
    assert line.endswith("event='it failed' error='the server said: Bearer ***'")
    assert head == "    Traceback (most recent call last):"
    assert last == "    ValueError: the server said: Bearer ***"
    assert SECRET not in text(tmp_path)


def test_secrets_in_events_fields_and_errors_are_masked(tmp_path: Path) -> None:
    environ = {"SOME_TOKEN": "from-the-environment", "PATH": "/usr/bin"}
    foreign = logging.getLogger("httpx")
    with log_to_file(tmp_path, CONFIG, environ):
        log.info(f"called with {SECRET}", url=f"https://api.example.org/bot{TOKEN}/send", chat="42")
        log.warning(
            "fields", token=SECRET, header={"Authorization": f"Bearer {TOKEN}"}, args=["correct horse"]
        )
        log.error("objects", config=CONFIG, error=LinkLost("from-the-environment is refused"))
        logging.getLogger("hermes_platforms.x").info("a platform says %s", SECRET)
        foreign.warning("HTTP %s", "https://host/?access_token=abcdefgh&x=1")
        foreign.info("of other packages only warnings")
    content = text(tmp_path)
    for secret in (SECRET, TOKEN, "correct horse", "from-the-environment", "abcdefgh"):
        assert secret not in content
    assert "chat='42'" in content
    assert "a platform says ***" in content
    assert "access_token=***&x=1" in content
    assert "only warnings" not in content
    assert len(content.splitlines()) == 5


async def test_tokens_in_errors_of_adapters_and_agents_are_masked(stage: Stage) -> None:
    """The whole gateway, with errors as libraries make them."""
    stage.platform.fails("connect", LinkLost(f"GET https://api/bot{TOKEN}/getMe: {SECRET}"))
    stage.platform.fails("send", NotSent(f"403 for token={SECRET}"))
    stage.agent.on("hello", Script().raises(RuntimeError(f"401: Incorrect API key provided: {SECRET}")))
    with log_to_file(stage.home, CONFIG, {}):
        async with stage.life():
            await stage.platform.says("hello")
            await stage.platform.until(lambda: stage.platform.chat("42").texts != [])
        stage.platform.fails("connect", CredentialsRefused("memory", SECRET), times=1)
        async with stage.life() as gateway:
            await gateway.control.ending()
    content = text(stage.home)
    assert "agent failed" in content
    assert "***" in content
    assert SECRET not in content
    assert TOKEN not in content


def test_the_log_file_is_rotated_and_private(tmp_path: Path) -> None:
    file = tmp_path / "logs" / "gateway.log"
    umask = os.umask(0)
    try:
        for life in range(BACKUPS + 2):
            with log_to_file(tmp_path, CONFIG, {}):
                log.info("nearly full", life=life)
                with file.open("a") as more:
                    more.write("x" * (MAX_BYTES - file.stat().st_size - 10))
                log.info("full", life=life)
                log.info("over", life=life)
    finally:
        os.umask(umask)
    files = sorted(file.parent.iterdir())
    assert [file.name for file in files] == ["gateway.log", *(f"gateway.log.{n}" for n in (1, 2, 3))]
    for file in files:
        assert file.stat().st_size <= MAX_BYTES + 200, (
            "a file is rotated by the line after the one that fills it"
        )
        assert os.name != "posix" or stat.S_IMODE(file.stat().st_mode) == 0o600
    assert "over" in text(tmp_path)
    assert "full" not in text(tmp_path)
    assert "life=4" in text(tmp_path)


@pytest.mark.parametrize("length", [8_000, 40_000, 200_000])
def test_a_long_text_is_cut_without_a_part_of_a_secret(tmp_path: Path, length: int) -> None:
    with log_to_file(tmp_path, CONFIG, {}):
        for shift in range(0, 40, 5):
            log.info("a" * (length + shift) + " sk-proj-abcdefgh-ijklmnop")
    content = text(tmp_path)
    assert "sk-proj" not in content
    assert all(len(line) < 9000 for line in content.splitlines())


def test_the_logging_of_the_program_is_restored(tmp_path: Path) -> None:
    before = logging.getLogger().handlers[:], logging.getLogger("hermes_trio").level
    with log_to_file(tmp_path, CONFIG, {}):
        assert logging.getLogger().handlers != before[0]
    assert (logging.getLogger().handlers, logging.getLogger("hermes_trio").level) == before
    log.error("nobody listens")
    assert text(tmp_path) == ""


@pytest.mark.parametrize("grouped", [False, True])
def test_a_crash_is_printed_and_logged_without_secrets(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], grouped: bool
) -> None:
    crash: Exception = RuntimeError(f"nobody expected Bearer {SECRET} from-the-environment")
    if grouped:
        crash = ExceptionGroup("a tree", [HomeUnusable(tmp_path, "no right"), crash])
    environ = {"SOME_TOKEN": "from-the-environment"}
    with pytest.raises(SystemExit) as left, log_to_file(tmp_path, CONFIG, environ):
        raise crash
    assert left.value.code == 1
    for logged in (text(tmp_path), capsys.readouterr().err):
        assert "RuntimeError: nobody expected Bearer *** ***" in logged
        assert SECRET not in logged
    assert "level='critical' event='gateway crashed'" in text(tmp_path)


def test_an_expected_error_is_no_crash(tmp_path: Path) -> None:
    group = ExceptionGroup("a tree", [HomeUnusable(tmp_path, "no right")])
    with pytest.raises(ExceptionGroup) as raised, log_to_file(tmp_path, CONFIG, {}):
        raise group
    assert raised.value is group
    assert text(tmp_path) == ""


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no disk is full for the asking here")
def test_a_full_disk_is_reported_once_without_the_record(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "gateway.log").symlink_to("/dev/full")
    with log_to_file(tmp_path, CONFIG, {}):
        for _ in range(3):
            log.error("it failed", error=f"the server said: Bearer {SECRET}")
    [line] = capsys.readouterr().err.splitlines()
    assert line == f"warning: {tmp_path / 'logs' / 'gateway.log'} cannot be written (No space left on device)"


@pytest.mark.parametrize("place", ["logs", "logs/gateway.log"])
def test_a_log_that_cannot_be_written_is_an_error(tmp_path: Path, place: str) -> None:
    (tmp_path / "logs").mkdir()
    if place == "logs":
        (tmp_path / "logs").rmdir()
        (tmp_path / "logs").touch()
    else:
        (tmp_path / place).mkdir()
    with (
        pytest.raises(HomeUnusable, match=r"logs/gateway\.log cannot be written"),
        log_to_file(tmp_path, CONFIG, {}),
    ):
        pass


def test_a_secret_that_a_gateway_learns_later_is_masked_in_all_its_records(tmp_path: Path) -> None:
    """The key of the web is made at the first start, after the log is open."""
    secrets, key = KnownSecrets(Masking()), "the-key-made-just-now"
    with log_to_file(tmp_path, CONFIG, {}), log_masked_by(secrets):
        secrets.learn(key)
        log.warning(f"made {key}", text=f"it is {key}", exc_info=ValueError(key))
        logging.getLogger("httpx").warning("sent %s", key, exc_info=ValueError(key))
    assert key not in text(tmp_path)
    assert "sent ***" in text(tmp_path)
