"""A process that uses the storage under load, to be killed by a test: `python life.py <home> <life>`.

Eight sessions take messages, run turns and settle them as fast as they can. Each acknowledged write is
reported on standard output *after* its acknowledgement: everything reported must be found after the kill.
"""

from __future__ import annotations

import itertools
import os
import sys
from pathlib import Path

import trio

from hermes_trio.base.events import MessageDelta, RunCompleted, ToolCompleted, ToolStarted
from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.base.world import World
from hermes_trio.journal.writer import Journals, open_journals
from hermes_trio.state.db.database import Database, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.rules.settle import Settlement
from hermes_trio.state.tables import inbox, transcript, turns
from hermes_trio.state.tables.outbox import Owed
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.state.tables.sessions import add, open_by_key
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.state.tables.turns import Outcome

WORLD = World()


def report(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def begin_turn(db: Db, run_id: str, session_id: str, life: str, inbox_id: int) -> int:
    at = WORLD.time()
    turn_id = turns.begin(db, run_id=run_id, session_id=session_id, life=life, at=at)
    turns.note_request(db, turn_id, at)
    inbox.join_turn(db, turn_id, [inbox_id])
    transcript.append(db, session_id, TranscriptRow("user", "Go on.", at, turn_id))
    return turn_id


def own_session(db: Db, key: str, life: str) -> str:
    entry = open_by_key(db, key)
    if entry is None:
        at = WORLD.time()
        entry = SessionEntry(key, f"{life}_{key.rpartition(':')[2]}", at, at)
        add(db, entry)
    return entry.session_id


async def chat(database: Database, journals: Journals, life: str, name: int) -> None:
    key = f"agent:main:telegram:dm:{name}"
    source = SessionSource("telegram", str(name))
    session_id = await database.write(own_session, key, life)
    waiting = [row.inbox_id for row in await database.read(inbox.pending, key)]
    for number in itertools.count():
        if not waiting:
            event = MessageEvent(source, "Go on.", message_id=f"{life}-{number}")
            stored = await database.write(inbox.store, event, session_key=key, own_key="", at=WORLD.time())
            report("stored", stored.inbox_id)
            waiting = [stored.inbox_id]
        run_id = f"{life}_{name}_{number}"
        turn_id = await database.write(begin_turn, run_id, session_id, life, waiting.pop())
        report("begun", turn_id)
        with await journals.open_run(session_id, run_id) as run:
            for step in range(3):
                records = await run.append(
                    MessageDelta(f"step {step}, "), MessageDelta("more. "), ToolStarted("t", f"c{step}")
                )
                report("shown", session_id, run_id, records[-1].seq)
                records = await run.append(ToolCompleted("t", f"c{step}"))
                report("shown", session_id, run_id, records[-1].seq)
            answer = TranscriptRow(
                "assistant", "Done.", WORLD.time(), turn_id, place=run.last_seq, finish="stop"
            )
            owed = Owed(run_id, "telegram", "main", str(name), "Done.", turn_id=turn_id)
            ended = await database.write(
                settle.settle,
                turn_id,
                Settlement(Outcome.ANSWERED, rows=(answer,), owed=(owed,)),
                WORLD.time(),
            )
            assert ended
            report("answered", turn_id)
            await run.append(RunCompleted("Done."))
            report("closed", session_id, run_id)


async def main(home: Path, life: str) -> None:
    async with (
        open_database(home / "gateway.db", WORLD) as database,
        open_journals(home / "journal", WORLD) as journals,
        trio.open_nursery() as nursery,
    ):
        await database.write(settle.settle_cut_turns, WORLD.time())
        report("ready")
        for name in range(8):
            nursery.start_soon(chat, database, journals, life, name)


trio.run(main, Path(sys.argv[1]), sys.argv[2])
