"""Every shield has a deadline. A shield without one outlives every deadline above it. No linter finds such a
shield, so this test reads the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCES = sorted(
    path for folder in ("hermes_trio", "platforms", "bench") for path in (ROOT / folder).rglob("*.py")
)

# The shield of an embedded gateway gets its deadline with the ending, and has none before. A task of asyncio
# that waits for Trio has none, because what it waits for has one.
ALLOWED = {"hermes_trio/embed/shielded_tree.py": 1, "hermes_trio/embed/asyncio_calls.py": 1}
WITH_DEADLINE = {"move_on_after", "move_on_at", "fail_after", "fail_at"}


def endless_shields(source: str) -> Iterator[int]:
    """Yield the lines of shields without a deadline."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and any(_is_on(keyword) for keyword in node.keywords):
            name = ast.unparse(node.func).rpartition(".")[2]
            limits = {keyword.arg for keyword in node.keywords} & {"deadline", "relative_deadline"}
            bounded = bool(limits) or name in WITH_DEADLINE
            if not bounded or "inf" in ast.unparse(node):
                yield node.lineno
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Attribute) and target.attr == "shield" for target in targets):
                yield node.lineno


def _is_on(keyword: ast.keyword) -> bool:
    off = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg == "shield" and not off


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_shield_has_a_deadline(path: Path) -> None:
    endless = list(endless_shields(path.read_text("utf-8")))
    assert len(endless) == ALLOWED.get(path.relative_to(ROOT).as_posix(), 0), endless


@pytest.mark.parametrize(
    "code",
    [
        "with trio.CancelScope(shield=True): ...",
        "with CancelScope(shield=on): ...",
        "scope.shield = True",
        "with trio.move_on_after(math.inf, shield=True): ...",
        "with trio.CancelScope(deadline=math.inf, shield=True): ...",
    ],
)
def test_an_endless_shield_is_found(code: str) -> None:
    assert list(endless_shields(code)) == [1]


@pytest.mark.parametrize(
    "code",
    [
        "with trio.move_on_after(2, shield=True): ...",
        "with trio.CancelScope(deadline=end, shield=True): ...",
        "with trio.CancelScope(shield=False): ...",
    ],
)
def test_a_shield_with_a_deadline_is_accepted(code: str) -> None:
    assert list(endless_shields(code)) == []
