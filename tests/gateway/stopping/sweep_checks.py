"""Checks after a turn that was ended at some checkpoint: disk and chat agree on one end."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from hermes_trio.journal.reader import read_run
from tests.gateway.stopping.sweep_scene import ANSWER, PIECES, Platform
from tests.logs import capture_logs

INTERRUPTED = "(interrupted)"
FOLLOWS: dict[str | None, tuple[str, set[str | None]]] = {
    None: ("pending", {None, "cut"}),
    "unstarted": ("pending", {None, "cut"}),
    "cut": ("of_turn", {"cut"}),
    "answered": ("done", {"completed"}),
    "stopped": ("done", {"cancelled"}),
}
"""State of the message and possible ends in the journal for each outcome; None stands for no turn."""


def stored(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "gateway.db")) as db:
        return db.execute(query).fetchall()


def is_quiet(home: Path, platform: Platform) -> bool:
    """Return whether every message has had its turn and the chat shows all of its results."""
    messages = stored(home, "SELECT count(*) FROM inbox")
    return (
        messages == stored(home, "SELECT count(*) FROM turns WHERE ended_at IS NOT NULL")
        and not stored(home, "SELECT 1 FROM outbox WHERE done_at IS NULL")
        and not any(is_open(text) for text in platform.chat("42").texts)
    )


def is_open(text: str) -> bool:
    """Return whether a text looks unfinished to a person."""
    return "▉" in text or "Still working" in text


def check_end(home: Path, texts: list[str]) -> str | None:
    """Check that the newest message has at most one end, and that all data agrees; return the outcome."""
    ((inbox_id, message),) = stored(home, "SELECT max(inbox_id), state FROM inbox")
    turns = stored(home, "SELECT outcome, run_id FROM turns ORDER BY turn_id")[inbox_id - 1 :]
    assert len(turns) <= 1
    outcome: str | None
    outcome, run_id = turns[0] if turns else (None, "*")
    expected, terminal_states = FOLLOWS[outcome]
    assert message == expected
    journals = {terminal_state(path) for path in home.glob(f"journal/*/{run_id}.jsonl")}
    assert journals <= terminal_states
    assert journals or outcome in (None, "unstarted"), "a turn opens its journal after it has begun"
    assert stored(home, "SELECT * FROM processes WHERE ended_at IS NULL") == []
    assert stored(home, "SELECT * FROM outbox WHERE done_at IS NULL") == []
    assert not any(is_open(text) for text in texts)
    answers = [text for text in texts if text.startswith(PIECES[0])]
    if outcome == "answered":
        assert answers == [ANSWER]
    else:
        assert len(answers) <= 1
        assert all(text.endswith(INTERRUPTED) for text in answers)
    return outcome


def terminal_state(journal: Path) -> str | None:
    """Return the end in a journal; None for a journal of a run that was cut before its agent was called."""
    reading = read_run(journal.parent.parent, journal.parent.name, journal.stem)
    assert reading.complete
    ends = [record for record in reading.records if record.terminal]
    assert ends == reading.records[-1:], "one end, as the last record"
    return ends[0].terminal_state if ends else None


@contextmanager
def without_warnings() -> Iterator[None]:
    with capture_logs() as logs:
        yield
    assert [entry for entry in logs if entry["log_level"] not in ("debug", "info")] == []
