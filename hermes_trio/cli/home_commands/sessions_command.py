"""`hermes-trio sessions`: list, print, export and delete the conversations of a home."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec

from ...base.errors import GatewayError, HomeBusy, HomeError
from ...base.plural import counted
from ...config.config_file import home_directory
from ...host.home.home_lock import is_locked, locked_home
from ...state.db.engine import Db
from ...state.tables import sessions, transcript, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from ..home_reader import local_time, may_have_messages, one_line, open_for_reading, print_table, store_of
from ..terminal_output import visible

SHOWN = 50
MOST = 1_000_000


class NoSuchSession(GatewayError):
    """There is no session with this id."""

    def __init__(self, session_id: str) -> None:
        super().__init__(
            f"there is no session {session_id!r}. `hermes-trio sessions list` shows all sessions."
        )


@dataclass(frozen=True, slots=True)
class Listed:
    """A session in the list."""

    entry: SessionEntry
    turns: int
    """The number of its turns."""
    running: bool
    """True if a turn runs."""
    left: bool
    """True if a gateway that was killed left an unfinished turn."""
    found: str = ""
    """The text that a search found in it."""

    @property
    def state(self) -> str:
        if self.entry.end_reason:
            return f"ended ({self.entry.end_reason})"
        if self.running:  # also if an interrupted turn is resumed
            return "answering"
        if self.entry.mark or self.left:
            return "suspended" if self.entry.suspended else "interrupted"
        if self.entry.auto_reset_reason == "imported" and not self.turns:
            return "imported without messages"
        return ""

    def to_dict(self) -> dict[str, Any]:
        entry = self.entry
        more = {"ended_at": entry.ended_at, "end_reason": entry.end_reason, "turns": self.turns}
        return {**entry.to_dict(), **more, "running": self.running, "found": self.found or None}


@click.group(no_args_is_help=True)
def command() -> None:
    """List, print, export or delete conversations."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
@click.option("--search", metavar="TEXT", help="Only conversations that contain all these words.")
@click.option(
    "--limit", default=SHOWN, show_default=True, type=click.IntRange(1, MOST), help="Maximum number."
)
def list_(as_json: bool, search: str | None, limit: int) -> None:
    """List the conversations, the most recently used first."""
    found, total = [], 0
    if may_have_messages(_home()):
        with open_for_reading(_home()) as db:
            found = _found(db, search, limit) if search else _newest(db, limit)
            (total,) = db.execute("SELECT count(*) FROM sessions").fetchone()
    if as_json:
        click.echo(json.dumps([one.to_dict() for one in found], indent=2))
        return
    if not found:
        click.echo(f"No session contains {search!r}." if search else "There is no session yet.")
        return
    rows = [
        (e.session_id, one_line(_chat(e), 40), local_time(e.updated_at), str(one.turns), one.state, one.found)
        for one in found
        for e in (one.entry,)
    ]
    columns = ("SESSION", "CHAT", "LAST USED", "TURNS", "STATE", "FOUND" if search else "")
    print_table(columns, rows, texts=(1, 4, 5))
    if not search and total > len(found):
        more = total - len(found)
        click.echo(f"... and {more} more: --limit {total} shows all, --search finds some.", err=True)


@command.command()
@click.argument("session_id", metavar="ID")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def show(session_id: str, as_json: bool) -> None:
    """Print the messages of a conversation."""
    with open_for_reading(_home()) as db:
        listed, rows = _whole(db, session_id)
    if as_json:
        report = {**listed.to_dict(), "messages": [_as_dict(row) for row in rows]}
        click.echo(json.dumps(report, indent=2))
        return
    entry, used = listed.entry, listed.entry.usage.total_tokens
    click.echo(f"{entry.session_id}  {visible(_chat(entry))}")
    click.echo(
        f"Key {visible(entry.session_key)}. "
        f"Began {local_time(entry.created_at)}, last used {local_time(entry.updated_at)}."
    )
    click.echo(f"{counted(listed.turns, 'turn')}, {used:,} tokens. {listed.state}".rstrip())
    for row in rows:
        click.echo(f"\n{local_time(row.created_at)}  {visible(_speaker(row))}")
        click.echo("\n".join(f"  {line}" for line in visible(_text(row)).split("\n")))


@command.command()
@click.argument("session_id", metavar="ID")
@click.option(
    "--format",
    "form",
    type=click.Choice(["jsonl", "markdown"]),
    default="jsonl",
    show_default=True,
    help="Format of the output.",
)
def export(session_id: str, form: str) -> None:
    """Write a conversation to standard output."""
    with open_for_reading(_home()) as db:
        listed, rows = _whole(db, session_id)
    if form == "jsonl":
        click.echo(json.dumps({"type": "session", **listed.to_dict()}))
        for row in rows:
            click.echo(json.dumps({"type": row.type, **_as_dict(row)}))
        return
    entry = listed.entry
    click.echo(f"# {one_line(_chat(entry), 200)}\n")
    click.echo(
        f"Session {entry.session_id}, {local_time(entry.created_at)} to {local_time(entry.updated_at)}."
    )
    for row in rows:
        click.echo(
            f"\n## {local_time(row.created_at)} {one_line(_speaker(row), 200)}\n\n{visible(_text(row))}"
        )


@command.command()
@click.argument("session_id", metavar="ID")
@click.option("--yes", is_flag=True, help="Do not ask for a confirmation.")
def delete(session_id: str, yes: bool) -> None:
    """Delete a conversation permanently, with its journals. The gateway must not run."""
    from ..session_deletion import delete_session

    home = _home()
    if store_of(home).url is not None:
        remedy = "Start the gateway and delete the session on its page."
        raise HomeError(home, "its database may be used by other gateways", remedy)
    with open_for_reading(home) as db:
        listed = _listed(db, _entry(db, session_id))
    if not yes:
        what = f"{session_id} ({one_line(_chat(listed.entry))}, {listed.turns} turns)"
        click.confirm(f"Delete {what} permanently?", abort=True)
    try:
        with locked_home(home):
            delete_session(home, session_id)
    except HomeBusy as busy:
        remedy = (
            "Delete the session on the page, or stop the gateway with `hermes-trio stop` first. "
            "To begin a new conversation in a chat, write /new there."
        )
        raise HomeError(home, "its gateway runs, and only the gateway may write here", remedy) from busy
    click.echo("Deleted.")


def _home() -> Path:
    return home_directory(os.environ)


def _newest(db: Db, limit: int) -> list[Listed]:
    return [_listed(db, entry) for entry in sessions.newest(db, limit=limit)]


def _found(db: Db, words: str, limit: int) -> list[Listed]:
    """Return the sessions that contain words, the best match first, each with the first text that was
    found."""
    first: dict[str, str] = {}
    for session_id, row in transcript.search(db, words, limit=20 * limit):
        first.setdefault(session_id, _around(row.content, words))
    entries = ((sessions.by_id(db, session_id), text) for session_id, text in list(first.items())[:limit])
    return [_listed(db, entry, text) for entry, text in entries if entry is not None]


def _around(content: str, words: str) -> str:
    """Return the part of a text around the first of the words."""
    start = max(0, content.lower().find(words.split()[0].lower()) - 20)
    return ("…" if start else "") + one_line(content[start:], 50)


def _listed(db: Db, entry: SessionEntry, found: str = "") -> Listed:
    query = "SELECT count(*), count(*) > count(ended_at) FROM turns WHERE session_id = ?"
    count, has_no_end = db.execute(query, (entry.session_id,)).fetchone()
    runs = bool(has_no_end) and is_locked(_home())
    return Listed(entry, count, runs, bool(has_no_end) and not runs, found)


def _entry(db: Db, session_id: str) -> SessionEntry:
    entry = sessions.by_id(db, session_id)
    if entry is None:
        raise NoSuchSession(session_id)
    return entry


def _whole(db: Db, session_id: str) -> tuple[Listed, list[TranscriptRow]]:
    """Return a session and its transcript, with the recovered rows of cut turns. Nothing is stored here."""
    from ...journal.session_reader import SessionSnapshot

    entry = _entry(db, session_id)
    of_session, rows = turns.of_session(db, session_id), transcript.load(db, session_id)
    return _listed(db, entry), SessionSnapshot(entry, tuple(of_session), tuple(rows)).messages


def _chat(entry: SessionEntry) -> str:
    name = entry.display_name or (entry.origin.chat_id if entry.origin else "") or entry.session_key
    return f"{entry.platform} {name}" if entry.platform else name


def _speaker(row: TranscriptRow) -> str:
    if row.marker is not None:
        return "-"
    if row.role == "tool":
        return f"tool {row.tool_name or ''} ({row.status or 'ok'})"
    return {"user": "person", "assistant": "agent", "system": "system"}[row.role]


def _text(row: TranscriptRow) -> str:
    calls = [f"[calls {call.name} {one_line(call.arguments, 200)}]" for call in row.tool_calls]
    cards = [f"[called {card.name} {one_line(card.preview, 200)}]" for card in row.cards]
    return "\n".join(filter(None, (row.content, *calls, *cards)))


def _as_dict(row: TranscriptRow) -> dict[str, Any]:
    return {name: value for name, value in _fields(row) if value not in (None, (), [], False)}


def _fields(row: TranscriptRow) -> Iterator[tuple[str, Any]]:
    yield "id", row.id
    yield "role", row.role
    yield "content", row.content
    for name in ("created_at", "run_id", "marker", "reasoning", "tool_calls", "finish", "tool_call_id"):
        yield name, msgspec.to_builtins(getattr(row, name))
    for name in ("tool_name", "status", "cards", "recovered"):
        yield name, msgspec.to_builtins(getattr(row, name))
