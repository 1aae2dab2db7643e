"""Turns that a killed life left without an end, and their streamed messages.

The transaction that ends such a turn owes its chat the edit that closes the streamed message, so that no
cursor stays. The text of the edit comes from the run journal, which had every word before it was shown.

It may touch rows and journals, and sends nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from ...base.errors import JournalError
from ...base.events import MessageDelta
from ...base.messages import SessionSource
from ...journal.record import Record
from ...log import Log
from ...state.db.engine import Db
from ...state.rules import settle
from ...state.tables import approvals, chats, outbox, sessions, transcript, turns
from ...state.tables.outbox import Owed
from ...state.tables.turns import TurnRow
from ..home.open_home import Home
from ..links.link import Connection
from ..outbound import texts
from ..outbound.rows import Body, Chat, owed, stream_key
from ..outbound.split import chunks
from ..turn.open_question import remove_buttons

log = Log(__name__)


async def end_former_turns(home: Home, connections: Mapping[tuple[str, str], Connection]) -> list[TurnRow]:
    """End the turns that lives which are over left without an end, mark their sessions, and owe the edits
    that close their streamed messages. Then free the chats of these lives. Return the rows of the turns."""
    rows = []
    for turn, origin, breaks in await home.database.read(_left_open):
        address = origin.platform, origin.account
        if address in connections:
            try:
                reading = await home.journals.read(turn.session_id, turn.run_id)
            except JournalError as error:  # the message stays as it was shown
                log.warning("run journal not readable", run=turn.run_id, error=str(error))
                continue
            text = texts.cut_off(_text_of(reading.records, breaks))
            fitting = chunks(text, connections[address].adapter.traits)[0]
            rows.append(_closing(turn, origin, fitting))
    return await home.database.write(_settle, rows, home.world.time())


def _left_open(db: Db) -> list[tuple[TurnRow, SessionSource, list[int]]]:
    """Return the turns without an end that had a streamed message, each with its chat and the places of its
    tool calls."""
    found = []
    for turn in turns.left_open(db):
        entry = sessions.by_id(db, turn.session_id)
        if entry is not None and entry.origin is not None and outbox.has_key(db, stream_key(turn.run_id)):
            found.append((turn, entry.origin, transcript.places_of_calls(db, turn.turn_id)))
    return found


def _text_of(records: Iterable[Record], breaks: Sequence[int]) -> str:
    """Return the text as the chat has shown it: text after tool calls begins a new paragraph."""
    paragraphs = [""] * (len(breaks) + 1)
    for record in records:
        delta = record.payload.get("delta") if record.event == MessageDelta.event else None
        if isinstance(delta, str):
            paragraphs[bisect_left(breaks, record.seq)] += delta
    return "\n\n".join(filter(None, paragraphs))


def _closing(turn: TurnRow, origin: SessionSource, text: str) -> Owed:
    chat = Chat.of(origin)
    key = stream_key(turn.run_id)
    return owed(
        chat,
        f"{turn.run_id}:closed",
        Body(text, closes=key, only_closes=True),
        thread_id=origin.thread_id,
        session_id=turn.session_id,
        turn_id=turn.turn_id,
    )


def _settle(db: Db, closing: Iterable[Owed], at: float) -> list[TurnRow]:
    for turn in turns.left_open(db):
        remove_buttons(db, approvals.open_of_turn(db, turn.turn_id), at)
    cut = settle.settle_cut_turns(db, at)
    for row in closing:
        outbox.owe(db, row, at)
    chats.free(db)
    return cut
