"""Places where tests reach into our code: patches, private attributes that are set, private names imported.

An object's class is not known to a parser. A private attribute counts as ours when our code has an attribute
or a function of that name, and the object is not `self` or `cls`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from .source import Function, Measure, Module, Source

OURS = ("hermes_trio", "hermes_platforms")
PATCHING = ("setattr", "delattr", "patch", "object", "multiple")
"""Last parts of `monkeypatch.setattr`, `mock.patch`, `mock.patch.object` and their like."""


def measures(source: Source) -> list[Measure]:
    """Count the patches and private names in the tests."""
    private = private_attributes(source.code)
    patched = tuple(place for module in source.tests for place in patches(module))
    assigned = tuple(place for module in source.tests for place in private_assignments(module, private))
    taken = tuple(place for module in source.tests for place in private_uses(module))
    return [
        Measure("patches of internals in tests", len(patched), 0, patched),
        Measure("private attributes set by tests", len(assigned), 0, assigned),
        Measure("private names of ours in tests", len(taken), 0, taken),
    ]


def patches(module: Module) -> Iterator[str]:
    """Calls that patch a name of ours, and plain assignments to an attribute of a module or class of ours."""
    ours = imported_from_us(module)
    for node in module.nodes:
        if isinstance(node, ast.Call) and node.args and _is_patching(node.func):
            target = node.args[0]
            text = target.value if isinstance(target, ast.Constant) else None
            if _root(target) in ours or (isinstance(text, str) and _is_ours(text)):
                yield _text(module, node)
        for target in _targets(node):
            if isinstance(target, ast.Attribute) and _root(target) in ours:
                yield _text(module, target)


def private_assignments(module: Module, private: set[str]) -> Iterator[str]:
    """Assignments to a private attribute of an object of ours."""
    for node in module.nodes:
        for target in _targets(node):
            if (
                isinstance(target, ast.Attribute)
                and target.attr in private
                and not (isinstance(target.value, ast.Name) and target.value.id in ("self", "cls"))
            ):
                yield _text(module, target)


def private_uses(module: Module) -> Iterator[str]:
    """Imports of private names of ours, and private names that are read from a module or class of ours."""
    ours = imported_from_us(module)
    for node in module.nodes:
        match node:
            case ast.ImportFrom(module=str(origin), names=aliases) if _is_ours(origin):
                if any(
                    _is_private(name) for name in (*origin.split("."), *(alias.name for alias in aliases))
                ):
                    yield _text(module, node)
            case ast.Attribute(value=ast.Name(id=name), attr=attr, ctx=ast.Load()) if name in ours:
                if _is_private(attr):
                    yield _text(module, node)


def private_attributes(modules: Iterable[Module]) -> set[str]:
    """Private names of attributes and functions in our code."""
    found: set[str] = set()
    for module in modules:
        for node in module.nodes:
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, Function):
                found.add(node.name)
    return {name for name in found if _is_private(name)}


def imported_from_us(module: Module) -> set[str]:
    """Names that a test module has from our packages."""
    found: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.Import):
            found.update((a.asname or a.name).partition(".")[0] for a in node.names if _is_ours(a.name))
        elif isinstance(node, ast.ImportFrom) and not node.level and _is_ours(node.module or ""):
            found.update(alias.asname or alias.name for alias in node.names)
    return found


def _is_patching(called: ast.expr) -> bool:
    """Tell whether a call is one of those that patch."""
    match called:
        case ast.Attribute(attr=name) | ast.Name(id=name):
            return name in PATCHING
    return False


def _targets(node: ast.AST) -> list[ast.expr]:
    """Targets of an assignment."""
    match node:
        case ast.Assign(targets=targets):
            return [t for one in targets for t in (one.elts if isinstance(one, ast.Tuple) else [one])]
        case ast.AugAssign(target=target) | ast.AnnAssign(target=target):
            return [target]
    return []


def _root(node: ast.expr) -> str | None:
    """First name of a dotted expression."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


def _is_ours(name: str) -> bool:
    """Tell whether a dotted name begins with one of our packages."""
    return name.partition(".")[0] in OURS


def _is_private(name: str) -> bool:
    """Tell whether a name is private; `__name__` is not."""
    return name.startswith("_") and not name.endswith("__")


def _text(module: Module, node: ast.stmt | ast.expr) -> str:
    """Place and first line of a node."""
    return f"{module.place(node)} {ast.unparse(node).splitlines()[0]}"
