"""Import cycles, with the imports below `TYPE_CHECKING` and inside functions counted.

An edge is an import statement. The import of a package that Python does on the way to a module in it is no
edge: with it each package that re-exports a name of its modules would be a cycle.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from .source import Measure, Module, Source

Graph = Mapping[str, set[str]]


def measures(source: Source) -> list[Measure]:
    """Count the modules in import cycles: over all, and inside each package of hermes_trio."""
    whole = import_graph(source.code)
    found = cycles(whole)
    rows = [
        Measure("modules in import cycles", sum(map(len, found)), 0, _texts(found)),
        Measure("modules in the largest import cycle", max(map(len, found), default=0), 0),
    ]
    packages = [module.name for module in source.code if module.is_package and module.name.count(".") == 1]
    for package in packages:
        inside = {name for name in whole if name == package or name.startswith(f"{package}.")}
        found = cycles({name: whole[name] & inside for name in inside})
        rows.append(Measure(f"  inside {package}", sum(map(len, found)), 0, _texts(found)))
    return rows


def _texts(found: list[list[str]]) -> tuple[str, ...]:
    """One line for each cycle, with its size."""
    return tuple(f"{len(names):3}: {', '.join(names)}" for names in found)


def import_graph(modules: tuple[Module, ...]) -> dict[str, set[str]]:
    """For each module the modules that it imports, as far as they are among `modules`."""
    names = {module.name for module in modules}
    return {module.name: set(_imported(module, names)) - {module.name} for module in modules}


def _imported(module: Module, names: set[str]) -> Iterator[str]:
    """Names of the modules that the import statements of a module name."""
    for node in module.nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in names)
        elif isinstance(node, ast.ImportFrom):
            origin = absolute(module, node)
            for alias in node.names:
                if (inner := f"{origin}.{alias.name}") in names:
                    yield inner
                elif origin in names:
                    yield origin


def absolute(module: Module, node: ast.ImportFrom) -> str:
    """Absolute name of the module that a `from` statement names."""
    if not node.level:
        return node.module or ""
    parts = module.name.split(".")
    package = parts[: len(parts) - node.level + module.is_package]
    return ".".join([*package, *([node.module] if node.module else [])])


def cycles(graph: Graph) -> list[list[str]]:
    """Strongly connected components of more than one module, largest first (Tarjan's algorithm)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        index[name] = low[name] = len(index)
        stack.append(name)
        for target in sorted(graph[name]):
            if target not in index:
                visit(target)
                low[name] = min(low[name], low[target])
            elif target in stack:
                low[name] = min(low[name], index[target])
        if low[name] == index[name]:
            start = stack.index(name)
            component = sorted(stack[start:])
            del stack[start:]
            if len(component) > 1:
                found.append(component)

    for name in sorted(graph):
        if name not in index:
            visit(name)
    return sorted(found, key=lambda names: (-len(names), names))
