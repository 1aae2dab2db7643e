"""`GET /api/events`: the events of all sessions, as one stream of server-sent events for a page.

Each event is a JSON object with `event`, `session_id`, `run_id`, `seq` and `at` beside its own fields. Its
id, `<run>:<seq>`, is a cursor. A client that reconnects with the last id it has (`Last-Event-ID`) gets
exactly the events it has missed, from the journals, and then the live ones. Without a cursor it gets the
events of the runs that are not over, from their start. Where several gateways share the store, the stream of
each has the events of all, and missed events of the last seconds may come twice.

| also sent | |
|---|---|
| `gap` | events may be missing, of one run if it is named: read what you show of it again |
| `cut` | the client read too slowly, or another gateway has come or gone. It reconnects with its cursor |
| `session.changed` | `GET /api/sessions/{id}` has changed |
| `session.deleted` | the session was deleted |
| `gateway.changed` | how the gateway is: sent at the start, and after each change |
| `gateway.ending` | the gateway ends, and this is the last event |
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator

import msgspec
import trio
from starlette.requests import Request

from ...gateway.ending.control import Control
from ...journal.record import TERMINAL, Record
from ...journal.replay import KnownRun, MissedEvents, parse_cursor
from ...journal.writer import Journals
from ...state.db.database import Database
from ...state.tables import turns
from ...state.tables.turns import Outcome, TurnRow
from ..http.auth import is_forwarded
from ..http.event_stream import EventStream, Write, frame
from ..nodes.forwarding import Forwarding
from ..nodes.peer_events import PeerEvent, PeerEvents
from .session_changes import ChangeFeed

MOST_RUNS = 200
"""Runs that are searched for missed events. A client that missed more reads everything it shows again."""
END_MARGIN = 120.0
CLOCKS_APART = 5.0
"""Seconds by which the clocks of gateways that share a store may differ without a missed event being lost."""
MOST_FRAMES = 2048
"""Encoded events that are kept for all listeners."""
PIECE = 1000
"""Missed events that are sent at once, so that a long replay does not delay the other clients."""


class EventRoutes:
    """The handler of the event stream."""

    def __init__(
        self,
        database: Database,
        journals: Journals,
        control: Control,
        life: str,
        changes: ChangeFeed,
        forwarding: Forwarding,
    ) -> None:
        self._database, self._journals, self._control = database, journals, control
        self._life, self._changes, self._forwarding = life, changes, forwarding
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
                peers, progress, is_over = (
                    PeerEvents(self._forwarding, watch.wake),
                    _Progress(self._frames),
                    False,
                )
                async with trio.open_nursery() as nursery:
                    if not is_forwarded(request):  # the other gateway has a stream from each of us
                        if self._forwarding.peers.are_possible:
                            await nursery.start(peers.follow)
                        for piece in progress.of_missed(await self._missed(cursor), signal=bool(cursor)):
                            await write(piece)
                    while not is_over:
                        await watch.news()
                        is_over = watch.cut or watch.ended or peers.cut  # unread events come before the end
                        news = progress.of_live(watch.take()) + progress.of_peers(peers.take())
                        news += b"".join(map(frame, changed.take()))
                        await write(news or b": heartbeat\n\n")
                    nursery.cancel_scope.cancel(reason="the stream is over")
                if watch.cut or peers.cut:
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
        peers = self._forwarding.peers
        runs = [_known(turn, {self._life, *peers.known}) for turn in found]
        return await self._journals.missed(runs, cursor, margin=CLOCKS_APART if peers.are_possible else 0.0)


def _known(turn: TurnRow, living: Container[str]) -> KnownRun:
    """Return a run as its turn says. A life that goes on may still write the last event of its runs."""
    is_cut = turn.outcome in (Outcome.CUT, Outcome.UNSTARTED)
    return KnownRun(
        turn.session_id,
        turn.run_id,
        cut_at=turn.ended_at if is_cut else None,
        over=turn.outcome is not None and not is_cut and turn.life not in living,
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

    def of_peers(self, events: Iterable[PeerEvent]) -> bytes:
        """Return the events of other gateways that the client does not have."""
        frames = []
        for event in events:
            before = self._seqs.get(event.run_id, 0)
            if event.seq and event.seq <= before:
                continue
            if event.seq > before + 1:
                frames.append(_gap(event.session_id, event.run_id))
            if event.seq:
                self._seqs[event.run_id] = event.seq
            if event.event in TERMINAL:
                del self._seqs[event.run_id]
            event_id = b"id: %b:%d\n" % (event.run_id.encode(), event.seq) if event.seq else b""
            frames.append(b"%bdata: %b\n\n" % (event_id, event.data))
        return b"".join(frames)


def _frame_of(record: Record) -> bytes:
    data = msgspec.to_builtins(record.payload)
    names = {"event": record.event, "session_id": record.session_id, "run_id": record.run_id}
    return frame({**data, **names, "seq": record.seq, "at": record.created_at}, record.event_id)


def _gap(session_id: str, run_id: str) -> bytes:
    return frame({"event": "gap", "session_id": session_id, "run_id": run_id})
