"""Sizes of folders and modules, and names that are used more than once."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from .source import Measure, Module, Source

ENTRIES = 15
LINES = 400


def measures(source: Source) -> list[Measure]:
    """Count the entries of folders, names used more than once, and long modules."""
    entries = entries_of_folders(source.code)
    table = tuple(f"{number:3} {folder}" for folder, number in entries.items())
    crowded = tuple(f"{number:3} {folder}" for folder, number in entries.items() if number > ENTRIES)
    named = [module for module in source.code if not module.is_package and module.base != "__main__"]
    modules = repeated((module.base, module.name) for module in named)
    classes = repeated(
        (node.name, f"{module.name}.{node.name}")
        for module in source.code
        for node in module.tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    )
    return [
        Measure("entries of the largest folder", max(entries.values(), default=0), ENTRIES, table),
        Measure(f"folders with more than {ENTRIES} entries", len(crowded), 0, crowded),
        Measure("module names used more than once", len(modules), 0, modules),
        Measure("public class names used more than once", len(classes), 0, classes),
        _long("code", source.code),
        _long("tests", source.tests),
        _long("bench", source.bench),
    ]


def entries_of_folders(modules: Iterable[Module]) -> dict[Path, int]:
    """Count the modules and the sub-packages directly in each folder, largest folder first. `__init__` and
    `__main__` do not count."""
    inside: dict[Path, set[str]] = defaultdict(set)
    for module in modules:
        folder = module.path.parent
        if module.path.stem not in ("__init__", "__main__"):
            inside[folder].add(module.path.stem)
        if module.is_package and folder.parent in inside:
            inside[folder.parent].add(folder.name)
        inside.setdefault(folder, set())
    return {folder: len(names) for folder, names in sorted(inside.items(), key=lambda item: -len(item[1]))}


def repeated(named: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Names that stand for more than one place, each with its places."""
    places: dict[str, list[str]] = defaultdict(list)
    for name, place in named:
        places[name].append(place)
    return tuple(f"{name}: {', '.join(found)}" for name, found in sorted(places.items()) if len(found) > 1)


def _long(what: str, modules: Iterable[Module]) -> Measure:
    """Count the modules that are too long."""
    found = sorted(((m.lines, str(m.path)) for m in modules if m.lines > LINES), reverse=True)
    return Measure(
        f"modules over {LINES} lines: {what}",
        len(found),
        0,
        tuple(f"{lines:5} {path}" for lines, path in found),
    )
