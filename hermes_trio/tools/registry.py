"""The tools there are, by name: ours, and those of other packages."""

from __future__ import annotations

from collections.abc import Mapping

from .clarify import CLARIFY
from .files import Files
from .memory import Memory
from .process import PROCESS
from .search import SEARCH
from .send_file import SEND_FILE
from .session_search import SESSION_SEARCH
from .terminal import Terminal
from .todo import TODO
from .tool import Tool, installed
from .web import Web


def toolbox() -> Mapping[str, Tool]:
    """Every tool by its name. One of another package may take the place of ours. What the tools remember of
    sessions lives as long as the box."""
    ours = (*_OURS, *Terminal().tools, *Files().tools, Web().tool, Memory().tool)
    return {tool.name: tool for tool in (*ours, *installed())}


_OURS: tuple[Tool, ...] = (PROCESS, SEARCH, CLARIFY, TODO, SESSION_SEARCH, SEND_FILE)
