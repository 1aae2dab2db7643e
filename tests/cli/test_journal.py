"""`hermes-trio journal`: runs are printed, and damage is reported but never repaired."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import trio
from click.testing import CliRunner, Result

from hermes_trio.cli import main
from hermes_trio.testing import Script
from tests.stage import Stage

Cli = Callable[..., Result]
CONFIG = "retention: {journal_days: 30000}"  # the clock of the stage is in the past


@pytest.fixture
def cli(stage: Stage) -> Cli:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["journal", *arguments], env={"HERMES_HOME": str(stage.home)})

    return run


async def answered_journals(stage: Stage) -> list[Path]:
    """Answer a message in each of two chats, and return their journals."""
    stage.agent.on("count", Script().says("one two three", pieces=3))
    async with stage.life():
        await stage.says("count", chat="1")
        await stage.says("count", chat="2")
        await trio.sleep(1)
    (stage.home / "config.yaml").write_text(CONFIG)
    return [
        stage.home / "journal" / stage.entry(chat).session_id / f"{stage.turns(chat)[0].run_id}.jsonl"
        for chat in ("1", "2")
    ]


def contents(home: Path) -> dict[Path, bytes]:
    """Return the content of every file, except the files that SQLite makes for a reader."""
    files = (path for path in home.rglob("*") if path.is_file() and path.suffix not in (".db-wal", ".db-shm"))
    return {path: path.read_bytes() for path in files}


async def test_show_prints_the_events_of_a_run(stage: Stage, cli: Cli) -> None:
    one, _ = await answered_journals(stage)
    head, *lines = cli("show", one.stem).stdout.splitlines()
    assert head == f"{one.stem}  of session {one.parent.name}: {len(lines)} events, completed"
    assert "message.delta" in lines[0]
    assert "run.completed" in lines[-1]
    assert cli("show", one.parent.name).stdout.splitlines() == [head, *lines], "the id of the session"
    [run] = json.loads(cli("show", one.stem, "--json").stdout)
    assert [record["seq"] for record in run["records"]] == list(range(1, len(lines) + 1))
    assert run["findings"] == []


async def test_a_missing_or_unsafe_id_is_refused(stage: Stage, cli: Cli) -> None:
    await answered_journals(stage)
    assert cli("show", "nothing").stderr.startswith("error: no run and no session 'nothing' has a journal.")
    for name in ("../gateway", "a/b", ".."):
        result = cli("show", name)
        assert (result.exit_code, "is refused" in result.stderr) == (1, True)


async def test_undamaged_journals_have_no_problems(stage: Stage, cli: Cli) -> None:
    await answered_journals(stage)
    before = contents(stage.home)
    result = cli("check")
    assert (result.exit_code, result.stdout) == (0, "2 journals read, no problems found.\n")
    assert contents(stage.home) == before


def lose_a_line(path: Path) -> None:
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:1] + lines[2:]))


def flip_a_byte(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[10] ^= 0xFF
    path.write_bytes(data)


def tear_the_tail(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-7])


@pytest.mark.parametrize(
    ("damage", "kinds"),
    [
        (lose_a_line, ["gap"]),
        (flip_a_byte, ["damaged", "gap"]),
        (tear_the_tail, ["torn"]),
        (Path.unlink, ["no journal"]),
        (lambda path: path.rename(path.with_name("stranger.jsonl")), ["damaged", "no turn", "no journal"]),
        (lambda path: (path.unlink(), path.mkdir()), ["unreadable"]),
    ],
)
async def test_damage_is_reported_with_its_place_and_not_repaired(
    stage: Stage, cli: Cli, damage: Callable[[Path], object], kinds: list[str]
) -> None:
    one, two = await answered_journals(stage)
    damage(two)
    before = contents(stage.home)
    result = cli("check", "--json")
    assert result.exit_code == 1
    report = json.loads(result.stdout)
    assert list(dict.fromkeys(finding["kind"] for finding in report["findings"])) == kinds
    assert {finding["session_id"] for finding in report["findings"]} == {two.parent.name}
    assert contents(stage.home) == before
    text = cli("check")
    assert text.exit_code == 1
    assert text.stdout.splitlines()[0].startswith(f"{two.parent.name}/")
    assert cli("show", one.stem).exit_code == 0


async def test_a_gap_names_the_missing_events(stage: Stage, cli: Cli) -> None:
    one, _ = await answered_journals(stage)
    lines = one.read_bytes().splitlines(keepends=True)
    one.write_bytes(lines[0] + lines[3])
    assert "gap: event 2 to 3 missing" in cli("check").stdout
    assert "gap: event 2 to 3 missing" in cli("show", one.stem).stdout


async def test_a_journal_removed_by_retention_is_no_problem(stage: Stage, cli: Cli) -> None:
    one, _ = await answered_journals(stage)
    (stage.home / "config.yaml").write_text("retention: {journal_days: 1}")
    one.unlink()
    assert cli("check").exit_code == 0


async def test_a_torn_line_of_a_running_turn_is_no_problem(stage: Stage, cli: Cli) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(1)
        [path] = (stage.home / "journal").glob("*/*.jsonl")
        with path.open("ab") as file:
            file.write(b'{"version":1,"event_id')
        assert cli("check").exit_code == 0
    assert cli("check").exit_code == 1, "the run has ended, so the line stays torn"


async def test_an_empty_journal_without_a_turn_is_no_problem(stage: Stage, cli: Cli) -> None:
    one, _ = await answered_journals(stage)
    one.with_name("r9.jsonl").touch()
    assert cli("check").exit_code == 0


def test_check_of_an_empty_home_finds_no_problems(cli: Cli) -> None:
    assert cli("check").stdout == "0 journals read, no problems found.\n"
