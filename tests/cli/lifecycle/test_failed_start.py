"""A failed start reports its reason on standard error, and later in `status` and `doctor`. A database that a
start moved aside is reported in the places that the owner reads."""

from __future__ import annotations

import json
import shlex
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from pathlib import Path

import httpx
import pytest

from hermes_trio.host.home.state_file import read_status
from hermes_trio.testing import open_loopback
from tests.machine import HERMES, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests need POSIX"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


@contextmanager
def taken_port(home: Path) -> Iterator[None]:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        (home / "config.yaml").write_text(f"web: {{port: {taken.getsockname()[1]}}}\n")
        yield


def wrong_value(home: Path) -> None:
    (home / "config.yaml").write_text("agent: {max_turns: many}\n")


def unknown_platform(home: Path) -> None:
    (home / "config.yaml").write_text("platforms: {telegran: {token: x}}\n")


def no_key(home: Path) -> None:
    (home / "config.yaml").write_text("web: {host: 0.0.0.0}\n")


def no_address(home: Path) -> None:
    (home / "config.yaml").write_text("web: {port: 0}\nmodel: {base_url: localhost}\n")


def newer_schema(home: Path) -> None:
    with closing(sqlite3.connect(home / "gateway.db")) as db, db:
        db.execute("CREATE TABLE schema_steps (name TEXT, applied_at REAL)")
        db.execute("INSERT INTO schema_steps VALUES ('9999_of_tomorrow', 0)")


def no_database(home: Path) -> None:
    (home / "gateway.db").mkdir()


def no_log(home: Path) -> None:
    (home / "logs").write_text("")


def no_web_key(home: Path) -> None:
    (home / "web.key").mkdir()


Breaks = Callable[[Path], AbstractContextManager[None] | None]
FAILURES: list[tuple[Breaks, str]] = [
    (taken_port, "Set web.port in config.yaml to another port"),
    (wrong_value, "agent.max_turns: 'many' is not a whole number"),
    (unknown_platform, "platforms.telegran: no such platform is installed. Did you mean telegram?"),
    (no_key, "Set web.key to a long random text"),
    (no_address, "model.base_url: it is no address of a server"),
    (newer_schema, "9999_of_tomorrow"),
    (no_database, "gateway.db: cannot be opened"),
    (no_log, "logs/gateway.log cannot be written"),
    (no_web_key, "web.key cannot be written"),
]


@pytest.mark.parametrize(("broken", "words"), FAILURES, ids=[broken.__name__ for broken, _ in FAILURES])
async def test_a_failed_start_stores_its_reason(home: Path, broken: Breaks, words: str) -> None:
    environ = environment(home)
    with broken(home) or nullcontext():
        failed = await hermes("run", environ=environ)
    assert failed.returncode == 78
    assert words in failed.stderr
    left = read_status(home)
    assert left is not None
    assert (left.gateway_state, left.exit_reason) == ("startup_failed", "start failed")
    assert words in (left.error or "")
    status = await hermes("status", environ=environ)
    assert status.stdout.startswith("No gateway is running. It could not start at ")
    assert words in status.stdout
    assert "killed" not in status.stdout
    assert words in json.loads((await hermes("status", "--json", environ=environ)).stdout)["error"]
    doctor = await hermes("doctor", environ=environ)
    assert words in doctor.stdout
    wanted = await hermes("run", "--if-wanted", environ=environ)
    assert wanted.stdout == "Not started: the last state is startup_failed. `hermes-trio run` starts it.\n"


async def test_the_reason_of_a_failed_start_is_removed_by_the_next_good_start(home: Path) -> None:
    wrong_value(home)
    await hermes("run", environ=environment(home))
    configure(home)
    async with living(home) as life:
        status = await life.up()
        assert (status.exit_reason, status.error) == (None, None)
        again = await hermes("run", environ=environment(home))
        assert again.returncode == 1
        wrong_value(home)
        assert (await hermes("run", environ=environment(home))).returncode == 78
        left = read_status(home)
        assert left is not None
        assert (left.instance, left.error) == (status.instance, None), "the state is that of the running one"


def can_mount() -> bool:
    return bool(shutil.which("unshare")) and (
        subprocess.run(
            ["unshare", "-rm", "mount", "-t", "tmpfs", "tmpfs", "/mnt"], capture_output=True, check=False
        ).returncode
        == 0
    )


mounts = pytest.mark.skipif(not can_mount(), reason="nothing may be mounted here")


def on_disk(home: Path, mount: str, *commands: str) -> subprocess.CompletedProcess[str]:
    """Run our commands one after the other with the home on the disk that `mount` mounts."""
    script = f'{mount}; for each in {shlex.join(commands)}; do "$@" $each; echo "== $?"; done'
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", *HERMES],
        env=environment(home), capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip


@mounts
def test_a_start_on_a_read_only_disk_is_reported_and_keeps_the_former_state(home: Path) -> None:
    subprocess.run(
        [*HERMES, "chat"], input="hi there", text=True, env=environment(home), check=False, timeout=90
    )
    assert (home / "gateway.db").exists()
    mount = f"mount --bind {home} {home} && mount -o remount,ro,bind {home}"
    done = on_disk(home, mount, "run", "status", "doctor", "sessions list")
    _, status, doctor, sessions, _ = done.stdout.split("==")
    assert "Read-only file system" in done.stderr
    assert "78" in status.splitlines()[0]
    assert "It was stopped" in status, "the end of the life before"
    assert f"ok       {home / 'gateway.db'} is not damaged" in doctor
    assert f"problem  {home} is on a read-only disk. Mount the disk" in doctor
    assert "api hi there" in sessions


@mounts
def test_a_failed_start_on_a_full_disk_exits_with_1(home: Path) -> None:
    config = (home / "config.yaml").read_text()
    mount = (
        f"mount -t tmpfs -o size=200k tmpfs {home} && printf %s '{config}' > {home}/config.yaml; "
        f"head -c 100000000 /dev/zero > {home}/fill 2>/dev/null; true"
    )
    done = on_disk(home, mount, "run", "status", "doctor")
    _, status, doctor = done.stdout.split("==")[:3]
    assert "Free some space" in done.stderr
    assert status.splitlines()[0] == " 1", "a supervisor may try again"
    assert "killed" not in status
    assert "Free some space" in doctor


async def test_a_database_that_was_moved_aside_is_reported_to_the_owner(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        text = (home / "config.yaml").read_text()
        (home / "config.yaml").write_text(
            text.replace("allow_from: all,", 'allow_from: all, home_channel: "42",')
        )
        (home / "gateway.db").write_bytes(b"SQLite format 3\0" + b"\xff" * 60_000)
        async with living(home) as life:
            await life.up()
            (copy,) = home.glob("gateway.db.damaged-*")
            await platform.until(lambda: any(copy.name in text for text in platform.chat("42").texts))
            assert f"It was put aside as {copy.name}" in life.output
            for command in ("status", "doctor"):
                assert copy.name in (await hermes(command, environ=environment(home))).stdout
            key = (home / "web.key").read_text().strip()
            address = life.output.partition("Page: ")[2].partition("/login")[0]
            async with httpx.AsyncClient(timeout=60, headers={"authorization": f"Bearer {key}"}) as http:
                assert (await http.get(f"{address}/health/detailed")).json()["damaged_databases"] == [
                    copy.name
                ]
        async with living(home) as life:
            await life.up()
            assert copy.name not in life.output.partition("Page")[2].partition("hermes-trio")[2], "once"
    assert copy.name in (await hermes("status", environ=environment(home))).stdout
    copy.unlink()
    assert copy.name not in (await hermes("status", environ=environment(home))).stdout
