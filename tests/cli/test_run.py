"""`hermes-trio run`: what it says, what it may use, when it refuses, and how it is the first process of a
container."""

from __future__ import annotations

import gc
import os
import re
import resource
import shutil
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import httpx
import pytest
import trio
from trio.testing import MockClock

from hermes_trio.base.errors import EXIT_FAILURE, EXIT_RESTART
from hermes_trio.cli.subcommands.run_command import keep_armed
from hermes_trio.gateway.ending.control import Control
from hermes_trio.gateway.ending.endings_table import MARGIN, Cause, Ending
from hermes_trio.host.home.state_file import GatewayState, is_wanted, read_status
from hermes_trio.host.service import pid_one
from hermes_trio.testing import open_loopback
from tests.host.children.kinds import until
from tests.machine import HERMES, PATIENCE, UP, Life, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="the stories send signals"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_it_says_where_to_go_next(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        await hermes("stop", environ=environment(home))
        await life.ended()
    for told in (str(home / "logs" / "gateway.log"), "`hermes-trio status`", "`hermes-trio stop`"):
        assert told in life.output


async def test_it_runs_and_restarts_in_place_when_nobody_hears_it_any_more(home: Path) -> None:
    """Somebody closed the terminal in which it was started, and says /restart in a chat."""
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
    assert "it crashed" not in (home / "logs" / "gateway.log").read_text()


async def test_the_log_tells_no_secret_that_stands_in_dotenv_alone(home: Path) -> None:
    (home / ".env").write_text("MY_TOKEN=correct-horse-battery\n")
    address = 'base_url: "http://127.0.0.1:9/${MY_TOKEN}/v1"'
    (home / "config.yaml").write_text(f"web: {{port: 0}}\nmodel: {{provider: openai, name: x, {address}}}\n")
    async with living(home) as life:
        await life.up()
    log = (home / "logs" / "gateway.log").read_text()
    assert "http://127.0.0.1:9/***/v1" in log
    assert "correct-horse-battery" not in log


async def test_a_second_one_is_refused_in_one_line(home: Path) -> None:
    async with living(home) as life:
        pid = (await life.up()).pid
        for command in ("run", "chat"):
            done = await hermes(command, environ=environment(home))
            assert (done.returncode, done.stdout) == (1, "")
            assert done.stderr == (
                f"error: {home}: the gateway with pid {pid} works in this home. "
                "Stop it with `hermes-trio stop`, or set HERMES_HOME to another directory.\n"
            )
        tree = await hermes("status", "--tree", environ=environment(home))
        assert "keep_armed" in tree.stdout, "nothing of the first one was touched"


async def test_when_every_platform_refuses_us_the_page_still_serves(home: Path) -> None:
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


async def test_the_link_it_prints_lets_somebody_in_once(home: Path) -> None:
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


async def test_another_link_is_printed_without_a_restart(home: Path) -> None:
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


async def test_under_systemd_it_prints_no_link_that_lets_somebody_in(home: Path) -> None:
    async with living(home, environ=environment(home, INVOCATION_ID="1")) as life:
        await life.up()
        assert "token" not in await page(life)


async def test_a_port_that_is_taken_is_told_with_a_remedy_and_leaves_78(home: Path) -> None:
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


async def test_the_last_resort_comes_nearer_with_the_end(autojump_clock: MockClock) -> None:
    """What kills us if nothing else can is set to the latest moment at which we may still be here."""
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
    """Where it says that its page is."""
    with trio.fail_after(PATIENCE):
        while not (found := re.search(r"^Its page: (\S+)$", life.output, re.MULTILINE)):  # noqa: ASYNC110
            await trio.sleep(0.05)
    return found[1]


async def ask(life: Life, path: str, key: str = "") -> httpx.Response:
    address = (await page(life)).partition("/login")[0]
    async with httpx.AsyncClient(timeout=60) as http:
        return await http.get(address + path, headers={"Authorization": f"Bearer {key}"} if key else {})


async def test_it_may_open_as_many_files_as_it_may_ask_for(home: Path) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    few = ("sh", "-c", 'ulimit -S -n 256; exec "$0" "$@"', *HERMES)
    async with living(home, command=few) as life:
        await life.up()
        if sys.platform == "linux":
            assert resource.prlimit(life.process.pid, resource.RLIMIT_NOFILE) == (hard, hard)


# --- in a container ----------------------------------------------------------------------------------


async def test_if_wanted_is_no_where_it_has_never_run(home: Path) -> None:
    done = await hermes("run", "--if-wanted", environ=environment(home))
    assert (done.returncode, done.stdout) == (
        0,
        "Not started: it has never run in this home. `hermes-trio run` starts it.\n",
    )


async def test_if_wanted_is_no_after_a_stop_that_was_meant(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        await hermes("stop", environ=environment(home))
        await life.ended()
    done = await hermes("run", "--if-wanted", environ=environment(home))
    assert done.returncode == 0
    assert done.stdout.startswith("Not started: it was left stopped.")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 1), (signal.SIGKILL, -9), (signal.SIGUSR1, EXIT_RESTART)]
)
async def test_if_wanted_is_yes_after_all_that_was_not(home: Path, number: signal.Signals, code: int) -> None:
    supervised = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
    async with living(home, environ=supervised) as life:
        before = await life.up()
        life.forsaken = True
        life.signal(number)
        assert await life.ended() == code
    async with living(home, "--if-wanted") as life:
        assert (await life.until(lambda status: status.instance != before.instance)).pid == life.process.pid


def test_what_was_left_while_it_was_ending_is_what_it_was_to_leave(home: Path) -> None:
    def left(**facts: str) -> bool:
        words = ", ".join(f'"{name}": "{value}"' for name, value in facts.items())
        (home / "gateway_state.json").write_text(
            f'{{"pid": 1, "start_time": 1.0, "instance": "i", "updated_at": "2026-05-20T12:00:00Z", {words}}}'
        )
        return is_wanted(read_status(home))

    assert left(gateway_state="draining", after="running")
    assert left(gateway_state="draining")  # drained from outside
    assert not left(gateway_state="draining", after="stopped")
    assert left(gateway_state="starting")
    assert left(gateway_state="degraded")
    assert not left(gateway_state="startup_failed")


def as_init(program: str, tmp_path: Path) -> list[str]:
    """Our init with this Python program as its child."""
    child = tmp_path / "child.py"
    child.write_text(program)
    return [sys.executable, "-I", "-S", pid_one.__file__, str(EXIT_RESTART), sys.executable, str(child)]


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("raise SystemExit(0)", 0),
        ("raise SystemExit(78)", 78),
        ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", 137),
    ],
)
def test_init_leaves_as_its_child_left(tmp_path: Path, program: str, code: int) -> None:
    assert subprocess.run(as_init(program, tmp_path), check=False, timeout=60).returncode == code


def test_init_starts_it_again_when_it_asks_for_that(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = (
        f"import os; open({str(count)!r}, 'a').write('x')\n"
        "assert os.environ['HERMES_GATEWAY_EXTERNAL_SUPERVISOR']\n"
        f"raise SystemExit(75 if os.path.getsize({str(count)!r}) < 3 else 4)"
    )
    assert subprocess.run(as_init(program, tmp_path), check=False, timeout=60).returncode == 4
    assert count.read_text() == "xxx"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_init_hands_on_every_signal_once(tmp_path: Path, number: signal.Signals) -> None:
    program = (
        "import signal, time\n"
        f"signal.pthread_sigmask(signal.SIG_BLOCK, [{int(number)}]); print('ready', flush=True)\n"
        f"heard = signal.sigtimedwait([{int(number)}], 30); time.sleep(0.2)\n"
        "raise SystemExit(3 + len(signal.sigpending()) if heard else 1)"
    )
    process = subprocess.Popen(as_init(program, tmp_path), stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(timeout=60) == 3
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def can_unshare() -> bool:
    if not shutil.which("unshare"):
        return False
    return subprocess.run([*CONTAINER, "true"], capture_output=True, check=False).returncode == 0


CONTAINER = ["unshare", "--map-root-user", "--pid", "--fork", "--mount-proc", "--kill-child"]


@pytest.mark.skipif(not can_unshare(), reason="no namespaces may be made here")
async def test_as_the_first_process_of_a_container(home: Path) -> None:
    """It takes note of the ends of orphans, which are its children; its gateway hears the signals, comes
    back from a restart in the same container, and leaves as it should."""
    async with living(home, command=(*CONTAINER, *HERMES)) as life:
        before = await life.up()
        first = only_child(life.process.pid)
        inside = ["nsenter", "-t", str(first), "-U", "-p", "-m", "--preserve-credentials"]
        assert before.pid != 1
        assert cmdline(first)[1:4] == ["-I", "-S", pid_one.__file__]

        door = home / "door"
        os.mkfifo(door)
        subprocess.run([*inside, "sh", "-c", f"read it < {door} & true"], check=True, timeout=60)
        assert len(children(first)) == 2, "it has an orphan"
        door.write_text("go\n")
        await life.until(lambda _: len(children(first)) == 1)

        os.kill(first, signal.SIGUSR1)
        after = await life.until(lambda status: status.instance not in ("", before.instance))
        assert after.pid not in (1, before.pid)
        await life.up()
        assert only_child(life.process.pid) == first

        os.kill(first, signal.SIGINT)
        assert await life.ended() == 0
    status = read_status(home)
    assert status is not None
    assert status.gateway_state is GatewayState.STOPPED


def children(pid: int) -> list[int]:
    return [int(one) for one in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def only_child(pid: int) -> int:
    (child,) = children(pid)
    return child


def cmdline(pid: int) -> list[str]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text().split("\0")
    except OSError:
        return []


async def test_a_gateway_whose_database_is_removed_saves_it_and_leaves_with_1(home: Path) -> None:
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
            assert "database was removed or replaced while it ran" in life.output
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
