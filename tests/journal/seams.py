"""Shared by the tests of the run journal: lines and journals written by hand, a file as seen from outside,
and steps of healing."""

from __future__ import annotations

import stat
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from hermes_trio.base.events import Event, MessageDelta, RunFailed
from hermes_trio.base.messages import SessionSource
from hermes_trio.journal.reader import Damage, Reading
from hermes_trio.journal.record import VERSION, Record, encode, terminal_state
from hermes_trio.journal.recovery import AlreadyStored, fold
from hermes_trio.journal.session_reader import SessionSnapshot
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import transcript
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome, Recovery, TurnRow

if TYPE_CHECKING:
    from tests.conftest import Home

T = TypeVar("T")

StartChild = Callable[..., "subprocess.Popen[str]"]

CUT = RunFailed("The gateway stopped.", "interrupted")

Happened = Event | tuple[str, Any]


def line(seq: int, text: str = "text", /, **other: Any) -> bytes:
    """Return a complete line of run-1 of s1; any field can be overridden."""
    fields: dict[str, Any] = {
        "version": VERSION,
        "event_id": f"{other.get('run_id', 'run-1')}:{seq}",
        "seq": seq,
        "run_id": "run-1",
        "session_id": "s1",
        "event": "message.delta",
        "type": "message.delta",
        "created_at": 1000.0 + seq,
        "terminal": False,
        "terminal_state": None,
        "payload": {"delta": text},
    }
    return encode(Record(**fields | other)) + b"\n"


def records(*happened: Happened, since: float = 1000.0) -> list[Record]:
    """Return the records of a run with these events, one each second."""
    made = []
    for seq, item in enumerate(happened, start=1):
        name, payload = (item.event, msgspec.to_builtins(item)) if isinstance(item, Event) else item
        state = terminal_state(name, payload) if isinstance(payload, dict) else None
        ended = state is not None
        event_id, at = f"run-1:{seq}", since + seq
        made.append(Record(VERSION, event_id, seq, "run-1", "s1", name, name, at, ended, state, payload))
    return made


def texts(reading: Reading) -> list[str]:
    """Return the text deltas of a journal."""
    return [record.payload["delta"] for record in reading.records if record.event == MessageDelta.event]


@dataclass(frozen=True)
class JournalFile:
    """A journal file as seen from outside."""

    path: Path

    @property
    def content(self) -> bytes:
        return self.path.read_bytes()

    @property
    def mode(self) -> int:
        return stat.S_IMODE(self.path.stat().st_mode)

    def becomes(self, content: bytes, *, mode: int = 0o600) -> None:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_bytes(content)
        self.path.chmod(mode)


# --- recovery, without a disk ------------------------------------------------------------------------

SINCE = 1_000_000.0
ARRIVING = TurnRow(
    turn_id=7,
    run_id="run-1",
    session_id="s1",
    life="life-1",
    started_at=SINCE - 60,
    ended_at=SINCE,
    outcome=Outcome.CUT,
    recovery=Recovery.ARRIVING,
    recovery_since=SINCE,
)
SAID = MessageDelta("Half an answer")


def journal(*happened: Event) -> Reading:
    """Return a complete journal with these events."""
    written = records(*happened, since=SINCE)
    return Reading(written, size=sum(len(encode(record)) + 1 for record in written))


def without(reading: Reading, *lost: int) -> Reading:
    """Return the same journal with damage in place of these seqs."""
    kept = [record for record in reading.records if record.seq not in lost]
    return replace(reading, records=kept, damage=[Damage(0, 100, "it was hit")] * len(lost))


TURN = TurnRow(turn_id=7, run_id="run-1", session_id="s1", life="life-1", started_at=1000.0)


def rows(*happened: Happened, stored: AlreadyStored | None = None) -> list[TranscriptRow]:
    """Return the rows that a journal adds to the stored ones."""
    return fold(records(*happened), TURN, stored or AlreadyStored())


# --- healing, with a home ----------------------------------------------------------------------------


async def append_events(home: Home, turn: TurnRow, *happened: Event) -> None:
    with await home.journals.open_run(turn.session_id, turn.run_id) as run:
        await run.append(*happened)


async def begin_turn(home: Home, somebody: SessionSource) -> TurnRow:
    return await home.turn((await home.store.get_or_create_session(somebody)).session_id)


async def cut_turn(home: Home, turn: TurnRow) -> None:
    await home.database.write(settle.settle, turn.turn_id, Settlement(Outcome.CUT), home.world.time())


async def store_rows(home: Home, turn: TurnRow, *rows: TranscriptRow) -> None:
    def step(db: Db) -> None:
        for row in rows:
            transcript.append(db, turn.session_id, row)

    await home.database.write(step)


def shown_transcript(session: SessionSnapshot) -> list[str]:
    """Return the transcript as a person sees it, with the first two words of a marker."""
    return [
        "(" + " ".join(row.content.split()[:2]) + ")" if row.marker else row.content
        for row in session.messages
    ]


ASKED = "Look at the open pull requests."
