"""`GET /api/events`: the events of all sessions, as one stream of server-sent events for a page.

Each event is a JSON object with `event`, `session_id`, `run_id`, `seq` and `at` beside its own fields. Its
id, `<run>:<seq>`, is a cursor. A client that reconnects with the last id it has (`Last-Event-ID`) gets
exactly the events it has missed, from the journals, and then the live ones. Without a cursor it gets the
events of the runs that are not over, from their start.

| also sent | |
|---|---|
| `gap` | events may be missing, of one run if it is named: read what you show of it again |
| `cut` | the client read too slowly. It reconnects with its cursor |
| `session.changed` | `GET /api/sessions/{id}` has changed |
| `session.deleted` | the session was deleted |
| `gateway.changed` | how the gateway is: sent at the start, and after each change |
| `gateway.ending` | the gateway ends, and this is the last event |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import msgspec
from starlette.requests import Request

from ...gateway.ending.control import Control
from ...journal.record import Record
from ...journal.replay import KnownRun, MissedEvents, parse_cursor
from ...journal.writer import Journals
from ...state.db.database import Database
from ...state.tables import turns
from ...state.tables.turns import Outcome, TurnRow
from ..http.event_stream import EventStream, Write, frame
from .session_changes import ChangeFeed

MOST_RUNS = 200
"""Runs that are searched for missed events. A client that missed more reads everything it shows again."""
END_MARGIN = 120.0
MOST_FRAMES = 2048
"""Encoded events that are kept for all listeners."""
PIECE = 1000
"""Missed events that are sent at once, so that a long replay does not delay the other clients."""


class EventRoutes:
    """The handler of the event stream."""

    def __init__(
        self, database: Database, journals: Journals, control: Control, life: str, changes: ChangeFeed
    ) -> None:
        self._database, self._journals, self._control = database, journals, control
        self._life, self._changes = life, changes
        self._frames = Frames()

    async def events(self, request: Request) -> EventStream:
        """`GET /api/events?cursor=`: all events after the cursor, which `Last-Event-ID` may hold too."""
        # A browser that reconnects sends the same query again, and its position in the header.
        cursor = request.headers.get("last-event-id") or request.query_params.get("cursor", "")

        async def writer(write: Write) -> bytes:
            await write(b"retry: 1000\n: connected\n\n")
            with (
                self._journals.live.watching() as watch,
                self._changes.listening(watch.wake) as changed,
            ):
                progress, is_over = _Progress(self._frames), False
                for piece in progress.of_missed(await self._missed(cursor), signal=bool(cursor)):
                    await write(piece)
                while not is_over:
                    await watch.news()
                    is_over = watch.cut or watch.ended  # unread events are sent before the end
                    news = progress.of_live(watch.take()) + b"".join(map(frame, changed.take()))
                    await write(news or b": heartbeat\n\n")
                if watch.cut:
                    return frame({"event": "cut"})
                ending = self._control.current
                return frame({"event": "gateway.ending", "kind": ending.kind}) if ending is not None else b""

        return EventStream(writer)

    async def _missed(self, cursor: str) -> MissedEvents:
        """Return the events after the cursor; without a usable cursor those of the runs that are not over."""
        after = parse_cursor(cursor)
        run_id = after.run_id if after is not None else ""
        found = await self._database.read(turns.since, run_id, margin=END_MARGIN, limit=MOST_RUNS + 1)
        if not found or len(found) > MOST_RUNS:
            found, cursor = await self._database.read(turns.unended), ""
        if len(found) > MOST_RUNS:
            return MissedEvents(whole=False)
        return await self._journals.missed([_known(turn, self._life) for turn in found], cursor)


def _known(turn: TurnRow, life: str) -> KnownRun:
    is_cut = turn.outcome in (Outcome.CUT, Outcome.UNSTARTED)
    return KnownRun(
        turn.session_id,
        turn.run_id,
        cut_at=turn.ended_at if is_cut else None,
        over=turn.outcome is not None and not is_cut and turn.life != life,
    )


class Frames:
    """Encoded events, each made once for all who listen at that moment."""

    def __init__(self) -> None:
        self._made: dict[str, bytes] = {}

    def of(self, record: Record) -> bytes:
        """Return this event as it is sent."""
        made = self._made.get(record.event_id)
        if made is None:
            if len(self._made) >= MOST_FRAMES:
                self._made.clear()
            made = self._made[record.event_id] = _frame_of(record)
        return made


class _Progress:
    """The position of a client in each run. No event is sent twice, and none is skipped without a `gap`."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._seqs: dict[str, int] = {}

    def of_missed(self, missed: MissedEvents, *, signal: bool) -> Iterator[bytes]:
        """Yield the missed events in pieces of `PIECE`. With `signal` a general gap is announced."""
        frames = [] if missed.whole or not signal else [frame({"event": "gap"})]
        frames += [_gap(run.session_id, run.run_id) for run in missed.gaps]
        for record in missed.records:
            self._seqs[record.run_id] = record.seq
            frames.append(_frame_of(record))
            if len(frames) >= PIECE:
                yield b"".join(frames)
                frames = []
        yield b"".join(frames)

    def of_live(self, records: Iterable[Record]) -> bytes:
        """Return the live events that the client does not have."""
        frames = []
        for record in records:
            before = self._seqs.get(record.run_id, 0)
            if record.seq <= before:
                continue  # it was written while the journals were read
            if record.seq > before + 1:
                frames.append(_gap(record.session_id, record.run_id))
            self._seqs[record.run_id] = record.seq
            if record.terminal:
                del self._seqs[record.run_id]
            frames.append(self._frames.of(record))
        return b"".join(frames)


def _frame_of(record: Record) -> bytes:
    data = msgspec.to_builtins(record.payload)
    names = {"event": record.event, "session_id": record.session_id, "run_id": record.run_id}
    return frame({**data, **names, "seq": record.seq, "at": record.created_at}, record.event_id)


def _gap(session_id: str, run_id: str) -> bytes:
    return frame({"event": "gap", "session_id": session_id, "run_id": run_id})
