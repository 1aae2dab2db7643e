"""`GET /api/events`: what happens in all sessions, as one stream of server-sent events for a page.

Each event is a JSON object with `event`, `session_id`, `run_id`, `seq` and `at` beside its own fields, and
its id, `<run>:<seq>`, is a cursor. A client that comes again with the last id it has (`Last-Event-ID`) gets
exactly what it has missed, out of the journals, and then what happens now. Without a cursor it gets the runs
that go on, from their start.

| also sent | |
|---|---|
| `gap` | something may be missing here, of one run if it is named: what is shown of it is to be read again |
| `cut` | the client took too long to take what was sent. It comes again with its cursor |
| `session.changed` | what `GET /api/sessions/{id}` says is another thing than a moment ago |
| `session.deleted` | there is no such session any more |
| `gateway.changed` | how the gateway is: sent at the start, and whenever that changes |
| `gateway.ending` | the gateway goes, and this is the last |
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import msgspec
import trio
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from ...journal.record import Record
from ...journal.replay import KnownRun, Missed, parse_cursor
from ...state.tables import turns
from ...state.tables.turns import Outcome, TurnRow

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ..app import Web

MOST_RUNS = 200
"""More runs are not searched for what a client has missed: it reads what it shows again."""
END_MARGIN = 120.0
MOST_FRAMES = 2048
"""So many events are kept as they go over the wire, until all who listen have got them."""
PIECE = 1000
"""Events that are told at once."""
HEADERS = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
)

Write = Callable[[bytes], Awaitable[None]]


class EventStream:
    """A response that goes on until its writer has said all, or the client has gone."""

    def __init__(
        self, writer: Callable[[Write], Awaitable[None]], headers: Mapping[str, str] | None = None
    ) -> None:
        self._writer = writer
        more = [(name.lower().encode(), value.encode()) for name, value in (headers or {}).items()]
        self._headers = [*HEADERS, *more]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self._headers})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(until_gone, receive, nursery.cancel_scope)

            async def write(data: bytes) -> None:
                await send({"type": "http.response.body", "body": data, "more_body": True})

            await self._writer(write)
            await send({"type": "http.response.body", "body": b""})
            nursery.cancel_scope.cancel(reason="all is said")


async def until_gone(receive: Receive, stream: trio.CancelScope) -> None:
    """Cancel this as soon as the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass
    stream.cancel(reason="the client has gone")


async def events(web: Web, request: Request) -> EventStream:
    """`GET /api/events?cursor=`: all that happens, from the cursor on, which `Last-Event-ID` may hold too."""
    gateway = web.gateway
    # A browser that connects again by itself asks for the same address, and says how far it is in the header.
    cursor = request.headers.get("last-event-id") or request.query_params.get("cursor", "")

    async def writer(write: Write) -> None:
        await write(b"retry: 1000\n: connected\n\n")
        with gateway.home.journals.live.watching() as watch, web.changes.watching(watch.wake) as changed:
            told, is_over = _Told(web.frames), False
            for piece in told.of_missed(await _missed(gateway, cursor), signal=bool(cursor)):
                await write(piece)
            while not is_over:
                await watch.news()
                is_over = watch.cut or watch.ended  # what is unread is told before that
                news = told.of_live(watch.take()) + b"".join(map(frame, changed.take(gateway)))
                await write(news or b": heartbeat\n\n")
            if watch.cut:
                await write(frame({"event": "cut"}))
            elif (ending := gateway.control.current) is not None:
                await write(frame({"event": "gateway.ending", "kind": ending.kind}))

    return EventStream(writer)


async def _missed(gateway: Gateway, cursor: str) -> Missed:
    """What happened behind the cursor; without one that helps, what happened in the runs that go on."""
    after = parse_cursor(cursor)
    run_id = after.run_id if after is not None else ""
    found = await gateway.home.database.read(turns.since, run_id, margin=END_MARGIN, limit=MOST_RUNS + 1)
    if not found or len(found) > MOST_RUNS:
        found, cursor = await gateway.home.database.read(turns.unended), ""
    if len(found) > MOST_RUNS:
        return Missed(whole=False)
    return await gateway.home.journals.missed([_known(turn, gateway.home.life) for turn in found], cursor)


def _known(turn: TurnRow, life: str) -> KnownRun:
    is_cut = turn.outcome in (Outcome.CUT, Outcome.UNSTARTED)
    return KnownRun(
        turn.session_id,
        turn.run_id,
        cut_at=turn.ended_at if is_cut else None,
        over=turn.outcome is not None and not is_cut and turn.life != life,
    )


class Frames:
    """What happens, as it goes over the wire: made once for all who listen at that moment."""

    def __init__(self) -> None:
        self._made: dict[str, bytes] = {}

    def of(self, record: Record) -> bytes:
        """This event."""
        made = self._made.get(record.event_id)
        if made is None:
            if len(self._made) >= MOST_FRAMES:
                self._made.clear()
            made = self._made[record.event_id] = _frame_of(record)
        return made


class _Told:
    """How far a client has come in each run: it is told nothing twice, and never skips a thing unsaid."""

    def __init__(self, frames: Frames) -> None:
        self._frames = frames
        self._seqs: dict[str, int] = {}

    def of_missed(self, missed: Missed, *, signal: bool) -> Iterator[bytes]:
        """In pieces: who has missed much keeps nobody else waiting."""
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


def frame(data: dict[str, Any], event_id: str | None = None) -> bytes:
    """One event as it goes over the wire."""
    return _framed(msgspec.json.encode(data), event_id)


def _framed(data: bytes, event_id: str | None) -> bytes:
    """In JSON no line ends."""
    head = f"id: {event_id}\n".encode() if event_id else b""
    return b"%bdata: %b\n\n" % (head, data)
