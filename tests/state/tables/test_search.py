"""Search finds text of people and the agent, takes every word literally, and finds no deleted rows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_trio.base.errors import StoreDamaged
from hermes_trio.base.world import World
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.state.db.column_text import storable
from hermes_trio.state.db.database import Database, open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.rules import settle
from hermes_trio.state.tables import transcript
from hermes_trio.state.tables.transcript import Role, TranscriptRow
from tests.logs import capture_logs
from tests.state.rows import NOON, session, turn, undone
from tests.state.seams import check_by_engine


def said(db: Db, content: str, *, role: Role = "user", session_id: str = "s1") -> None:
    transcript.append(db, session_id, TranscriptRow(role, content, NOON))


def found(db: Db, words: str) -> set[str]:
    return {row.content for _, row in transcript.search(db, words)}


def test_a_search_result_has_its_session_and_its_run(db: Db) -> None:
    session(db)
    session(db, "s2")
    turn_id = turn(db, run="r1")
    row = TranscriptRow("user", "Where is the blue bicycle?", NOON, turn_id, "r1", place=3)
    transcript.append(db, "s1", row)
    [stored] = transcript.load(db, "s1")
    said(db, "Here it is.", role="assistant", session_id="s2")
    assert transcript.search(db, "bicycle") == [("s1", stored)]
    assert stored == replace(row, id=stored.id)
    assert [session_id for session_id, _ in transcript.search(db, "here")] == ["s2"]


def test_search_finds_rows_with_all_words_in_any_order_and_case(db: Db) -> None:
    session(db)
    said(db, "A blue bicycle")
    said(db, "Blue bicycles, an old bicycle and a blue door")
    said(db, "A red bicycle")
    assert found(db, "BICYCLE blue") == {"A blue bicycle", "Blue bicycles, an old bicycle and a blue door"}
    assert found(db, "blue green") == set()


def test_search_does_not_find_tool_and_system_rows(db: Db) -> None:
    session(db)
    said(db, "secret of a tool", role="tool")
    said(db, "secret of the system", role="system")
    said(db, "secret of an answer", role="assistant")
    assert found(db, "secret") == {"secret of an answer"}


def test_search_results_are_sorted_by_rank_then_by_age(db: Db) -> None:
    session(db)
    for content in ("tea " + "and so on " * 30, "tea 1", "tea 2", "tea tea tea"):
        said(db, content)
    contents = [row.content[:5] for _, row in transcript.search(db, "tea")]
    assert contents == ["tea t", "tea 2", "tea 1", "tea a"]
    assert len(transcript.search(db, "tea", limit=2)) == 2


HOSTILE = [
    '"',
    '""',
    '"tea',
    "*",
    "te*",
    "tea*",
    "NEAR(tea milk)",
    "tea NEAR milk",
    "NEAR",
    "AND",
    "tea AND",
    "OR tea",
    "NOT tea",
    "content: tea",
    "{content}: tea",
    "^tea",
    "tea + milk",
    "-tea",
    "(",
    ")",
    "tea)",
    "'",
    "';--",
    "\0",
    "tea\0milk",
    "%",
    "\\",
    "?1",
    "\ud83d",
    "🙂",
    "",
    "   ",
    "\n",
]


@pytest.mark.parametrize("words", HOSTILE)
def test_no_word_is_a_search_operator(db: Db, words: str) -> None:
    session(db)
    said(db, "tea with milk")
    said(db, "near and or not content")
    transcript.search(db, words)
    said(db, f"he said {words} and left")
    if any(character.isalnum() for character in words):
        assert storable(f"he said {words} and left") in found(db, words), "a text finds itself"


def test_words_without_a_letter_do_not_narrow_a_search(db: Db) -> None:
    session(db)
    said(db, "tea with milk")
    for words in ("tea *", '" tea', "tea - milk", "( tea )", "tea ?"):
        assert found(db, words) == {"tea with milk"}, words


@settings(max_examples=200)
@given(words=st.text(), content=st.text())
def test_any_text_can_be_stored_and_searched(shared_db: Db, words: str, content: str) -> None:
    with undone(shared_db) as db:
        session(db)
        said(db, content)
        assert {row.content for _, row in transcript.search(db, words)} <= {storable(content)}


def test_search_does_not_find_deleted_rows(db: Db) -> None:
    session(db)
    session(db, "s2")
    said(db, "tea here")
    said(db, "tea there", session_id="s2")
    assert settle.delete_session(db, "s1", NOON)
    assert found(db, "tea") == {"tea there"}
    check_by_engine(db)
    session(db, "s3")
    said(db, "coffee", session_id="s3")
    assert found(db, "tea") == {"tea there"}, "also after a new row has reused a free row id"


def talk(db: Db) -> None:
    session(db)
    for number in range(50):
        said(db, f"tea {number}")
        said(db, f"tea of a tool {number}", role="tool")


async def damaged(path: Path, world: World, change: str) -> None:
    if not path.exists():
        async with open_database(path, world, worker=inline_worker) as database:
            await database.write(talk)
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        assert connection.execute(change).rowcount > 0


CHANGES = [
    "UPDATE messages_text_data SET block = x'ffffffffffffffffffffffffffffffff' WHERE id > 10",
    "UPDATE messages_text_data SET block = x'ffffffffffffffffffffffffffffffff'",
    "DELETE FROM messages_text_data WHERE id > 10",
]


@pytest.mark.parametrize("change", CHANGES)
async def test_a_damaged_index_is_rebuilt_by_a_search(tmp_path: Path, world: World, change: str) -> None:
    path = tmp_path / "gateway.db"
    await damaged(path, world, change)
    async with open_database(path, world, worker=inline_worker) as database:
        assert database.damaged_copy is None, "the database itself is not set aside"
        with capture_logs() as logs:
            assert len(await database.read(transcript.search, "tea", limit=1000)) == 50
        assert [entry["log_level"] for entry in logs] == ["warning"]
        await say_more(database)


@pytest.mark.parametrize("change", CHANGES)
async def test_a_damaged_index_is_rebuilt_by_a_write(tmp_path: Path, world: World, change: str) -> None:
    """With a damaged index no message could be stored, in this life or the next."""
    path = tmp_path / "gateway.db"
    await damaged(path, world, change)
    with capture_logs():
        async with open_database(path, world, worker=inline_worker) as database:
            await database.write(settle.delete_session, "nobody", NOON)
            for number in range(50, 200):
                await database.write(said, f"tea {number}")
            assert len(await database.read(transcript.search, "tea", limit=1000)) == 200
            await say_more(database)


async def test_an_index_damaged_a_second_time_raises_and_is_not_rebuilt_again(
    tmp_path: Path, world: World
) -> None:
    path = tmp_path / "gateway.db"
    await damaged(path, world, CHANGES[1])
    with capture_logs() as logs:
        async with open_database(path, world, worker=inline_worker) as database:
            assert len(await database.read(transcript.search, "tea", limit=1000)) == 50
            await damaged(path, world, CHANGES[1])
            with pytest.raises(StoreDamaged, match=r"damaged search index.*Restart the gateway"):
                await database.read(transcript.search, "tea")
        assert len(logs) == 1
        async with open_database(path, world, worker=inline_worker) as next_life:
            assert len(await next_life.read(transcript.search, "tea", limit=1000)) == 50, "rebuilt"


async def say_more(database: Database) -> None:
    await database.write(said, "and a coffee")
    await database.write(said, "and a coffee from a tool", role="tool")
    assert len(await database.read(transcript.search, "coffee")) == 1, "tool rows are not indexed"
    assert await database.write(settle.delete_session, "s1", NOON)
    assert await database.read(transcript.search, "tea") == []
