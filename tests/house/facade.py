"""Functions that are handed a whole façade (`Gateway`, `Web`) instead of the parts that they use."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator

from .source import Measure, Module, Source, parameters

FACADES = ("RunningGateway", "Web")
ENTRY_POINTS = ("hermes_trio.embed", "hermes_trio.cli", "hermes_trio.web.app")
"""Modules and packages that may take a façade, because it is made for them: they are listed apart."""


def measures(source: Source) -> list[Measure]:
    """Count the functions and the classes that take a façade, and the modules in which they are."""
    taken = {facade: list(_takers(source.code, facade)) for facade in FACADES}
    held = [found for facade in FACADES for found in _holders(source.code, facade)]
    counted = {
        name: [(m, what) for m, what in found if not _may(source, name, m)] for name, found in taken.items()
    }
    apart = [_text(m, what) for name, found in taken.items() for m, what in found if _may(source, name, m)]
    rows = [
        Measure(
            f"functions that take the whole {facade}",
            len(found),
            0,
            (*_by_module(found), *(_text(module, what) for module, what in found)),
        )
        for facade, found in counted.items()
    ]
    modules = sorted({module.name for found in counted.values() for module, _ in found})
    return [
        *rows,
        Measure("modules with such functions", len(modules), 0, tuple(modules)),
        Measure("classes with a façade as a field", len(held), 0, tuple(_text(m, what) for m, what in held)),
        Measure("apart: in the façade's module, embed, CLI", len(apart), None, tuple(apart)),
    ]


def _takers(modules: tuple[Module, ...], facade: str) -> Iterator[tuple[Module, str]]:
    """Functions with a parameter of this type, with their lines."""
    for module in modules:
        for name, function in module.functions:
            if any(names_type(arg.annotation, facade) for arg in parameters(function)):
                yield module, f"{name}:{function.lineno}"


def _holders(modules: tuple[Module, ...], facade: str) -> Iterator[tuple[Module, str]]:
    """Classes with a field of this type: a dataclass takes it as a parameter."""
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.ClassDef):
                fields = [item for item in node.body if isinstance(item, ast.AnnAssign)]
                if any(names_type(item.annotation, facade) for item in fields):
                    yield module, f"{node.name}:{node.lineno}"


def names_type(annotation: ast.expr | None, name: str) -> bool:
    """Tell whether an annotation is this type: plain, quoted, with its module, or as one of a union."""
    match annotation:
        case ast.Name(id=found) | ast.Attribute(attr=found):
            return found == name
        case ast.Constant(value=str(text)):
            return names_type(ast.parse(text, mode="eval").body, name)
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return names_type(left, name) or names_type(right, name)
        case ast.Subscript(
            value=ast.Name(id="Optional" | "Union") | ast.Attribute(attr="Optional" | "Union")
        ):
            inside = annotation.slice
            return any(
                names_type(e, name) for e in (inside.elts if isinstance(inside, ast.Tuple) else [inside])
            )
    return False


def _may(source: Source, facade: str, module: Module) -> bool:
    """Tell whether functions of this module may take the façade."""
    if any(module.name == entry or module.name.startswith(f"{entry}.") for entry in ENTRY_POINTS):
        return True
    return any(isinstance(node, ast.ClassDef) and node.name == facade for node in module.tree.body)


def _by_module(found: list[tuple[Module, str]]) -> list[str]:
    """Number of functions for each module, largest first."""
    return [f"{number:3} {name}" for name, number in Counter(m.name for m, _ in found).most_common()]


def _text(module: Module, what: str) -> str:
    """Full name and line of a function or class."""
    return f"{module.name}.{what}"
