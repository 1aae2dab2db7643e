"""Every tool by its name: our own, and those of other packages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from .approval import Permissions
from .builtin.clarify import CLARIFY
from .builtin.files import Files
from .builtin.memory import Memory
from .builtin.process import Processes
from .builtin.schedule import SCHEDULE
from .builtin.search import SEARCH
from .builtin.send_file import SEND_FILE
from .builtin.session_search import SESSION_SEARCH
from .builtin.skill import SKILL
from .builtin.terminal import Terminal
from .builtin.todo import TODO
from .tool import Tool, installed
from .web.web_fetch import WebFetch

TOOLSETS: Mapping[str, frozenset[str]] = {
    "terminal": frozenset({"terminal", "process"}),
    "file": frozenset({"read_file", "write_file", "patch", "search_files", "send_file"}),
    "web": frozenset({"web_fetch"}),
    "memory": frozenset({"memory"}),
    "todo": frozenset({"todo"}),
    "skills": frozenset({"skill"}),
    "cronjob": frozenset({"schedule"}),
    "session_search": frozenset({"session_search"}),
    "clarify": frozenset({"clarify"}),
    "delegation": frozenset({"delegate_task"}),
}
"""The tools of each set, by its name in `agent.disabled_toolsets`."""


def toolbox() -> Mapping[str, Tool]:
    """Return every tool by its name. A tool of another package may replace one of ours. The tools' memory of
    sessions lives as long as this mapping."""
    permissions = Permissions()
    commands = (*Terminal(permissions).tools, Processes(permissions).tool)
    ours = (*_OURS, *commands, *Files(permissions).tools, WebFetch().tool, Memory().tool)
    return {tool.name: tool for tool in (*ours, *installed())}


def names_in(toolsets: Iterable[str]) -> frozenset[str]:
    """Return the names of all tools in these sets."""
    return frozenset(name for toolset in toolsets for name in TOOLSETS.get(toolset, ()))


_OURS: tuple[Tool, ...] = (SEARCH, CLARIFY, TODO, SKILL, SCHEDULE, SESSION_SEARCH, SEND_FILE)
