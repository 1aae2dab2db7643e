"""The tools of an agent: each is a module with its arguments, its limits and its refusals.

The names in `__all__` are for those who write a tool; `tool` describes them, with an example. They are
imported when they are first used, because the search process imports this package and needs only the standard
library.

Layers, highest first; a module imports only from rows below its own:

    all_tools               every tool by its name
    builtin  mcp            our own tools; tools of servers of the Model Context Protocol
    approval                a person's yes
    tool                    a tool, and the part of a turn that it sees
    background_process      processes that outlive a turn
    output                  results without secrets, and of a bounded length
    paths                   the files that may be opened, and how they are opened
    safety                  the judge of commands and of process input; the list of protected paths
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .tool import Result as Result
    from .tool import Tool as Tool
    from .tool import ToolFailed as ToolFailed
    from .tool import Workplace as Workplace

__all__ = ["Result", "Tool", "ToolFailed", "Workplace"]


if not TYPE_CHECKING:  # a type checker would accept any name then

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(".tool", __name__), name)


def __dir__() -> list[str]:
    return __all__
