"""The tool `todo`: a list that lives as long as its session."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_trio.base.messages import SessionSource
from hermes_trio.state.tables import sessions, todos
from hermes_trio.tools.builtin.todo import LONGEST_LIST, MOST_ITEMS, TODO
from hermes_trio.tools.tool import ToolFailed
from tests.conftest import OpenHome
from tests.tools.desk import Desk, desk_in


async def test_the_todo_list_survives_a_restart_and_is_deleted_with_its_session(
    tmp_path: Path, open_home: OpenHome, somebody: SessionSource
) -> None:
    (tmp_path / "desk").mkdir()
    desk = desk_in(tmp_path / "desk")
    async with open_home() as home:
        entry = await home.store.get_or_create_session(somebody)
        desk.store, desk.session_id = home.database, entry.session_id
        assert (await desk.use(TODO)).content == "The list is empty."
        entries = [{"id": "a", "content": "Look"}, {"id": "b", "content": "Leap", "status": "in_progress"}]
        await desk.use(TODO, todos=entries)
    async with open_home() as home:
        desk.store = home.database
        told = (await desk.use(TODO)).content
        assert told.startswith("[ ] a: Look\n[>] b: Leap\n2 of 2 open.")
        other = Desk(desk.home, desk.cwd, "another", store=home.database)
        assert (await other.use(TODO)).content == "The list is empty."
        change = [{"id": "c", "content": "Land"}, {"id": "a", "content": "Looked", "status": "completed"}]
        told = (await desk.use(TODO, todos=change, merge=True)).content
        assert told.startswith("[x] a: Looked\n[>] b: Leap\n[ ] c: Land\n2 of 3 open.")
        assert (await desk.use(TODO, todos=change)).content.startswith("[ ] c: Land\n[x] a: Looked\n1 of 2")
        await home.database.write(sessions.delete, entry.session_id)
        assert await home.database.read(todos.get, entry.session_id) == []


async def test_a_todo_list_over_its_limits_changes_nothing(
    tmp_path: Path, open_home: OpenHome, somebody: SessionSource
) -> None:
    (tmp_path / "desk").mkdir()
    desk = desk_in(tmp_path / "desk")
    async with open_home() as home:
        entry = await home.store.get_or_create_session(somebody)
        desk.store, desk.session_id = home.database, entry.session_id
        await desk.use(TODO, todos=[{"id": "a", "content": "As it was"}])
        many = [{"id": str(n), "content": "x"} for n in range(MOST_ITEMS)]
        long = [{"id": str(n), "content": "x" * 4000} for n in range(LONGEST_LIST // 4000 + 1)]
        twice = [{"id": "b", "content": "x"}] * 2
        for entries, merge in ((many, True), (long, False), (twice, False)):
            with pytest.raises(ToolFailed, match="Nothing was changed"):
                await desk.use(TODO, todos=entries, merge=merge)
        assert (await desk.use(TODO)).content.startswith("[ ] a: As it was")
        await desk.use(TODO, todos=many)
