"""`hermes-trio journal`: what was shown is there to be read, and damage is told, never mended."""

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
CONFIG = "retention: {journal_days: 30000}"  # the stories play in the past


@pytest.fixture
def cli(stage: Stage) -> Cli:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["journal", *arguments], env={"HERMES_HOME": str(stage.home)})

    return run


async def told(stage: Stage) -> list[Path]:
    """Two chats had an answer; their journals."""
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
    """Every file, but what SQLite puts beside a database that somebody reads."""
    files = (path for path in home.rglob("*") if path.is_file() and path.suffix not in (".db-wal", ".db-shm"))
    return {path: path.read_bytes() for path in files}


async def test_a_run_is_shown_event_by_event(stage: Stage, cli: Cli) -> None:
    one, _ = await told(stage)
    head, *lines = cli("show", one.stem).stdout.splitlines()
    assert head == f"{one.stem}  of session {one.parent.name}: {len(lines)} events, completed"
    assert "message.delta" in lines[0]
    assert "run.completed" in lines[-1]
    assert cli("show", one.parent.name).stdout.splitlines() == [head, *lines], "a session by its id"
    [run] = json.loads(cli("show", one.stem, "--json").stdout)
    assert [record["seq"] for record in run["records"]] == list(range(1, len(lines) + 1))
    assert run["findings"] == []


async def test_what_is_not_there_or_must_not_be_asked_for(stage: Stage, cli: Cli) -> None:
    await told(stage)
    assert cli("show", "nothing").stderr.startswith("error: no run and no session 'nothing' has a journal.")
    for name in ("../gateway", "a/b", ".."):
        result = cli("show", name)
        assert (result.exit_code, "is refused" in result.stderr) == (1, True)


async def test_sound_journals_are_sound(stage: Stage, cli: Cli) -> None:
    await told(stage)
    before = contents(stage.home)
    result = cli("check")
    assert (result.exit_code, result.stdout) == (0, "2 journals read, nothing found to be wrong.\n")
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
async def test_damage_is_told_with_its_place_and_left_as_it_is(
    stage: Stage, cli: Cli, damage: Callable[[Path], object], kinds: list[str]
) -> None:
    one, two = await told(stage)
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


async def test_a_gap_names_what_is_missing(stage: Stage, cli: Cli) -> None:
    one, _ = await told(stage)
    lines = one.read_bytes().splitlines(keepends=True)
    one.write_bytes(lines[0] + lines[3])
    assert "gap: event 2 to 3 missing" in cli("check").stdout
    assert "gap: event 2 to 3 missing" in cli("show", one.stem).stdout


async def test_what_retention_removed_is_not_missed(stage: Stage, cli: Cli) -> None:
    one, _ = await told(stage)
    (stage.home / "config.yaml").write_text("retention: {journal_days: 1}")
    one.unlink()
    assert cli("check").exit_code == 0


async def test_a_run_that_is_being_written_is_no_damage(stage: Stage, cli: Cli) -> None:
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hang")
        await trio.sleep(1)
        [path] = (stage.home / "journal").glob("*/*.jsonl")
        with path.open("ab") as file:
            file.write(b'{"version":1,"event_id')
        assert cli("check").exit_code == 0
    assert cli("check").exit_code == 1, "now it is over, and nobody will finish the line"


async def test_an_empty_journal_without_a_turn_is_one_that_never_began(stage: Stage, cli: Cli) -> None:
    one, _ = await told(stage)
    one.with_name("r9.jsonl").touch()
    assert cli("check").exit_code == 0


def test_a_home_without_anything(cli: Cli) -> None:
    assert cli("check").stdout == "0 journals read, nothing found to be wrong.\n"
