"""The page about the layers, made from the import contracts in `pyproject.toml`."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .markdown import code, escaped, table
from .source import ROOT, file_of, summary_of

_WIDTH = 72
"""Characters of a row in a drawing."""


def layers() -> Iterator[str]:
    """Yield the lines of the page about the layers."""
    yield "# Layers\n"
    yield (
        "A module imports only from rows below its own. Modules that share a row and are separated by `│` do "
        "not import each other. Modules that are separated by `·` may. The drawings are made from the import "
        "contracts in `pyproject.toml`, and `make lint` checks these contracts with import-linter, so the "
        "drawings hold for every import of the code.\n"
    )
    yield (
        "To add a module, put it into the lowest room in which it can do its work. If a contract is broken, "
        "move the module or the import: a function takes a value or a callback instead of importing the room "
        "above.\n"
    )
    contracts = _contracts()
    for contract in contracts:
        if contract["type"] == "layers":
            for container in contract["containers"]:
                yield from _container(container, contract)
    yield "## Other contracts\n"
    yield from table(
        ("Contract", "Modules", "Rule"),
        (_other(contract) for contract in contracts if contract["type"] != "layers"),
    )


def _contracts() -> list[dict[str, Any]]:
    with open(ROOT / "pyproject.toml", "rb") as file:
        found: list[dict[str, Any]] = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    return found


def _container(container: str, contract: Mapping[str, Any]) -> Iterator[str]:
    """Yield the drawing of one package, and a table of its modules."""
    rows = [_row(row) for row in contract["layers"]]
    yield f"## {container}\n"
    if summary := summary_of(container):
        yield f"{escaped(summary)}\n"
    yield "```text"
    yield from _drawing([_joined(names, separator) for names, separator in rows])
    yield "```\n"
    modules = [f"{container}.{name}" for names, _ in rows for name in names]
    yield from table(
        ("Module", "Content"),
        ((code(module), escaped(summary_of(module))) for module in modules if file_of(module).exists()),
    )


def _row(row: str) -> tuple[list[str], str]:
    """Return the names of a row, and the sign that separates them."""
    separator = "·" if ":" in row else "│"
    return [name.strip("() ") for name in re.split("[|:]", row)], separator


def _joined(names: Sequence[str], separator: str) -> list[str]:
    """Return a row as lines that fit the drawing."""
    lines = [names[0]]
    for name in names[1:]:
        longer = f"{lines[-1]} {separator} {name}"
        if len(longer) <= _WIDTH - 2:  # room for the separator at the end of a line
            lines[-1] = longer
        else:
            lines[-1] += f" {separator}"
            lines.append(name)
    return lines


def _drawing(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield boxes, one below the other."""
    edge = "─" * (_WIDTH + 4)
    yield f"┌{edge}┐"
    for number, lines in enumerate(rows):
        if number:
            yield f"├{edge}┤"
        for line in lines:
            yield f"│  {line:<{_WIDTH}}  │"
    yield f"└{edge}┘"


def _other(contract: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the cells of a contract that is no drawing."""
    if contract["type"] == "forbidden":
        modules, rule = contract["source_modules"], "must not import " + _codes(contract["forbidden_modules"])
    elif contract["type"] == "protected":
        modules, importers = contract["protected_modules"], _codes(contract["allowed_importers"])
        rule = f"are imported only from {importers}"
    else:
        modules, rule = contract["modules"], "do not import each other"
    return contract["name"], _codes(modules), rule


def _codes(modules: Sequence[str]) -> str:
    return ", ".join(map(code, modules))
