"""`hermes-trio run --if-wanted`, and `hermes-trio run` as the first process of a container."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.base.errors import EXIT_RESTART
from hermes_trio.host.home.state_file import GatewayState, is_wanted, read_status
from hermes_trio.host.service import pid_one
from tests.machine import HERMES, configure, environment, hermes, living

pytestmark = [
    pytest.mark.timeout(180),
    pytest.mark.skipif(sys.platform == "win32", reason="the tests send signals"),
]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    configure(tmp_path / "home")
    return tmp_path / "home"


async def test_if_wanted_does_not_start_in_a_home_without_an_earlier_run(home: Path) -> None:
    done = await hermes("run", "--if-wanted", environ=environment(home))
    assert (done.returncode, done.stdout) == (
        0,
        "Not started: no gateway has run in this home. `hermes-trio run` starts it.\n",
    )


async def test_if_wanted_does_not_start_after_a_requested_stop(home: Path) -> None:
    async with living(home) as life:
        await life.up()
        await hermes("stop", environ=environment(home))
        await life.ended()
    done = await hermes("run", "--if-wanted", environ=environment(home))
    assert done.returncode == 0
    assert done.stdout.startswith("Not started: the last state is stopped.")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGTERM, 1), (signal.SIGKILL, -9), (signal.SIGUSR1, EXIT_RESTART)]
)
async def test_if_wanted_starts_after_an_end_that_was_not_requested(
    home: Path, number: signal.Signals, code: int
) -> None:
    supervised = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
    async with living(home, environ=supervised) as life:
        before = await life.up()
        life.is_abandoned = True
        life.signal(number)
        assert await life.ended() == code
    async with living(home, "--if-wanted") as life:
        assert (await life.until(lambda status: status.instance != before.instance)).pid == life.process.pid


def test_if_wanted_follows_the_state_that_an_interrupted_shutdown_was_to_leave(home: Path) -> None:
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
    """Return the command of our init with this Python program as its child."""
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
def test_init_exits_with_the_code_of_its_child(tmp_path: Path, program: str, code: int) -> None:
    assert subprocess.run(as_init(program, tmp_path), check=False, timeout=60).returncode == code


def test_init_restarts_a_child_that_exits_for_a_restart(tmp_path: Path) -> None:
    count = tmp_path / "count"
    program = (
        f"import os; open({str(count)!r}, 'a').write('x')\n"
        "assert os.environ['HERMES_GATEWAY_EXTERNAL_SUPERVISOR']\n"
        f"raise SystemExit(75 if os.path.getsize({str(count)!r}) < 3 else 4)"
    )
    assert subprocess.run(as_init(program, tmp_path), check=False, timeout=60).returncode == 4
    assert count.read_text() == "xxx"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGUSR2])
def test_init_forwards_every_signal_once(tmp_path: Path, number: signal.Signals) -> None:
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
async def test_run_is_the_first_process_of_a_container(home: Path) -> None:
    """The init reaps orphans, which become its children. Its gateway gets the signals, restarts in the same
    container, and exits in the usual way."""
    async with living(home, command=(*CONTAINER, *HERMES)) as life:
        before = await life.up()
        first = only_child(life.process.pid)
        inside = ["nsenter", "-t", str(first), "-U", "-p", "-m", "--preserve-credentials"]
        assert before.pid != 1
        assert cmdline(first)[1:4] == ["-I", "-S", pid_one.__file__]

        door = home / "door"
        os.mkfifo(door)
        subprocess.run([*inside, "sh", "-c", f"read it < {door} & true"], check=True, timeout=60)
        assert len(children(first)) == 2, "the orphan is a child of the init"
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
