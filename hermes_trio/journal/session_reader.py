"""Reading a session with its transcript, including output of cut turns that only the run journals have.

Reading a full session heals it: recovered rows are stored on the way. So no separate step of healing is
needed, and a journal that arrives late is found by the next reader. Listing sessions heals nothing. One
reader heals a session at a time; another reader does not wait, and gets the session as it is.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..base.errors import JournalError, StoreError
from ..base.world import World
from ..log import Log
from ..state.db.database import Database
from ..state.db.engine import Db
from ..state.tables import sessions, transcript, turns
from ..state.tables.session_entry import SessionEntry
from ..state.tables.transcript import TranscriptRow
from ..state.tables.turns import TurnRow
from .cut_markers import marker
from .recovery import RecoveryStep, already_stored, is_worth_reading, next_step, step_without_reading
from .writer import Journals

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class SessionSnapshot:
    """A session at one moment, with its turns and its transcript."""

    entry: SessionEntry
    turns: tuple[TurnRow, ...]
    rows: tuple[TranscriptRow, ...]
    """The stored rows in order, recovered rows included."""

    @property
    def messages(self) -> list[TranscriptRow]:
        """The rows, with the marker of each cut turn after the rows of that turn."""
        of_turn: dict[int | None, list[TranscriptRow]] = {None: []} | {
            turn.turn_id: [] for turn in self.turns
        }
        for row in self.rows:
            of_turn.setdefault(row.turn_id, []).append(row)
        for turn in self.turns:
            if (note := marker(turn)) is not None:
                of_turn[turn.turn_id].append(note)
        return [row for rows in of_turn.values() for row in rows]


class SessionReader:
    """Reads full sessions. Its only state is the set of sessions that are being healed now."""

    def __init__(self, database: Database, journals: Journals, world: World) -> None:
        self._database, self._journals, self._world = database, journals, world
        self._healing: set[str] = set()

    async def get_session(self, session_id: str) -> SessionSnapshot | None:
        """Return a session with its transcript, healed from its journals; None if there is none. A journal
        that cannot be read, or recovered rows that cannot be stored, are logged; the session is returned
        without them."""
        found = await self._database.read(_load, session_id)
        return await self._healed(found) if found is not None else None

    async def with_transcript(self, entry: SessionEntry) -> SessionSnapshot:
        """Return this session with its transcript, healed like that of `get_session`."""
        return await self._healed(await self._database.read(_with_transcript, entry))

    async def _healed(self, found: SessionSnapshot) -> SessionSnapshot:
        session_id = found.entry.session_id
        if session_id in self._healing:
            return found
        self._healing.add(session_id)
        try:
            healed = [await self._heal(found, turn) for turn in found.turns]
        finally:
            self._healing.discard(session_id)
        return await self._database.read(_with_transcript, found.entry) if any(healed) else found

    async def _heal(self, session: SessionSnapshot, turn: TurnRow) -> bool:
        """Continue the recovery of one turn, and store the result. Return True if anything changed."""
        if turn.recovery is None:
            return False
        try:
            step = step_without_reading(turn, self._world.time()) or await self._look(session, turn)
            if step is None:
                return False
            return await self._database.write(_store, session.entry.session_id, turn, step)
        except JournalError as error:
            log.warning("run journal not readable", run=turn.run_id, error=str(error))
        except StoreError as error:
            log.warning("recovered rows not stored", run=turn.run_id, error=str(error))
        return False

    async def _look(self, session: SessionSnapshot, turn: TurnRow) -> RecoveryStep | None:
        session_id = session.entry.session_id
        size = await self._journals.size(session_id, turn.run_id)
        if not is_worth_reading(turn, size, self._world.time()):
            return None
        reading = await self._journals.read(session_id, turn.run_id)
        return next_step(turn, reading, already_stored(session.rows, turn))


def _load(db: Db, session_id: str) -> SessionSnapshot | None:
    entry = sessions.by_id(db, session_id)
    return _with_transcript(db, entry) if entry is not None else None


def _with_transcript(db: Db, entry: SessionEntry) -> SessionSnapshot:
    return SessionSnapshot(
        entry,
        tuple(turns.of_session(db, entry.session_id)),
        tuple(transcript.load(db, entry.session_id)),
    )


def _store(db: Db, session_id: str, turn: TurnRow, step: RecoveryStep) -> bool:
    # If another reader has stored newer progress in the meantime, in this process or another, it stays.
    if not turns.note_recovery(db, turn, step.turn):
        return False
    if step.rows is not None:
        transcript.replace_recovered(db, session_id, turn.turn_id, step.rows)
    return True
