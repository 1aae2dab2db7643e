"""The page about the public names, made from the lists `__all__` of the public packages."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Iterator
from importlib import import_module
from itertools import pairwise
from types import ModuleType

from .markdown import code, escaped, table
from .source import ROOT, first_sentence, tree_of

PACKAGES = {
    "hermes_trio": "You embed the gateway in a program.",
    "hermes_trio.platform": "You write an adapter for a platform.",
    "hermes_trio.tools": "You write a tool for the agent.",
    "hermes_trio.testing": "You test one of these.",
}
"""The packages whose names are kept, and who uses each."""


def public_names() -> Iterator[str]:
    """Yield the lines of the page about the public names."""
    yield "# Public names\n"
    yield (
        "The names on this page are kept: the changelog announces a change that breaks them. Import a name "
        "from the package that lists it. Every other name may move or disappear in any release, also if it "
        "does not begin with an underscore.\n"
    )
    for package, reader in PACKAGES.items():
        module = import_module(package)
        if names := [name for name in getattr(module, "__all__", ()) if not name.startswith("__")]:
            yield f"## {package}\n"
            yield f"{reader}\n"
            yield from table(
                ("Name", "Kind", "Meaning"),
                ((code(name), *_about(name, getattr(module, name))) for name in sorted(names, key=str.lower)),
            )


def _about(name: str, value: object) -> tuple[str, str]:
    """Return the kind of a name and the first sentence about it."""
    if inspect.isclass(value):
        kind = "error" if issubclass(value, Exception) else "class"
    elif isinstance(value, ModuleType):
        kind = "module"
    elif inspect.iscoroutinefunction(value):
        kind = "async function"
    elif inspect.isfunction(value):
        kind = "context manager" if hasattr(value, "__wrapped__") else "function"
    else:
        return "value", escaped(first_sentence(_text_below(name)))
    return kind, escaped(
        first_sentence(value.__doc__ if not inspect.isclass(value) else vars(value).get("__doc__"))
    )


def _text_below(name: str) -> str:
    """Return the text directly below the definition of a value in the code; empty if there is none."""
    for file in sorted((ROOT / "hermes_trio").rglob("*.py")):
        body = tree_of(file).body
        for statement, below in pairwise(body):
            targets = statement.targets if isinstance(statement, ast.Assign) else []
            if isinstance(statement, ast.AnnAssign):
                targets = [statement.target]
            if any(isinstance(target, ast.Name) and target.id == name for target in targets):
                match below:
                    case ast.Expr(value=ast.Constant(value=str(text))):
                        return text
    return ""
