"""Public names: what `__all__` or an import of the form `X as X` promises, and from how many places."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Mapping

from .source import Measure, Module, Source

IN_TWO_PLACES = ("HomeChannel", "MessageEvent", "SessionSource")
"""Names of hermes-agent that stay importable from `hermes_trio`, and that an adapter needs from
`hermes_trio.platform`."""
PUBLIC = ("hermes_trio", "hermes_trio.platform", "hermes_trio.tools", "hermes_trio.testing")


def measures(source: Source) -> list[Measure]:
    """Count the public names, and those that can be imported from more than one public package."""
    places: dict[str, list[str]] = defaultdict(list)
    for module in source.code:
        if module.name in PUBLIC:
            for name in public_names(module):
                places[name].append(module.name)
    table = tuple(f"{name}: {', '.join(found)}" for name, found in sorted(places.items()))
    shared = tuple(f"{name}: {', '.join(found)}" for name, found in _shared(places))
    return [
        Measure("public names", len(places), None, table),
        Measure("public names with more than one place", len(shared), 0, shared),
        *(
            Measure(f"  public names of {package}", sum(package in found for found in places.values()))
            for package in PUBLIC
        ),
    ]


def _shared(places: Mapping[str, list[str]]) -> Iterator[tuple[str, list[str]]]:
    """Names with more than one place, without those that may have two."""
    for name, found in sorted(places.items()):
        if len(found) > (2 if name in IN_TWO_PLACES else 1):
            yield name, found


def public_names(module: Module) -> set[str]:
    """Names in `__all__` and names imported as themselves. A variable like `__version__` is none."""
    found: set[str] = set()
    for node in module.nodes:
        if isinstance(node, ast.Import | ast.ImportFrom):
            found.update(alias.name for alias in node.names if alias.asname == alias.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets):
                found.update(ast.literal_eval(node.value))
    return {name for name in found if not name.startswith("_")}
