"""Functions and texts: lengths, parameters, first words of docstrings, and samples for people to judge."""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Iterable, Iterator, Sequence

from .source import Measure, Module, Source, parameters

PARAMETERS = 6
LEVELS = ("debug", "info", "warning", "error", "critical", "exception")
INDIRECT = re.compile(r"(What|Whether|Who|Whoever|That|This|It|Of|Behind|So)\b")
"""First words that make the reader look for the subject."""


def measures(source: Source) -> list[Measure]:
    """Measure the functions of the code, and the first words of all docstrings."""
    lengths = sorted(
        ((node.end_lineno or node.lineno) - node.lineno + 1, f"{module.path}:{node.lineno} {name}")
        for module in source.code
        for name, node in module.functions
    )
    longest = tuple(f"{length:4} {place}" for length, place in lengths[:-11:-1])
    counts = [length for length, _ in lengths]
    wide = sorted(
        (
            (len(parameters(node)), f"{module.path}:{node.lineno} {name}")
            for module in source.code
            for name, node in module.functions
            if len(parameters(node)) > PARAMETERS
        ),
        reverse=True,
    )
    too_wide = tuple(f"{number:3} {place}" for number, place in wide)
    indirect, others = tuple(_indirect(source.code)), tuple(_indirect((*source.tests, *source.bench)))
    return [
        Measure("lines of a function: median", _share(counts, 0.5)),
        Measure("lines of a function: 90 of 100 have at most", _share(counts, 0.9)),
        Measure("lines of the longest function", max(counts, default=0), None, longest),
        Measure(f"functions with more than {PARAMETERS} parameters", len(wide), 0, too_wide),
        Measure("docstrings with an indirect first word: code", len(indirect), 0, indirect),
        Measure("docstrings with an indirect first word: tests, bench", len(others), 0, others),
    ]


def samples(source: Source, seed: int, size: int = 10) -> dict[str, list[str]]:
    """Draw docstrings, log events and test names. The same seed draws the same from the same tree."""
    chance = random.Random(seed)  # noqa: S311 - a sample, no secret
    every = {
        "docstrings": [_line(place, text) for place, text in docstrings(source.code)],
        "log events": list(log_events(source.code)),
        "test names": [name for module in source.tests for name, _ in module.functions if _is_test(name)],
    }
    return {what: chance.sample(texts, min(size, len(texts))) for what, texts in every.items()}


def docstrings(modules: Iterable[Module]) -> Iterator[tuple[str, str]]:
    """Place and text of each docstring; the strings below the fields of a class are docstrings too."""
    for module in modules:
        for node in module.nodes:
            match node:
                case ast.Expr(value=ast.Constant(value=str(text))):
                    yield module.place(node), text.strip()


def log_events(modules: Iterable[Module]) -> Iterator[str]:
    """The event of each call of a logger, with its place."""
    for module in modules:
        for node in module.nodes:
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=level), args=[event, *_]):
                    if name.endswith("log") and level in LEVELS:
                        yield f"{module.place(node)} {ast.unparse(event)}"


def _indirect(modules: Iterable[Module]) -> Iterator[str]:
    """Docstrings with an indirect first word."""
    return (_line(place, text) for place, text in docstrings(modules) if INDIRECT.match(text))


def _is_test(name: str) -> bool:
    """Tell whether a function is a test."""
    return name.rpartition(".")[2].startswith("test_")


def _line(place: str, text: str) -> str:
    """Place and text on one line."""
    return f"{place} {' '.join(text.split())}"


def _share(sorted_numbers: Sequence[int], share: float) -> int:
    """The number that this share of the numbers does not exceed."""
    return sorted_numbers[max(0, -int(-len(sorted_numbers) * share // 1) - 1)] if sorted_numbers else 0
