"""The matrix of laws and platforms: which law holds where, and what a platform cannot do."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from importlib import import_module

import pytest

from ...platform.contract import Traits
from .subject import NEEDS, Trait

HOLDS, BROKEN, NOT_RUN = "✓", "✗ broken", "not run"
_ROOMS = ("receiving", "sending", "lifetimes")
_WORDS: Mapping[Trait, str] = {
    "edits": "edit",
    "deletes": "delete",
    "typing": "show typing",
    "drafts": "show drafts",
    "reacts": "mark messages",
    "threads": "have topics",
    "buttons": "have buttons",
    "fetches": "hand over files",
    "sends_files": "take files",
    "takes_keys_for": "recognise a repeat",
    "finds": "be asked for a message",
    "redelivers": "send an event again",
}


def laws() -> list[str]:
    """Return the names of all laws in the order of the code."""
    modules = [import_module(f".{room}", __package__) for room in _ROOMS]
    return [name for module in modules for name in vars(module) if name.startswith("test_")]


def promised(traits: Traits) -> dict[str, str]:
    """Return the cells of a platform with these traits that keeps every law."""
    return {
        law: HOLDS if all(getattr(traits, one) for one in NEEDS.get(law, ())) else _cannot(law)
        for law in laws()
    }


def _cannot(law: str) -> str:
    """Return the cell of a platform without an ability that a law needs."""
    return f"cannot {' or '.join(_WORDS[one] for one in NEEDS.get(law, ()))}"


def table(columns: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """Yield the lines of a Markdown table. Each column maps the names of laws to cells."""
    yield f"| Law | {' | '.join(columns)} |"
    yield f"|---|{'---|' * len(columns)}"
    for law in laws():
        cells = [column.get(law, NOT_RUN) for column in columns.values()]
        yield f"| {law.removeprefix('test_').replace('_', ' ')} | {' | '.join(cells)} |"


class Recorder:
    """A plugin of pytest that notes the outcome of each law on each platform."""

    def __init__(self) -> None:
        self._outcomes: dict[str, dict[str, list[str]]] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if isinstance(item, pytest.Function) and (report.when == "call" or not report.passed):
            outcome = BROKEN if report.failed else _cannot(item.originalname) if report.skipped else HOLDS
            self._outcomes.setdefault(_name(item), {}).setdefault(item.originalname, []).append(outcome)
        return report

    def columns(self) -> dict[str, dict[str, str]]:
        """Return the cells of each platform. A law of several cases holds if all of them do."""
        return {
            name: {law: BROKEN if BROKEN in found else found[0] for law, found in column.items()}
            for name, column in self._outcomes.items()
        }


def _name(item: pytest.Function) -> str:
    """Return the name of the platform under test: the parameter of the fixture, or the name of the module."""
    name = item.callspec.params.get("platform") if hasattr(item, "callspec") else None
    return name if isinstance(name, str) else item.path.stem.removeprefix("test_")
