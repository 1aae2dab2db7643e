"""The names in the pages exist: keys, classes, members, modules, paths, routes."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap
from functools import cache
from pkgutil import resolve_name

import pytest

from hermes_trio.config.schema import GatewayConfig
from hermes_trio.config.section import Section, keys
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.tools import Workplace

from .pages import BY_HAND, DOCS, OTHER_PAGES, PAGES, ROOT, entry_points, page, titled


def _written_by_hand() -> str:
    """Return the texts in which names are checked. Only the unreleased part of the changelog is one of them:
    the other parts may hold names that no longer exist."""
    unreleased = (
        (ROOT / "CHANGELOG.md").read_text("utf-8").partition("## Unreleased\n")[2].partition("\n## ")[0]
    )
    pages = [path for path in (*BY_HAND, *OTHER_PAGES) if path != DOCS / "run/hermes-agent.md"]
    return "\n".join([*(path.read_text("utf-8") for path in pages), unreleased])


def _named(pattern: str) -> list[str]:
    """Return the names that match a pattern in the pages that are written by hand."""
    return sorted(set(re.findall(pattern, _written_by_hand())))


def _takes(path: list[str], section: type[Section]) -> bool:
    """Return True if a section has the key at this path; any name matches where people choose it."""
    key = next((key for key in keys(section) if key.name == path[0]), None)
    if key is None or len(path) == 1:
        return key is not None
    if key.named is not None:
        return len(path) == 2 or _takes(path[2:], key.named)
    return key.section is not None and _takes(path[1:], key.section)


_NO_KEYS = {"gateway.ending", "gateway.control.current", "gateway.db", "gateway.lock", "terminal.backend"}
"""Other names that are written like a key; the last is one of hermes-agent."""
_SECTIONS = "|".join(key.name for key in keys(GatewayConfig))


@pytest.mark.parametrize("name", _named(rf"`((?:{_SECTIONS})\.\w+(?:\.\w+)*)(?::[^`]*)?`"))
def test_a_configuration_key_in_a_page_is_there(name: str) -> None:
    assert name in _NO_KEYS or _takes(name.split("."), GatewayConfig)


@cache
def words_of_the_code() -> frozenset[str]:
    """Return every word of the code, and of the examples that are files."""
    folders = ("hermes_trio", "platforms", "tests")
    code = [path.read_text("utf-8") for folder in folders for path in (ROOT / folder).rglob("*.py")]
    examples = [text for path in PAGES for text in titled(path).values()]
    return frozenset(re.findall(r"\w+", "\n".join([*code, *examples])))


@pytest.mark.parametrize("name", _named(r"`([A-Z][a-z]+(?:[A-Z][a-z]+)+)\b[^`]*`"))
def test_a_class_in_a_page_is_in_the_code(name: str) -> None:
    assert name in words_of_the_code()


def _titles() -> set[str]:
    """Return the files that the pages tell their readers to write."""
    return {name for path in PAGES for name in titled(path)}


def _members(kind: type) -> set[str]:
    """Return the members of a class: those of its body, and what its `__init__` sets."""
    source = ast.parse(textwrap.dedent(inspect.getsource(kind)))
    set_there = {
        node.attr
        for node in ast.walk(source)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"
    }
    return set_there | set(dir(kind))


@pytest.mark.parametrize("name", _named(r"`turn\.(\w+)"))
def test_a_member_of_a_turn_in_a_page_is_there(name: str) -> None:
    assert name in _members(TurnContext)


@pytest.mark.parametrize("name", _named(r"`place\.(\w+)"))
def test_a_member_of_a_workplace_in_a_page_is_there(name: str) -> None:
    assert name in dir(Workplace)


@pytest.mark.parametrize("name", _named(r"\b(hermes_(?:trio|platforms)(?:\.[A-Za-z_]\w*)+)"))
def test_a_module_or_a_name_of_the_code_in_a_page_is_there(name: str) -> None:
    if f"{name.replace('.', '/')}.py" not in _titles() and name not in entry_points():
        assert resolve_name(name) is not None


@pytest.mark.parametrize("path", _named(r"(?<![\w/])((?:hermes_trio|platforms|tests|docs|bench)/[\w./-]*\w)"))
def test_a_path_of_the_repository_in_a_page_is_there(path: str) -> None:
    assert "NAME" in path or path in _titles() or (ROOT / path).exists()


@pytest.mark.parametrize("route", _named(r"`((?:GET|POST|PATCH|DELETE) /[^`? ]*)"))
def test_a_route_in_a_page_is_there(route: str) -> None:
    assert f"### {route}\n" in page("reference/http-api.md")
