"""The drawings of the architecture and of the states are those of the code."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from hermes_trio.base.world import World
from hermes_trio.gateway.ending.endings_table import LAST_WORDS, MARGIN
from hermes_trio.gateway.outbound.delivery import MAX_TRIES
from hermes_trio.gateway.router import Kind
from hermes_trio.gateway.startup.resume_rules import Action, Marked, may_resume
from hermes_trio.gateway.turn.transcript_tail import Tail
from hermes_trio.host.home.state_file import GatewayState, PlatformState
from hermes_trio.state.db.engine import Db
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.tables import outbox
from hermes_trio.state.tables.outbox import OutboxState
from hermes_trio.state.tables.turns import Outcome
from tests.state.rows import to_chat

from .pages import ROOT, cells, page


def drawing(name: str, heading: str) -> str:
    """Return the first drawing below a heading."""
    return page(name).partition(f"## {heading}\n")[2].partition("```text\n")[2].partition("```")[0]


# --- the tree of lifetimes ---

LIFETIMES = {
    "locked": "home lock",
    "outermost": "state file",
    "open_database": "database",
    "open_journals": "journals",
    "guarded": "process guard",
    "_opened": "agent",
    "lease.scope": "lease",
    "links": "links",
    "open_doors": "doors",
    "lanes": "lanes",
    "background": "background",
    "turns": "work",
}
"""Lifetimes that the code opens, each with its name in the drawing. A nursery has the name of its
variable."""
NO_LIFETIMES = {"ExitStack", "worker", "_failed_start_noted", "CancelScope"}


def opened(body: list[ast.stmt]) -> Iterator[str]:
    """Yield the lifetimes that the blocks of a function open, from the outside in."""
    for statement in body:
        if isinstance(statement, ast.With | ast.AsyncWith):
            for item in statement.items:
                called = ast.unparse(item.context_expr).partition("(")[0]
                called = called.removeprefix("trio.").removeprefix("setup.")
                variable = ast.unparse(item.optional_vars) if item.optional_vars else ""
                yield variable if called == "open_nursery" else called
            yield from opened(statement.body)


def test_the_tree_of_lifetimes_is_drawn_as_the_code_opens_it() -> None:
    source = ast.parse((ROOT / "hermes_trio/gateway/serve.py").read_text("utf-8"))
    functions = {node.name: node for node in source.body if isinstance(node, ast.AsyncFunctionDef)}
    names = [*opened(functions["serve"].body), *opened(functions["_connected"].body)]
    in_code = [LIFETIMES[name] for name in names if name not in NO_LIFETIMES]
    lines = drawing("change/architecture.md", "Tree of lifetimes").splitlines()
    drawn = [re.split(r"\s{2,}", line.lstrip(" └─"))[0] for line in lines]
    assert drawn == ["control", *in_code, "session", "turn"]
    depth = [len(line) - len(line.lstrip(" └─")) for line in lines]
    assert depth == sorted(set(depth)), "each opens inside the one before"


def test_the_way_of_a_message_has_a_branch_for_each_kind_of_event() -> None:
    branches = re.findall(r"[├└]── (\w+) ─", drawing("change/architecture.md", "Way of a message"))
    assert branches == ["unreadable", "command", "press", "stop", "answer", "message"]
    assert {*branches} == {"command", *(kind.value for kind in Kind)}


def test_the_steps_of_a_stop_have_the_deadlines_of_the_code() -> None:
    _, *rows = cells("change/architecture.md", "Stopping")
    after = [float(found[1]) for row in rows if (found := re.fullmatch(r"(\d+) s after the grace", row[1]))]
    assert after[0] == LAST_WORDS
    assert after == sorted(after)
    assert after[-1] == MARGIN


# --- states ---


def test_the_drawing_of_a_turn_has_each_outcome() -> None:
    drawn = drawing("change/states.md", "Turn")
    assert not [outcome for outcome in Outcome if outcome.replace("_", " ") not in drawn]


def test_the_drawings_of_the_gateway_and_of_a_link_have_each_state() -> None:
    gateway, link = drawing("change/states.md", "Gateway"), drawing("change/states.md", "Link")
    assert not [state for state in GatewayState if state not in gateway]
    assert not [state for state in PlatformState if state is not PlatformState.DISABLED and state not in link]


THEN = {
    Action.RUN: "The turn is resumed.",
    Action.KEEP: "Nothing runs; the mark stays.",
    Action.CLEAR: "The mark is cleared.",
}


def test_the_table_of_tails_has_each_tail_and_what_follows_from_it() -> None:
    _, *rows = cells("change/states.md", "Tail of a transcript")
    assert [row[0] for row in rows] == [tail.value for tail in Tail]
    facts = Marked(
        reason=None,
        marked_at=0.0,
        tail=Tail.EMPTY,
        tail_at=0.0,
        suspended=False,
        has_origin=True,
        link_up=True,
        let_in=True,
        had_its_run=False,
        fruitless=False,
    )
    verdicts = [may_resume(replace(facts, tail=tail), now=0.0, window=60.0) for tail in Tail]
    assert [row[2] for row in rows] == [THEN[verdict.action] for verdict in verdicts]


@pytest.fixture
def db(tmp_path: Path) -> Iterator[Db]:
    connections = open_connections(tmp_path / "gateway.db", World(), shipped_steps())
    connections.reading.close()
    yield connections.writing
    connections.writing.close()


MOVES: dict[str, Callable[[Db, int], None]] = {
    "Attempt": lambda db, row: outbox.note_attempt(db, row, 1.0),
    "Not sent": lambda db, row: outbox.note_failure(db, row, "busy"),
    "Receipt": lambda db, row: outbox.note_receipt(db, row, "7", 1.0),
    "Give up": lambda db, row: outbox.give_up(db, row, "refused", 1.0),
}
WAYS: dict[OutboxState, tuple[str, ...]] = {
    OutboxState.OWED: (),
    OutboxState.ATTEMPTING: ("Attempt",),
    OutboxState.SENT: ("Attempt", "Receipt"),
    OutboxState.GIVEN_UP: ("Attempt", "Give up"),
}
"""Steps by which a new row gets into each state."""
NOTHING = "\N{EN DASH}"


def after(db: Db, key: str, *moves: str) -> OutboxState:
    """Return the state of a new row after these moves."""
    outbox.owe(db, to_chat(key), 0.0)
    row = outbox.by_key(db, key)
    assert row is not None
    for move in moves:
        MOVES[move](db, row.outbox_id)
    row = outbox.by_key(db, key)
    assert row is not None
    return row.state


def test_the_table_of_the_outbox_has_each_transition_of_the_code(db: Db) -> None:
    head, *rows = cells("change/states.md", "Row of the outbox")
    assert head == ["State", *MOVES]
    assert [row[0].replace(" ", "_") for row in rows] == list(OutboxState)
    for state, (name, *told) in zip(OutboxState, rows, strict=True):
        assert after(db, f"to {name}", *WAYS[state]) is state
        for move, cell in zip(MOVES, told, strict=True):
            then = after(db, f"{name}, {move}", *WAYS[state], move)
            assert cell == (
                NOTHING if then is state and state is not OutboxState.ATTEMPTING else then.replace("_", " ")
            ), f"{name}: {move}"
    assert not [
        state
        for state in OutboxState
        if state.replace("_", " ") not in drawing("change/states.md", "Row of the outbox")
    ]


def test_the_page_about_states_says_after_how_many_attempts_a_row_is_given_up() -> None:
    assert f"After {MAX_TRIES} attempts" in page("change/states.md")
