"""Docstrings of the code, read without importing it."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
_FOLDERS = {"hermes_trio": ROOT, "hermes_platforms": ROOT / "platforms"}


def file_of(module: str) -> Path:
    """Return the file of a module or package."""
    place = _FOLDERS[module.partition(".")[0]].joinpath(*module.split("."))
    file = place.with_suffix(".py")
    return file if file.exists() else place / "__init__.py"


@cache
def tree_of(file: Path) -> ast.Module:
    """Return the parsed file."""
    return ast.parse(file.read_text("utf-8"))


def first_sentence(docstring: str | None) -> str:
    """Return the first sentence of a docstring, without the line breaks."""
    paragraph = " ".join((docstring or "").strip().partition("\n\n")[0].split())
    return re.split(r"(?<=[.:]) (?=[A-Z`])", paragraph)[0].removesuffix(":")


def summary_of(module: str) -> str:
    """Return the first sentence about a module."""
    return first_sentence(ast.get_docstring(tree_of(file_of(module))))
