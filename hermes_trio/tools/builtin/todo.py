"""The tool `todo`: the task list of a session, which the agent keeps and the person can ask for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta

from ...state.db.engine import Db
from ...state.tables import todos
from ...state.tables.todos import Item, Status
from ..tool import Result, Tool, ToolFailed, Workplace

MOST_ITEMS = 256
LONGEST_LIST = 64_000
"""Characters of the whole list, which the model always gets in full."""

_MARKS: dict[Status, str] = {"pending": " ", "in_progress": ">", "completed": "x", "cancelled": "-"}


class TodoEntry(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(min_length=1, max_length=64, description="A short name that stays.")]
    content: Annotated[str, Meta(min_length=1, max_length=4000)]
    status: Status = "pending"


class TodoArguments(msgspec.Struct, frozen=True):
    todos: Annotated[
        list[TodoEntry] | None,
        Meta(description="The list. Left out: nothing changes, and you get the list."),
    ] = None
    merge: Annotated[
        bool, Meta(description="Only change the entries with these ids, and add those that are new.")
    ] = False


async def _todo(arguments: TodoArguments, place: Workplace) -> Result:
    if arguments.todos is None:
        return Result(_listed(await place.database.read(todos.get, place.session_id)))
    ids = [entry.id for entry in arguments.todos]
    if len(set(ids)) < len(ids):
        raise ToolFailed("Two entries have the same id. Nothing was changed.")
    new = {entry.id: Item(entry.id, entry.content, entry.status) for entry in arguments.todos}
    return Result(_listed(await place.database.write(_put, place.session_id, new, merge=arguments.merge)))


def _put(db: Db, session_id: str, new: dict[str, Item], *, merge: bool) -> list[Item]:
    """Change the list in one transaction, and return it."""
    old = {item.id: item for item in todos.get(db, session_id)} if merge else {}
    items = list((old | new).values())
    if len(items) > MOST_ITEMS or sum(len(item.content) for item in items) > LONGEST_LIST:
        raise ToolFailed(
            f"That is more than {MOST_ITEMS} entries or {LONGEST_LIST} characters. Nothing was changed; "
            "leave out entries that are done."
        )
    todos.put(db, session_id, items)
    return items


def _listed(items: Sequence[Item]) -> str:
    if not items:
        return "The list is empty."
    open_ones = sum(item.status in ("pending", "in_progress") for item in items)
    lines = [f"[{_MARKS[item.status]}] {item.id}: {item.content}" for item in items]
    return "\n".join(
        [*lines, f"{open_ones} of {len(items)} open. ([>] in progress, [x] done, [-] cancelled)"]
    )


TODO = Tool(
    "todo",
    "Keeps the task list of this conversation; it survives restarts. Use it for work of several steps. "
    "Without arguments it returns the list.",
    TodoArguments,
    _todo,
)
