"""The measured source: modules that are parsed, never imported. What every measure returns."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Measure:
    """One row of the report."""

    name: str
    figure: int
    goal: int | None = None
    """At most this; None where the figure has no goal."""
    found: tuple[str, ...] = ()
    """The places behind the figure, for the long report."""


@dataclass(frozen=True)
class Module:
    """A parsed module."""

    name: str
    """Dotted, without `__init__`: a package has the name of its folder."""
    path: Path
    """Relative to the root of the repository."""
    tree: ast.Module
    lines: int

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @cached_property
    def nodes(self) -> tuple[ast.AST, ...]:
        """All nodes of the tree."""
        return tuple(ast.walk(self.tree))

    @cached_property
    def functions(self) -> tuple[tuple[str, Function], ...]:
        """All functions with their qualified names: methods and nested functions too."""
        return tuple(_functions(self.tree, ""))

    @property
    def base(self) -> str:
        """Last part of the name."""
        return self.name.rpartition(".")[2]

    def place(self, node: ast.stmt | ast.expr | ast.arg) -> str:
        """File and line of a node."""
        return f"{self.path}:{node.lineno}"


@dataclass(frozen=True)
class Source:
    """Everything that is measured."""

    code: tuple[Module, ...]
    """hermes_trio and hermes_platforms."""
    tests: tuple[Module, ...]
    bench: tuple[Module, ...]


def read_source(root: Path) -> Source:
    """Parse the repository at `root`."""
    return Source(
        code=(
            *read_package(root, root / "hermes_trio"),
            *read_package(root, root / "platforms/hermes_platforms"),
        ),
        tests=tuple(read_package(root, root / "tests")),
        bench=tuple(read_package(root, root / "bench")),
    )


def read_package(root: Path, package: Path) -> list[Module]:
    """Parse the modules below a folder, in the order of their names."""
    modules = []
    for path in sorted(package.rglob("*.py")):
        parts = path.relative_to(package.parent).with_suffix("").parts
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
        modules.append(Module(name, path.relative_to(root), tree, len(text.splitlines())))
    return modules


def _functions(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
    """Functions below a node, with `prefix` before their names."""
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, Function | ast.ClassDef):
            inside = f"{prefix}{child.name}."
        if isinstance(child, Function):
            yield f"{prefix}{child.name}", child
        yield from _functions(child, inside)


def parameters(function: Function) -> list[ast.arg]:
    """All parameters of a function, without `self` and `cls`."""
    given = function.args
    every = [*given.posonlyargs, *given.args, *given.kwonlyargs, *filter(None, (given.vararg, given.kwarg))]
    return [arg for arg in every if arg.arg not in ("self", "cls")]
