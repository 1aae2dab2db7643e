"""`hermes-trio run`: its output, its page, its limits, and the causes for which it does not start."""

from __future__ import annotations

import gc
import os
import re
import resource
import socket
import sqlite3
import stat
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock

from hermes_trio.base.errors import EXIT_FAILURE
from hermes_trio.cli.subcommands.run_command import keep_armed
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.endings_table import MARGIN, Cause, Ending
from hermes_trio.host.home.state_file import GatewayState, read_status
from hermes_trio.testing import open_loopback
from tests.host.children.kinds import until
from tests.machine import HERMES, PATIENCE, UP, Life, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests send signals"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_the_first_output_names_the_log_and_the_next_commands(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        await hermes("stop", environ=environment(home))
        await life.ended()
    for words in (str(home / "logs" / "gateway.log"), "`hermes-trio status`", "`hermes-trio stop`"):
        assert words in life.output


async def test_a_gateway_with_closed_output_runs_and_restarts(home: Path) -> None:
    """Its terminal was closed: output has no reader, and a restart is asked for from elsewhere."""
    reads, writes = os.pipe()
    os.close(reads)
    with trio.fail_after(PATIENCE):
        gateway = await trio.lowlevel.open_process([*HERMES, "run"], env=environment(home), stdout=writes)
        os.close(writes)
        try:
            await until(
                lambda: (status := read_status(home)) is not None and status.gateway_state in UP, PATIENCE
            )
            again = await hermes("restart", environ=environment(home))
            assert again.stdout.startswith("Restarted: "), again.stderr
            await hermes("stop", environ=environment(home))
            await gateway.wait()
        finally:
            gateway.kill()
    assert "gateway crashed" not in (home / "logs" / "gateway.log").read_text()


async def test_a_secret_that_only_dotenv_holds_is_masked_in_the_log(home: Path) -> None:
    (home / ".env").write_text("MY_TOKEN=correct-horse-battery\n")
    address = 'base_url: "http://127.0.0.1:9/${MY_TOKEN}/v1"'
    (home / "config.yaml").write_text(f"web: {{port: 0}}\nmodel: {{provider: openai, name: x, {address}}}\n")
    async with living(home) as life:
        await life.up()
    log = (home / "logs" / "gateway.log").read_text()
    assert "http://127.0.0.1:9/***/v1" in log
    assert "correct-horse-battery" not in log


async def test_a_second_gateway_is_refused_with_one_line(home: Path) -> None:
    async with living(home) as life:
        pid = (await life.up()).pid
        done = await hermes("run", environ=environment(home))
        assert (done.returncode, done.stdout) == (1, "")
        assert done.stderr == (
            f"error: {home}: the gateway with pid {pid} works in this home. "
            "Stop it with `hermes-trio stop`, or set HERMES_HOME to another directory.\n"
        )
        tree = await hermes("status", "--tree", environ=environment(home))
        assert "keep_armed" in tree.stdout, "the first gateway is unharmed"


async def test_the_page_is_served_although_every_platform_refuses_us(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        platform.refuses()
        async with living(home) as life:
            status = await life.until(lambda status: status.gateway_state is GatewayState.DEGRADED)
            status = await life.until(lambda status: status.platforms["loopback"].state == "fatal")
            assert "Renew platforms.loopback.token" in (status.platforms["loopback"].error or "")
            assert (await ask(life, "/health")).status_code == 200
            refused = (
                "loopback refused its token. Renew platforms.loopback.token in config.yaml, then restart."
            )
            assert life.output.count(f"error: loopback is given up. {refused}") == 1
            assert refused in (await hermes("status", environ=environment(home))).stdout
            assert refused in (await hermes("doctor", environ=environment(home))).stdout
            health = (await ask(life, "/health/detailed", key=(home / "web.key").read_text().strip())).json()
            assert health["platforms"]["loopback"] == {"state": "fatal", "error": refused}


async def test_the_printed_link_logs_in_once(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        link = await page(life)
        async with httpx.AsyncClient(timeout=60) as browser:
            got = await browser.get(link)
            assert got.status_code == 303
            page_key = {"X-Hermes-Page": got.headers["location"].partition("#key=")[2]}
            again = await browser.get(link.partition("/login")[0] + "/api/sessions", headers=page_key)
            assert again.json() == {"sessions": [], "next": None}
        async with httpx.AsyncClient(timeout=60) as other:
            assert (await other.get(link)).status_code == 401
        key = (home / "web.key").read_text().strip()
    log = (home / "logs" / "gateway.log").read_text()
    assert link.partition("token=")[2] not in log
    assert key not in log
    assert key not in life.output
    assert stat.S_IMODE((home / "web.key").stat().st_mode) == 0o600


async def test_hermes_trio_link_prints_another_link(home: Path) -> None:
    environ = environment(home)
    nobody = await hermes("link", environ=environ)
    assert (nobody.returncode, nobody.stdout) == (1, "")
    assert "`hermes-trio run` starts one" in nobody.stderr
    async with living(home) as life:
        await life.up()
        await page(life)
        done = await hermes("link", environ=environ)
        assert (done.returncode, done.stderr) == (0, "")
        link = done.stdout.strip()
        async with httpx.AsyncClient(timeout=60) as browser:
            assert (await browser.get(link)).status_code == 303
        async with httpx.AsyncClient(timeout=60) as late:
            assert (await late.get(link)).status_code == 401
        (home / "web.key").write_text("another key\n")
        refused = await hermes("link", environ=environ)
        assert refused.returncode == 1
        assert "`hermes-trio restart`" in refused.stderr
    assert link.partition("token=")[2] not in (home / "logs" / "gateway.log").read_text()


async def test_no_login_link_is_printed_under_systemd(home: Path) -> None:
    async with living(home, environ=environment(home, INVOCATION_ID="1")) as life:
        await life.up()
        assert "token" not in await page(life)


async def test_a_port_in_use_is_an_error_with_a_remedy_and_exits_with_78(home: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        (home / "config.yaml").write_text(f"web: {{port: {port}}}\n")
        done = await hermes("run", environ=environment(home))
    assert done.returncode == 78
    assert done.stderr == (
        f"error: web: cannot listen on 127.0.0.1:{port} (Address already in use). "
        "Set web.port in config.yaml to another port, or to 0 for any free one.\n"
    )
    status = read_status(home)
    assert status is not None
    assert status.gateway_state is GatewayState.STARTUP_FAILED


async def test_the_kill_timer_follows_the_deadline_of_the_shutdown(autojump_clock: MockClock) -> None:
    """The timer that kills the process is set to the latest time at which it may still run."""
    control, armed = Control(), list[float]()
    began = trio.current_time()

    def arm(seconds: float) -> None:
        armed.append(trio.current_time() + seconds - began)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(keep_armed, control, arm)
        await trio.sleep(1)
        assert armed == []
        control.ask(Ending(Cause.RESTART, 60))
        await trio.sleep(1)
        control.ask(Ending(Cause.PLANNED, 10))
        await trio.sleep(1)
        control.hurry()
    assert armed == [1 + 60 + MARGIN, 1 + 10 + MARGIN, 3 + MARGIN]
    gc.enable()


async def page(life: Life) -> str:
    """Return the address of the page that the gateway prints."""
    with trio.fail_after(PATIENCE):
        while not (found := re.search(r"^Page: (\S+)$", life.output, re.MULTILINE)):  # noqa: ASYNC110
            await trio.sleep(0.05)
    return found[1]


async def ask(life: Life, path: str, key: str = "") -> httpx.Response:
    address = (await page(life)).partition("/login")[0]
    async with httpx.AsyncClient(timeout=60) as http:
        return await http.get(address + path, headers={"Authorization": f"Bearer {key}"} if key else {})


async def test_the_limit_of_open_files_is_raised_to_the_hard_limit(home: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = ("sh", "-c", 'ulimit -S -n 256; exec "$0" "$@"', *HERMES)
    async with living(home, command=few) as life:
        await life.up()
        if sys.platform == "linux":
            assert resource.prlimit(life.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


async def test_a_gateway_whose_database_is_removed_saves_it_and_exits_with_1(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        async with living(home) as life:
            await life.up()
            for number in range(20):
                await platform.says(f"before {number}", chat=str(number))
            await platform.until(lambda: all(platform.chat(str(n)).texts for n in range(20)))
            for name in ("gateway.db", "gateway.db-wal", "gateway.db-shm"):
                (home / name).unlink()
            platform.post("after", chat="42")
            assert await life.ended() == EXIT_FAILURE
            assert "database was removed or replaced while the gateway ran" in life.output
        said = await hermes("status", environ=environment(home))
        assert "It ended because its database was removed or replaced while it ran" in said.stdout
        async with living(home) as life:
            await life.up()
            with trio.fail_after(PATIENCE):
                await platform.until(lambda: platform.chat("42").texts != [])
            with closing(sqlite3.connect(home / "gateway.db")) as db:
                assert db.execute("SELECT count(*) FROM inbox").fetchone() == (21,)
            await hermes("stop", environ=environment(home))
            assert await life.ended() == 0
