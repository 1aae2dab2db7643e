"""The facts in the pages are those of the code: outcomes, endings, messages."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest

from hermes_trio.gateway.ending.endings_table import Cause, Ending, Exit, Supervisor, consequences
from hermes_trio.state.tables.turns import END_EFFECTS, Outcome

from .pages import ROOT, cells, page

_INBOX = {"done": "done", "of_turn": "stay with the turn", "pending": "pending again"}


def test_the_page_about_stopping_has_each_outcome_and_its_effects() -> None:
    _, *told = cells("run/stopping.md", "Outcomes of a turn")
    assert [row[0] for row in told] == [outcome.replace("_", " ") for outcome in Outcome]
    assert [row[2] for row in told] == [_INBOX[END_EFFECTS[outcome].inbox] for outcome in Outcome]
    assert [row[4] == "yes" for row in told] == [END_EFFECTS[outcome].mark == "set" for outcome in Outcome]


_ENDINGS = {
    "Planned stop": (Cause.PLANNED, Supervisor.NONE),
    "Signal that nobody announced": (Cause.SIGNAL, Supervisor.NONE),
    "Restart under systemd": (Cause.RESTART, Supervisor.SYSTEMD),
    "Restart under another supervisor": (Cause.RESTART, Supervisor.OTHER),
    "Restart without a supervisor": (Cause.RESTART, Supervisor.NONE),
    "Every platform refuses the gateway": (Cause.NOTHING_SERVES, Supervisor.NONE),
}
_EXITS = {
    Exit.OK: "0",
    Exit.FAILURE: "1",
    Exit.QUEUE_UNIT: "0, ",
    Exit.TEMPFAIL: "75",
    Exit.EXEC: "none",
    Exit.CONFIG: "78",
}


@pytest.mark.parametrize("ending", _ENDINGS)
def test_the_page_about_stopping_says_what_follows_from_an_ending(ending: str) -> None:
    (told,) = (row for row in cells("run/stopping.md", "Endings of the gateway") if row[0] == ending)
    cause, supervisor = _ENDINGS[ending]
    follows = consequences(Ending(cause, 0), supervisor)
    assert f"Gateway {told[1]}" in follows.told
    assert told[2] == f"`{follows.resume_reason}`"
    assert told[3] == f"`{follows.state_left}`"
    assert told[4].startswith(_EXITS[follows.exit])


@cache
def trees_of_the_code() -> list[ast.Module]:
    """Return every module of the code."""
    files = (*ROOT.glob("hermes_trio/**/*.py"), *ROOT.glob("platforms/hermes_platforms/**/*.py"))
    return [ast.parse(path.read_text("utf-8")) for path in files]


@cache
def texts_of_the_code() -> str:
    """Return every text in the code, with … for what is put into it."""
    found = []
    for tree in trees_of_the_code():
        for node in ast.walk(tree):
            if isinstance(node, ast.JoinedStr):
                parts = (one.value if isinstance(one, ast.Constant) else "…" for one in node.values)
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return "\n".join(found)


def symptoms() -> list[str]:
    """Return the messages in the first column of the tables about trouble."""
    first = re.findall(r"^\| (.+?) \|", page("run/troubleshooting.md"), re.MULTILINE)
    found = [code for cell in first for code in re.findall(r"`([^`]+)`", cell)]
    return [text for text in found if " " in text and not text.startswith(("hermes-trio ", "/"))]


@pytest.mark.parametrize("symptom", symptoms())
def test_a_message_in_the_page_about_trouble_is_one_of_the_code(symptom: str) -> None:
    assert symptom.strip("… ") in texts_of_the_code()


RETRIED = " not stored; retrying"
"""Suffix of the events of `store_retry`; their subject is a text of its own in the code."""


def is_event(name: str) -> bool:
    """Return True if the code has this text as that of a log event."""
    texts = texts_of_the_code().split("\n")
    return name in texts or (name.endswith(RETRIED) and name.removesuffix(RETRIED) in texts)


@pytest.mark.parametrize("name", re.findall(r"^\| `([^`]+)` \|.*\|.*\|$", page("run/log.md"), re.MULTILINE))
def test_an_event_in_the_page_about_the_log_is_one_of_the_code(name: str) -> None:
    assert is_event(name)


def test_the_page_about_the_log_has_every_critical_event() -> None:
    calls = (node for tree in trees_of_the_code() for node in ast.walk(tree) if isinstance(node, ast.Call))
    critical = [ast.literal_eval(call.args[0]) for call in calls if ast.unparse(call.func) == "log.critical"]
    assert critical
    assert not [name for name in critical if f"`{name}`" not in page("run/log.md")]


def test_the_glossary_is_in_alphabetical_order_and_has_each_word_once() -> None:
    words = [word.lower() for word in re.findall(r"^### (.+)$", page("reference/glossary.md"), re.MULTILINE)]
    assert words == sorted(set(words))
