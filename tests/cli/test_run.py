"""`hermes-trio run`: what it says, what it may use, when it refuses, and how it is the first process of a
container."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.errors import EXIT_RESTART
from hermes_trio.host import init
from hermes_trio.host.status import GatewayState, is_wanted, read_status
from hermes_trio.testing import open_loopback
from tests.machine import HERMES, configure, environment, hermes, living

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


async def test_a_second_one_is_refused_in_one_line(home: Path) -> None:
    async with living(home) as life:
        pid = (await life.up()).pid
        done = await hermes("run", environ=environment(home))
    assert done.returncode == 1
    assert done.stderr == (
        f"error: {home}: the gateway with pid {pid} works in this home. "
        "Stop it with `hermes-trio stop`, or set HERMES_HOME to another directory.\n"
    )


async def test_when_every_platform_refuses_us_it_says_so_and_leaves_78(home: Path) -> None:
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        platform.refuses()
        done = await hermes("run", environ=environment(home))
    assert done.returncode == 78
    assert done.stderr == (
        "error: every platform refused us, so nobody could talk to us. loopback refused its token. "
        "Renew platforms.loopback.token in config.yaml, then restart.\n"
    )
    status = read_status(home)
    assert status is not None
    assert status.gateway_state is GatewayState.STARTUP_FAILED


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
    return [sys.executable, "-I", "-S", init.__file__, str(EXIT_RESTART), sys.executable, str(child)]


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
        f"signal.sigwait([{int(number)}]); time.sleep(0.2); raise SystemExit(3 + len(signal.sigpending()))"
    )
    process = subprocess.Popen(as_init(program, tmp_path), stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        assert process.wait(timeout=60) == 3
    finally:
        process.kill()
        process.communicate()


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
        assert cmdline(first)[1:4] == ["-I", "-S", init.__file__]

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
