"""The tools there are, by name: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping

from .tool import Tool, installed


def toolbox() -> Mapping[str, Tool]:
    """Every tool by its name. One of another package may take the place of ours."""
    return {tool.name: tool for tool in (*_OURS, *installed())}


_OURS: tuple[Tool, ...] = ()
