"""The tool `session_search`: it finds earlier messages of this chat, and nothing of other chats."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermes_trio.base.messages import SessionSource
from hermes_trio.state.tables import sessions, transcript
from hermes_trio.state.tables.transcript import TranscriptRow
from hermes_trio.tools.builtin.session_search import LONGEST_ROW, SESSION_SEARCH
from hermes_trio.tools.tool import ToolFailed
from tests.conftest import Home
from tests.tools.desk import Desk, desk_in


@dataclass
class Chat(Desk):
    """A desk in a chat with an earlier session; another person has a chat too."""

    earlier: str = ""
    other: str = ""


@pytest.fixture
async def desk(tmp_path: Path, home: Home, somebody: SessionSource) -> Chat:
    (tmp_path / "desk").mkdir()
    plain = desk_in(tmp_path / "desk")
    stranger = replace(somebody, chat_id="666", user_id="666")

    async def says(source: SessionSource, *texts: str) -> str:
        entry = await home.store.get_or_create_session(source)
        for text in texts:
            role = "assistant" if text.startswith("I ") else "user"
            row = TranscriptRow(role, text, home.world.time())  # type: ignore[arg-type]
            await home.database.write(transcript.append, entry.session_id, row)
        return entry.session_id

    earlier = await says(
        somebody, "first", "where is my bicycle", "I saw the bicycle in the shed", "thanks", "last"
    )
    other = await says(stranger, "my bicycle has the number 4711")
    await home.database.write(sessions.end, earlier, "session_reset", home.world.time())
    now = await says(somebody, "and now")
    return Chat(
        plain.home, plain.cwd, now, store=home.database, world=home.world, earlier=earlier, other=other
    )


async def test_session_search_returns_the_messages_around_a_hit(desk: Chat) -> None:
    told = (await desk.use(SESSION_SEARCH, query="bicycle shed")).content
    assert told.startswith(f"[session {desk.earlier}]\n")
    assert [line.split(" ", 3)[3] for line in told.split("\n")[1:]] == [
        "user: first", "user: where is my bicycle", "assistant: I saw the bicycle in the shed",
        "user: thanks", "user: last",
    ]  # fmt: skip


@pytest.mark.parametrize("query", ["bicycle", "4711", "number", '"4711" OR bicycle', "4711*"])
async def test_session_search_finds_nothing_of_another_chat(desk: Chat, query: str) -> None:
    assert "4711" not in (await desk.use(SESSION_SEARCH, query=query, limit=10)).content
    with pytest.raises(ToolFailed, match="no such session"):
        await desk.use(SESSION_SEARCH, session_id=desk.other)
    assert desk.other not in (await desk.use(SESSION_SEARCH)).content


async def test_session_search_lists_and_reads_sessions(desk: Chat) -> None:
    listed = (await desk.use(SESSION_SEARCH)).content.split("\n")
    assert listed == [f"{desk.session_id}: 2026-05-20 12:00, this one", f"{desk.earlier}: 2026-05-20 12:00"]
    end = (await desk.use(SESSION_SEARCH, session_id=desk.earlier)).content
    assert end.endswith("user: last")
    number = int(end.split(" ", 1)[0])
    assert (await desk.use(SESSION_SEARCH, session_id=desk.earlier, around=number)).content == end


async def test_session_search_shows_a_long_message_around_the_hit(desk: Chat, home: Home) -> None:
    row = TranscriptRow("user", "x " * 5000 + "needle" + " y" * 5000, home.world.time())
    await home.database.write(transcript.append, desk.session_id, row)
    told = (await desk.use(SESSION_SEARCH, query="needle")).content
    assert "needle" in told
    assert len(told) < 3 * LONGEST_ROW
