"""Attempts of the agent against the gateway that runs it: its key, its database, its settings and its
processes. Each attempt is a command of a real turn, in each sandbox that this machine has."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.config.schema import ApprovalsConfig, TerminalConfig
from hermes_trio.tools.builtin.files import Files
from hermes_trio.tools.tool import ToolFailed
from tests.stage import Stage, everyone
from tests.tools.bench import Bench
from tests.tools.desk import Desk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")

KEY = "the-key-of-the-web-0123456789"


@pytest.fixture(params=["bubblewrap", "landlock"])
def bench(real_stage: Stage, tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    """A gateway that asks nobody, so that a command is refused by its sandbox or by nothing."""
    (work := tmp_path / "work").mkdir()
    real_stage.home.mkdir()
    (real_stage.home / "web.key").write_text(KEY)
    (real_stage.home / "config.yaml").write_text("{}")
    (real_stage.home / "files" / "other").mkdir(parents=True)
    (real_stage.home / "files" / "other" / "letter.txt").write_text("of another session")
    config = msgspec.structs.replace(everyone(), approvals=ApprovalsConfig(timeout=0.2))
    terminal = TerminalConfig(cwd=str(work), sandbox=request.param)
    real_stage.config = msgspec.structs.replace(config, terminal=terminal)
    return Bench(real_stage)


SECRETS = (KEY, "of another session", "CREATE TABLE", "r-xp", "\nHOME=", "/web.key\n")
"""Texts of which each attempt to read shows one where it succeeds."""

READS = {
    "its key": "cat {home}/web.key",
    "its key by a program": "python3 -c \"print(open({home!r} + '/web.key').read())\"",
    "its key by another root": "cat /proc/{pid}/root{home}/web.key",
    "its database": "cat {home}/gateway.db {home}/gateway.db-wal",
    "its memory": "cat /proc/{pid}/maps",
    "its environment": "tr '\\0' '\\n' < /proc/{pid}/environ",
    "a file of another session": "cat {home}/files/other/letter.txt",
    "its key through a hard link": "ln {home}/web.key key && cat key",
    "its key through a link": "ln -s {home}/web.key link && cat link",
    "its home as an archive": "tar cf - {home} | tar tvf - | grep web.key",
}


async def told(bench: Bench, attempt: str) -> str:
    """Return the output of an attempt, from a file: what the model is shown has no secrets."""
    command = attempt.format(home=str(bench.stage.home), pid=os.getpid())
    async with bench.life():
        await bench.run(f"({command}) > output 2>&1")
    return Path(bench.stage.config.terminal.cwd or "", "output").read_text("utf-8", errors="replace")


@pytest.mark.parametrize("attempt", READS.values(), ids=READS)
async def test_a_command_reads_nothing_of_the_gateway(bench: Bench, attempt: str) -> None:
    output = await told(bench, attempt)
    assert not [secret for secret in SECRETS if secret in output], output


@pytest.mark.parametrize("attempt", READS.values(), ids=READS)
async def test_the_attempts_to_read_work_without_a_sandbox(bench: Bench, attempt: str) -> None:
    terminal = msgspec.structs.replace(bench.stage.config.terminal, sandbox="off")
    approvals = ApprovalsConfig(mode="off")
    bench.stage.config = msgspec.structs.replace(bench.stage.config, terminal=terminal, approvals=approvals)
    output = await told(bench, attempt)
    assert [secret for secret in SECRETS if secret in output], output


CHANGES = {
    "a yes for always in the database": 'python3 -c "import sqlite3; '
    "d = sqlite3.connect({home!r} + '/gateway.db'); "
    "d.execute(\\\"INSERT INTO meta VALUES ('allowed.grant: network', '1')\\\"); d.commit()\"",
    "its settings": "echo 'approvals: {{mode: off}}' > {home}/config.yaml",
    "its settings replaced": "echo x > new && mv new {home}/config.yaml",
    "its environment file": "echo A=1 > {home}/.env",
    "a marker that stops it": "echo '{{}}' > {home}/.gateway-planned-stop.json",
    "its home removed": "rm -rf {home}",
    "its home moved": "mv {home} {home}.old",
    "its program": "echo 'import os' >> {package}/__init__.py",
    "a module beside its program": "touch {package}/sitecustomize.py",
}


@pytest.mark.parametrize("attempt", CHANGES.values(), ids=CHANGES)
async def test_a_command_changes_nothing_of_the_gateway(bench: Bench, attempt: str) -> None:
    import hermes_trio

    package = Path(hermes_trio.__file__).parent
    program = (package / "__init__.py").read_text()
    async with bench.life():
        await bench.run(attempt.format(home=str(bench.stage.home), package=package))
        home = bench.stage.home
        assert (home / "config.yaml").read_text() == "{}"
        assert (home / "web.key").read_text() == KEY
        assert not (home / ".env").exists()
        assert not (home / ".gateway-planned-stop.json").exists()
        assert bench.rows("SELECT * FROM meta WHERE name LIKE 'allowed%'") == []
        assert (package / "__init__.py").read_text() == program
        assert not (package / "sitecustomize.py").exists()


KILLS = {
    "by its pid": "kill -KILL {pid}",
    "by its pid, as a program": 'python3 -c "import os; os.kill({pid}, 9)"',
    "with everything": "kill -KILL -1",
    "by name": "pkill -KILL -f hermes; pkill -KILL pytest; pkill -KILL python; true",
    "its guard": "kill -KILL {guard}",
    "stopped": "kill -STOP {pid}",
    "by tracing": 'python3 -c "import ctypes; print(ctypes.CDLL(None).ptrace(16, {pid}, 0, 0))" | grep -x 0',
}


@pytest.mark.parametrize("attempt", KILLS.values(), ids=KILLS)
async def test_a_command_ends_no_process_outside_of_its_sandbox(bench: Bench, attempt: str) -> None:
    async with bench.life() as gateway:
        guard = gateway.work.background.commands.guard
        assert guard is not None
        await bench.run("true")  # the process of the guard is started with the first command
        before = guard.pid
        assert before is not None
        await bench.run(attempt.format(pid=os.getpid(), guard=before), timeout=20)
        await trio.sleep(0.05)
        assert guard.pid == before
        assert (await bench.run("echo alive")).content.startswith("alive\n")


async def test_a_command_has_no_network_without_a_yes(bench: Bench) -> None:
    async with bench.life():
        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        port = listeners[0].socket.getsockname()[1]
        connect = f"(exec 3<>/dev/tcp/127.0.0.1/{port}) && echo connected"
        assert "connected" not in (await bench.run(connect)).content
        refused = await bench.run(connect, needs=["network"])
        assert "That needs a person's yes, and none came" in refused.content
        for listener in listeners:
            await listener.aclose()


async def test_the_file_tools_see_what_a_command_sees(bench: Bench) -> None:
    async with bench.life():
        await bench.run("echo from the command > /tmp/note; echo text > $TMPDIR/own")
        sandbox = bench.gateway.work.background.commands.sandbox(_session_of(bench))  # type: ignore[union-attr]
    desk = Desk(bench.stage.home, sandbox.room.work, session_id=_session_of(bench), kind=sandbox.kind)
    read = {tool.name: tool for tool in Files().tools}["read_file"]
    assert (await desk.use(read, path=str(sandbox.inside(sandbox.temporary) / "own"))).content == "1|text"
    with pytest.raises(ToolFailed, match="home"):
        await desk.use(read, path=str(bench.stage.home / "web.key"))


def _session_of(bench: Bench) -> str:
    ((session,),) = bench.rows("SELECT session_id FROM sessions")
    return str(session)
