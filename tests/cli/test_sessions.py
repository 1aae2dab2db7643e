"""`hermes-trio sessions`: the conversations of a home, listed, printed, exported and deleted."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result
from rich.cells import cell_len

from hermes_trio.cli import main
from hermes_trio.host.home.home_lock import LOCK_FILE, locked_home
from hermes_trio.host.processes.process_identity import own
from hermes_trio.state.tables import processes, transcript
from hermes_trio.state.tables.processes import ProcessRow
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from hermes_trio.testing import Script
from tests.stage import Stage
from tests.state.rows import everything

Cli = Callable[..., Result]
ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def in_utc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "UTC")
    if hasattr(time, "tzset"):
        time.tzset()


@pytest.fixture
def cli(stage: Stage) -> Cli:
    """Return a function that runs a command for the home of the stage."""

    def run(*arguments: str, said: str = "") -> Result:
        return CliRunner().invoke(
            main, ["sessions", *arguments], env={"HERMES_HOME": str(stage.home)}, input=said
        )

    return run


async def two_chats(stage: Stage) -> tuple[str, str]:
    """Play two chats, and return the ids of their sessions, the newest first."""
    stage.agent.on("hang", Script().says("I begin.").calls("terminal", preview="ls -l").hangs())
    async with stage.life():
        await stage.says("Where is the blue umbrella?", chat="1")
        await trio.sleep(60)
        await stage.says("hang", chat="2")
        await trio.sleep(1)
    return stage.entry("2").session_id, stage.entry("1").session_id


async def test_the_list_has_the_newest_first_with_its_state(stage: Stage, cli: Cli) -> None:
    new, old = await two_chats(stage)
    head, first, second = cli("list").stdout.splitlines()
    assert head.split() == ["SESSION", "CHAT", "LAST", "USED", "TURNS", "STATE"]
    assert first.split() == [new, "memory", "2", "2026-05-20", "12:01:01", "1", "interrupted"]
    assert second.split() == [old, "memory", "1", "2026-05-20", "12:00:00", "1"]


async def test_reading_commands_change_nothing_while_the_gateway_runs(stage: Stage, cli: Cli) -> None:
    stage.agent.on("work", Script().takes(50).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        session_id = stage.entry().session_id
        before = await gateway.home.database.read(everything)
        assert cli("list").stdout.splitlines()[1].endswith("answering")
        for command in (["list", "--search", "work"], ["show", session_id], ["export", session_id]):
            assert cli(*command).exit_code == 0
        assert await gateway.home.database.read(everything) == before


async def test_an_unfinished_turn_of_a_killed_gateway_is_interrupted(stage: Stage, tmp_path: Path) -> None:
    killed = tmp_path / "killed"
    stage.agent.on("work", Script().takes(50).says("Done."))
    async with stage.life():
        await stage.says("work")
        shutil.copytree(stage.home, killed)  # the files after a kill, with the lock
    (killed / LOCK_FILE).unlink(missing_ok=True)
    listed = CliRunner().invoke(main, ["sessions", "list"], env={"HERMES_HOME": str(killed)}).stdout
    assert listed.splitlines()[1].endswith("interrupted")
    (found,) = json.loads(
        CliRunner().invoke(main, ["sessions", "list", "--json"], env={"HERMES_HOME": str(killed)}).stdout
    )
    assert found["running"] is False


async def test_a_resumed_turn_is_shown_as_answering(stage: Stage, cli: Cli) -> None:
    stage.agent.on("work", Script().takes(50).says("Done."))
    async with stage.life() as gateway:
        await stage.says("work")
        gateway.stop(grace=0)
    assert cli("list").stdout.splitlines()[1].endswith("interrupted")
    async with stage.life():
        await trio.sleep(10)
        assert cli("list").stdout.splitlines()[1].endswith("answering")


async def test_a_search_shows_the_text_that_it_found(stage: Stage, cli: Cli) -> None:
    _, old = await two_chats(stage)
    found = cli("list", "--search", "umbrella blue").stdout.splitlines()
    assert len(found) == 2
    assert found[1].startswith(old)
    assert "the blue umbrella?" in found[1]
    assert cli("list", "--search", "submarine").stdout == "No session contains 'submarine'.\n"
    assert cli("list", "--search", '" OR *').exit_code == 0


async def test_a_cut_list_names_the_number_of_the_rest(stage: Stage, cli: Cli) -> None:
    await two_chats(stage)
    result = cli("list", "--limit", "1")
    assert len(result.stdout.splitlines()) == 2
    assert result.stderr == "... and 1 more: --limit 2 shows all, --search finds some.\n"
    assert cli("list", "--limit", "9" * 30).exit_code == 2, "a usage error, and no traceback"


async def test_show_prints_the_messages_and_the_marker_of_a_cut_turn(stage: Stage, cli: Cli) -> None:
    new, _ = await two_chats(stage)
    shown = cli("show", new).stdout
    assert f"{new}  memory 2\n" in shown
    assert "1 turn, 0 tokens. interrupted\n" in shown
    assert "2026-05-20 12:01:00  person\n  hang\n" in shown
    assert "Response interrupted before this turn finished." in shown


async def test_messages_of_strangers_have_no_control_characters(stage: Stage, cli: Cli) -> None:
    async with stage.life():
        await stage.says("\x1b[2J\x9b31m\rhello")
    session_id = stage.entry().session_id
    for command in (["list"], ["show", session_id], ["list", "--search", "hello"], ["export", session_id]):
        assert all(line.isprintable() for line in cli(*command).stdout.split("\n"))
    markdown = cli("export", session_id, "--format", "markdown").stdout
    assert all(line.isprintable() for line in markdown.split("\n"))


async def test_an_export_has_all_messages_and_tool_calls(stage: Stage, cli: Cli) -> None:
    async with stage.life() as gateway:
        await stage.says("hello")
        turn = stage.turns()[0]
        row = TranscriptRow(
            "assistant",
            "Let me see.",
            1.0,
            turn.turn_id,
            place=9,
            tool_calls=(ToolCall("c1", "terminal", '{"command": "ls"}'),),
        )
        await gateway.home.database.write(transcript.append, stage.entry().session_id, row)
    lines = [json.loads(line) for line in cli("export", stage.entry().session_id).stdout.splitlines()]
    assert [line["type"] for line in lines] == ["session", "message", "message", "message"]
    assert lines[0]["session_key"] == "agent:main:memory:dm:42"
    assert [(line["role"], line["content"]) for line in lines[1:]] == [
        ("user", "hello"),
        ("assistant", "You said: hello"),
        ("assistant", "Let me see."),
    ]
    assert lines[3]["tool_calls"] == [{"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}'}]
    assert lines[1]["run_id"] == turn.run_id
    markdown = cli("export", stage.entry().session_id, "--format", "markdown").stdout
    assert markdown.startswith("# memory 42\n")
    assert "## 2026-05-20 12:00:00 person\n\nhello\n" in markdown
    assert "[calls terminal" in markdown


async def test_list_and_show_as_json(stage: Stage, cli: Cli) -> None:
    new, old = await two_chats(stage)
    listed = json.loads(cli("list", "--json").stdout)
    assert [one["session_id"] for one in listed] == [new, old]
    assert listed[0]["resume_pending"] is True
    shown = json.loads(cli("show", old, "--json").stdout)
    assert [row["content"] for row in shown["messages"]] == [
        "Where is the blue umbrella?",
        "You said: Where is the blue umbrella?",
    ]


def test_an_empty_home_has_no_sessions(cli: Cli) -> None:
    assert cli("list").stdout == "There is no session yet.\n"
    assert cli("list", "--json").stdout == "[]\n"
    for command in ("show", "export", "delete"):
        result = cli(command, "s1")
        assert result.exit_code != 0
        assert "hermes-trio chat" in result.stderr


async def test_an_unknown_session_id_is_an_error(stage: Stage, cli: Cli) -> None:
    await two_chats(stage)
    for command in ("show", "export", "delete"):
        result = cli(command, "../x")
        assert result.exit_code == 1
        assert result.stderr == (
            "error: there is no session '../x'. `hermes-trio sessions list` shows all sessions.\n"
        )


def test_a_file_that_is_no_gateway_database_is_an_error(stage: Stage, cli: Cli) -> None:
    stage.home.mkdir()
    (stage.home / "gateway.db").write_bytes(b"")
    result = cli("list")
    assert result.exit_code == 78
    assert "Start the gateway once" in result.stderr


# --- deleting ---


async def aside(cli: Cli, *arguments: str, said: str = "") -> Result:
    """Run a command in a thread, because it starts its own event loop."""
    return await trio.to_thread.run_sync(lambda: cli(*arguments, said=said))


async def test_delete_removes_the_session_and_its_files(stage: Stage, cli: Cli) -> None:
    new, old = await two_chats(stage)
    assert cli("delete", old, said="n\n").exit_code == 1
    assert cli("show", old).exit_code == 0
    result = await aside(cli, "delete", old, said="y\n")
    assert result.stdout == f"Delete {old} (memory 1, 1 turns) permanently? [y/N]: y\nDeleted.\n"
    assert cli("show", old).exit_code == 1
    assert cli("show", new).exit_code == 0
    assert [path.name for path in (stage.home / "journal").iterdir()] == [new]


async def test_delete_is_refused_while_the_gateway_runs(stage: Stage, cli: Cli) -> None:
    _, old = await two_chats(stage)
    with locked_home(stage.home):
        result = cli("delete", old, "--yes")
    assert result.exit_code == 1
    assert "its gateway runs" in result.stderr
    assert "hermes-trio stop" in result.stderr
    assert cli("show", old).exit_code == 0


async def test_delete_is_refused_while_a_command_of_it_runs(stage: Stage, cli: Cli) -> None:
    """Only its row names the process: without the row the command would never be ended."""
    _, old = await two_chats(stage)
    me = own()
    async with stage.life() as gateway:
        row = ProcessRow("p1", old, "life", me.pid, me.started, "serve", True, 0.0)
        await gateway.home.database.write(processes.add, row)
        await gateway.home.database.write(
            processes.add, ProcessRow("p2", old, "life", 2**30, 1.0, "ls", True, 0.0)
        )
    (stage.home / "spools").mkdir()
    (stage.home / "spools" / "p2").write_text("output")
    result = await aside(cli, "delete", old, "--yes")
    assert result.exit_code == 1
    assert f"(pid {me.pid})" in result.stderr
    async with stage.life() as gateway:
        await gateway.home.database.write(processes.end, "p1", 0, 1.0)
    assert (await aside(cli, "delete", old, "--yes")).exit_code == 0
    assert not (stage.home / "spools" / "p2").exists()


# --- as a program ---


def on_a_terminal(home: Path, *arguments: str, columns: int = 120) -> str:
    """Run a command in a terminal, and return its output."""
    pty = pytest.importorskip("pty", reason="this system has no such terminals")
    ours, theirs = pty.openpty()
    environ = {**os.environ, "HERMES_HOME": str(home), "COLUMNS": str(columns), "TERM": "xterm"}
    with subprocess.Popen(
        [sys.executable, "-m", "hermes_trio", *arguments], cwd=ROOT, env=environ, stdout=theirs
    ) as program:
        os.close(theirs)
        seen = b""
        try:
            while piece := os.read(ours, 4096):
                seen += piece
        except OSError:  # Linux: the other side is closed
            pass
        program.wait(timeout=30)
    os.close(ours)
    return seen.decode()


async def test_a_list_in_a_terminal_is_styled_without_markup_of_people(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello", chat="[red]kim[/red]")
    seen = on_a_terminal(stage.home, "sessions", "list")
    assert "[red]kim[/red]" in seen
    assert "\x1b[1m" in seen


async def test_a_narrow_terminal_shows_the_whole_session_id(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
    seen = on_a_terminal(stage.home, "sessions", "list", columns=40)
    assert stage.entry().session_id in seen
    assert "2026-05-20 12:00:00" in seen, "the terminal wraps a line that is too long"


async def test_a_terminal_of_usual_width_shows_each_session_on_one_line(stage: Stage) -> None:
    async with stage.life():
        for chat in ("short", "名前" * 20):
            await stage.says("hello", chat=chat)
            await stage.says("/new", chat=chat)
    head, first, second = on_a_terminal(stage.home, "sessions", "list", columns=80).splitlines()
    assert head.split()[0] == "\x1b[1mSESSION"
    assert cell_len(first) <= 80 >= cell_len(second)
    assert "memory 名…" in first
    assert [line.index("2026-05-20 12:00:00") + line.count("名") for line in (first, second)] == [38, 38]
    assert second.endswith("ended (sess…")


def test_the_list_imports_no_trio(stage: Stage) -> None:
    code = (
        "import sys\nfrom hermes_trio.cli import main\n"
        "try: main(['sessions', 'list'])\nexcept SystemExit: pass\n"
        "print('trio' in sys.modules)"
    )
    environ = {**os.environ, "HERMES_HOME": str(stage.home)}
    shown = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env=environ,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert shown.stdout.splitlines()[-1] == "False"
