"""`hermes-trio journal`: print and check the run journals of a home.

Nothing is repaired here: the next writer of a journal cuts off a torn line, and a damaged journal stays as it
is.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import click
import msgspec

from ...base.errors import GatewayError, JournalError
from ...base.ids import path_safe_id
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory, load_config
from ...journal.chosen_shelf import shelf_of
from ...journal.reader import Reading
from ...journal.record import Record
from ...journal.shelf import Shelf
from ...state.db.engine import Db
from ...state.tables import turns
from ..home_reader import may_have_messages, one_line, open_for_reading, store_of

DAY = 86400.0


class NoSuchJournal(GatewayError):
    """No run and no session has this id."""

    def __init__(self, name: str) -> None:
        super().__init__(
            f"no run and no session {name!r} has a journal. `hermes-trio sessions list` shows the sessions."
        )


@dataclass(frozen=True, slots=True)
class JournalFinding:
    """A problem of one journal."""

    session_id: str
    run_id: str
    kind: Literal["damaged", "torn", "gap", "unreadable", "no turn", "no journal"]
    detail: str


@click.group(no_args_is_help=True)
def command() -> None:
    """Print the run journals, and check them."""


@command.command()
@click.argument("name", metavar="RUN_OR_SESSION")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array of runs.")
def show(name: str, as_json: bool) -> None:
    """Print the events of a run, or of all runs of a session."""
    shelf = _shelf(home_directory(os.environ))
    readings = [(session, run, shelf.read(session, run)) for session, run in _named(shelf, name)]
    if not readings:
        raise NoSuchJournal(name)
    readings.sort(key=lambda found: found[2].records[0].created_at if found[2].records else 0)
    if as_json:
        click.echo(json.dumps([_as_dict(*found) for found in readings], indent=2))
        return
    for session_id, run_id, found in readings:
        click.echo(
            f"{run_id}  of session {session_id}: {counted(len(found.records), 'event')}, {_state(found)}"
        )
        for record in found.records:
            click.echo(f"  {_line(record)}")
        for finding in _of_reading(session_id, run_id, found):
            click.echo(f"  {finding.kind}: {finding.detail}")


@command.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(as_json: bool) -> None:
    """Read every journal, and print its problems. The exit code is 1 if there are any."""
    home = home_directory(os.environ)
    days = load_config(home, os.environ).config.retention.journal_days
    shelf = _shelf(home)
    runs = {(session, run) for session in shelf.session_ids() for run in shelf.runs(session)}
    found = [
        *_in_the_journals(home, shelf, sorted(runs)),
        *_beside_the_rows(home, shelf, runs, ended_since=World().time() - days * DAY),
    ]
    if as_json:
        click.echo(json.dumps({"journals": len(runs), "findings": [asdict(one) for one in found]}, indent=2))
    else:
        for one in found:
            click.echo(f"{one.session_id}/{one.run_id}  {one.kind}: {one.detail}")
        problems = counted(len(found), "problem") if found else "no problems"
        click.echo(f"{counted(len(runs), 'journal')} read, {problems} found.")
    if found:
        raise SystemExit(1)


def _shelf(home: Path) -> Shelf:
    return shelf_of(home, store_of(home), World())


def _named(shelf: Shelf, name: str) -> list[tuple[str, str]]:
    """Return the journals of a session or of a run, as pairs of session id and run id."""
    path_safe_id(name, "run or session id")
    of_session = [(name, run) for run in shelf.runs(name)]
    session_id = None if of_session else shelf.session_of(name)
    return of_session or ([] if session_id is None else [(session_id, name)])


# --- checking ---


def _in_the_journals(home: Path, shelf: Shelf, runs: list[tuple[str, str]]) -> Iterator[JournalFinding]:
    """Yield the problems inside the journals."""
    for session_id, run_id in runs:
        try:
            found = shelf.read(session_id, run_id)
        except JournalError as error:
            yield JournalFinding(session_id, run_id, "unreadable", str(error))
            continue
        # Checked after the reading: the last line of a running turn may still be being written.
        if found.torn and _runs(home, run_id):
            found.torn = 0
        yield from _of_reading(session_id, run_id, found)


def _of_reading(session_id: str, run_id: str, found: Reading) -> Iterator[JournalFinding]:
    for damage in found.damage:
        where = f"{damage.length} bytes at {damage.offset}: " if damage.length else ""
        yield JournalFinding(session_id, run_id, "damaged", where + one_line(damage.reason, 200))
    if found.torn:
        detail = f"the last {found.torn} of {found.size} bytes are not a complete line"
        yield JournalFinding(session_id, run_id, "torn", detail)
    after = 0
    for record in found.records:
        if record.seq > after + 1:
            missing = f"{after + 1}" if record.seq == after + 2 else f"{after + 1} to {record.seq - 1}"
            yield JournalFinding(session_id, run_id, "gap", f"event {missing} missing")
        after = record.seq


def _beside_the_rows(
    home: Path, shelf: Shelf, runs: set[tuple[str, str]], *, ended_since: float
) -> Iterator[JournalFinding]:
    """Yield the contradictions between journals and turns."""
    with ExitStack() as opened:
        known = _turns(opened.enter_context(open_for_reading(home))) if may_have_messages(home) else {}
    for session_id, run_id in sorted(runs - set(known)):
        # A journal is opened just before its row is written. After a kill between the two it is empty.
        if shelf.size(session_id, run_id):
            yield JournalFinding(session_id, run_id, "no turn", "the database has no such turn")
    for (session_id, run_id), ended_at in known.items():
        kept = ended_at is None or ended_at >= ended_since
        if kept and (session_id, run_id) not in runs:
            yield JournalFinding(
                session_id, run_id, "no journal", "the database has the turn, but there is no file"
            )


def _turns(db: Db) -> dict[tuple[str, str], float | None]:
    rows = db.execute("SELECT session_id, run_id, ended_at FROM turns ORDER BY turn_id")
    return {(session_id, run_id): ended_at for session_id, run_id, ended_at in rows}


def _runs(home: Path, run_id: str) -> bool:
    """Return whether the run has no end in the database."""
    if not may_have_messages(home):
        return False
    with open_for_reading(home) as db:
        turn = turns.by_run(db, run_id)
    return turn is not None and turn.ended_at is None


# --- showing ---


def _state(found: Reading) -> str:
    terminal = found.terminal
    return str(terminal.terminal_state) if terminal else "no end"


def _line(record: Record) -> str:
    when = datetime.fromtimestamp(record.created_at).isoformat(" ", "milliseconds")
    payload = one_line(msgspec.json.encode(record.payload).decode("utf-8", "replace"), 120)
    return f"{when}  {record.seq:>4}  {one_line(record.event)}  {payload}"


def _as_dict(session_id: str, run_id: str, found: Reading) -> dict[str, Any]:
    return {
        "session_id": session_id,
        "run_id": run_id,
        "state": _state(found),
        "records": msgspec.to_builtins(found.records),
        "findings": [asdict(one) for one in _of_reading(session_id, run_id, found)],
    }
