"""`restart --live`: another process takes over the home, the listening sockets and all that is stored. No
client is refused, no turn is cut, and a successor that fails changes nothing."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx
import pytest
import trio

import hermes_trio
from hermes_trio.host.home.home_lock import HomeLock, locked_home, recorded_holder
from hermes_trio.host.home.state_file import read_status
from hermes_trio.host.processes.process_identity import find
from hermes_trio.host.service.successor import Successor, SuccessorFailed, started_successor
from hermes_trio.testing import open_loopback
from hermes_trio.testing.loopback_server import LoopbackServer
from tests.live import Follower, Manager, Visits, succeeding
from tests.machine import HERMES, PATIENCE, configure, environment, hermes

pytestmark = [
    pytest.mark.timeout(3600),
    pytest.mark.skipif(sys.platform == "win32", reason="Windows passes no files on in this way"),
]

INSTALLED = Path(hermes_trio.__file__).parent


@pytest.mark.parametrize("times", [3, pytest.param(100, marks=pytest.mark.soak)])
async def test_successors_take_over_one_after_the_other_under_traffic(tmp_path: Path, times: int) -> None:
    home, visits, follower = tmp_path / "home", Visits(), Follower()
    said: list[str] = []
    pids: list[int] = []
    manager = Manager()
    async with open_loopback() as platform, trio.open_nursery() as services:
        await services.start(manager.listen, tmp_path / "notify")
        configure(home, port=platform.port)
        environ = environment(home, NOTIFY_SOCKET=str(tmp_path / "notify"))
        async with succeeding(home, environ) as gateway, trio.open_nursery() as traffic:
            enough = trio.Event()
            traffic.start_soon(visits.go_on, gateway.address)
            traffic.start_soon(follower.go_on, gateway.address, gateway.key)
            traffic.start_soon(converse, platform, said, enough)
            for _ in range(times):
                answer = await gateway.restart()
                assert answer.status_code == 202, answer.text
                pids.append(answer.json()["successor"])
                assert (await gateway.served_by(pids[-1])).web == gateway.address
            assert await gateway.first.ended() == 0
            enough.set()
            with trio.fail_after(PATIENCE):
                while len(follower.completed) < len(said):
                    await follower.changed.wait()
            told, holder = await manager.named_ready(times + 1), recorded_holder(home)
            traffic.cancel_scope.cancel()
        services.cancel_scope.cancel()
    print(f"\n{times} hand-overs, {len(visits.answers)} requests, {len(said)} messages.")
    print(f"Longest request: {visits.longest * 1000:.0f} ms.")
    print(f"Longest time of a follower without a stream: {follower.longest * 1000:.0f} ms.")
    assert set(visits.answers) == {"HTTP/1.1 200 "}, "a client was refused, or its connection was closed"
    assert holder is not None
    assert holder.pid == pids[-1]
    assert platform.chat("42").texts == [f"You said: {text}" for text in said], "lost, doubled or cut"
    assert len(follower.completed) == len(set(follower.completed)) == len(said)
    # Of two processes that are connected at once, the platform drops the first.
    assert "link lost" not in (home / "logs" / "gateway.log").read_text()
    mains = [line for pid in pids for line in (f"MAINPID={pid}", "READY=1")]
    assert told == ["READY=1", *mains], "a process notified the manager before it was the main one"
    assert "STOPPING=1" not in manager.lines


async def converse(platform: LoopbackServer, said: list[str], enough: trio.Event) -> None:
    """Say one thing after the other, each when the last one is answered. The last one is answered too."""
    while not enough.is_set():
        text = f"message {len(said)}"
        await platform.says(text)
        said.append(text)
        with trio.fail_after(PATIENCE):
            while platform.chat("42").last != f"You said: {text}":
                await platform.changed.wait()
        with trio.move_on_after(0.1):
            await enough.wait()


Then = Callable[[Successor, HomeLock], Awaitable[None]]


async def be_predecessor(home: Path, environ: dict[str, str], then: Then) -> None:
    """Hand a home over to a real gateway, which is killed after `then`."""

    async def hand_over() -> None:
        async with started_successor([*HERMES, "run"], environ) as successor:
            assert (await successor.ready(PATIENCE)).version == hermes_trio.__version__
            await then(successor, lock)
            raise SuccessorFailed("the test is over")

    with locked_home(home) as lock, pytest.raises(SuccessorFailed, match="the test is over"):
        await hand_over()


async def test_a_successor_notifies_the_manager_when_its_predecessor_has_left(tmp_path: Path) -> None:
    """The manager listens to one process at a time."""
    home, manager = tmp_path / "home", Manager()
    configure(home)

    async def visit(successor: Successor, lock: HomeLock) -> None:
        await successor.take_over(lock.descriptors, [listening.fileno()])
        lock.hand_on()
        async with httpx.AsyncClient(timeout=PATIENCE) as client:
            for _ in range(3):
                health = "http://{}:{}/health".format(*listening.getsockname())
                assert (await client.get(health)).status_code == 200
        assert recorded_holder(home) == find(successor.pid)
        assert manager.lines == []

    async with trio.open_nursery() as services:
        await services.start(manager.listen, tmp_path / "notify")
        environ = environment(home, NOTIFY_SOCKET=str(tmp_path / "notify"))
        with socket.create_server(("127.0.0.1", 0)) as listening:
            await be_predecessor(home, environ, visit)
        services.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("number", "cause"), [(signal.SIGINT, "planned"), (signal.SIGTERM, "signal")], ids=["INT", "TERM"]
)
async def test_a_signal_that_comes_while_a_successor_takes_over_stops_the_gateway(
    tmp_path: Path, number: signal.Signals, cause: str
) -> None:
    """A successor that the signal ends at once would be taken for one that has failed."""
    home = tmp_path / "home"
    configure(home)

    async def stop(successor: Successor, lock: HomeLock) -> None:
        os.kill(successor.pid, number)
        await successor.take_over(lock.descriptors, [listening.fileno()])
        lock.hand_on()
        with trio.fail_after(PATIENCE):
            while True:
                status = read_status(home)
                if status is not None and status.exit_reason == cause:
                    return
                await trio.sleep(0.02)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        await be_predecessor(home, environment(home), stop)


async def test_a_running_turn_ends_first_or_is_resumed_by_the_successor_after_the_wait(
    tmp_path: Path,
) -> None:
    home = tmp_path / "home"
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        async with succeeding(home) as gateway:
            chat = platform.chat("42")
            await platform.says("ask")  # its turn runs until the question is answered
            first = await gateway.first.until(lambda status: status.active_turns == 1)
            asked = (await gateway.restart(wait=1000)).json()
            assert asked["active_agents"] == 1
            assert "another live restart has begun" in (await gateway.restart()).text
            assert (await gateway.first.up()).pid == first.pid
            await platform.says("red")
            second = await gateway.served_by(asked["successor"])
            with trio.fail_after(PATIENCE):
                await platform.until(lambda: any("You answered: red" in text for text in chat.texts))
            assert not any("interrupted" in text for text in chat.texts), "the turn was cut"
            await platform.says("count to 900")
            await platform.until(lambda: "2" in (chat.last or ""))
            asked = (await gateway.restart(wait=0)).json()
            third = await gateway.served_by(asked["successor"])
            with trio.fail_after(PATIENCE):
                await platform.until(lambda: any("Where was I?" in text for text in chat.texts))
    assert len({first.pid, second.pid, third.pid}) == 3
    assert not any("restart" in text for text in chat.texts), "told of it"


def crashes_at_import(package: Path) -> None:
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "__main__.py").write_text("raise SystemExit('this version is broken')\n")


def changes_the_store(package: Path) -> None:
    shutil.copytree(INSTALLED, package)
    (package / "state" / "db" / "schema" / "9999_later.sql").write_text("CREATE TABLE later (it TEXT);\n")


def crashes_when_it_opens(package: Path) -> None:
    shutil.copytree(INSTALLED, package)
    serve = package / "gateway" / "serve.py"
    serve.write_text(serve.read_text() + "\n\ndef open_database(*_, **__):\n    raise SystemExit(3)\n")


@pytest.mark.parametrize(
    ("next_version", "why", "is_new_life"),
    [
        (crashes_at_import, "it has ended", False),
        (changes_the_store, "changes the store (schema step 9999_later)", False),
        (crashes_when_it_opens, "it ended after it was ready", True),
    ],
)
async def test_a_successor_that_fails_leaves_the_gateway_serving(
    tmp_path: Path, next_version: Callable[[Path], None], why: str, is_new_life: bool
) -> None:
    home, visits, installed = tmp_path / "home", Visits(), tmp_path / "next" / "hermes_trio"
    async with open_loopback() as platform:
        configure(home, port=platform.port)
        environ = environment(home, PYTHONPATH=str(installed.parent), PYTHONSAFEPATH="1")
        async with succeeding(home, environ) as gateway, trio.open_nursery() as traffic:
            before = await gateway.first.up()
            traffic.start_soon(visits.go_on, gateway.address)
            await says_and_is_answered(platform, "before")
            next_version(installed)
            patient = ("--ready-within", str(PATIENCE))
            done = await hermes("restart", "--live", *patient, environ=environment(home))
            await says_and_is_answered(platform, "after")
            after = await gateway.first.up()
            assert gateway.first.codes == []
            traffic.cancel_scope.cancel()
    assert (done.returncode, done.stdout.count("The successor is ready")) == (1, int(is_new_life))
    assert why in done.stderr
    assert "The running gateway goes on." in done.stderr
    assert (after.pid, after.web) == (before.pid, before.web)
    assert (after.instance != before.instance) == is_new_life
    assert "successor failed; this process goes on" in (home / "logs" / "gateway.log").read_text()
    assert set(visits.answers) == {"HTTP/1.1 200 "}
    assert platform.chat("42").texts == ["You said: before", "You said: after"], "lost, doubled or cut"


async def says_and_is_answered(platform: LoopbackServer, text: str) -> None:
    with trio.fail_after(PATIENCE):
        await platform.says(text)
        while platform.chat("42").last != f"You said: {text}":
            await platform.changed.wait()


async def test_a_mistake_in_the_configuration_is_found_before_anything_ends(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.yaml").write_text("web: {port: 0}\n")
    async with succeeding(home) as gateway:
        before = await gateway.first.up()
        (home / "config.yaml").write_text("web: {port: many}\n")
        answer = await gateway.restart()
        after = await gateway.first.up()
    assert (after.pid, after.instance) == (before.pid, before.instance)
    assert answer.status_code == 409
    assert "web.port" in answer.json()["error"]["message"]


async def test_a_supervisor_that_watches_the_process_gets_no_other_one(tmp_path: Path) -> None:
    home = tmp_path / "home"
    configure(home)
    environ = environment(home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
    async with succeeding(home, environ) as gateway:
        answer = await gateway.restart()
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "not_live")
        assert "`hermes-trio restart` without `--live`" in answer.json()["error"]["message"]
