"""The tools of an agent: each is a module with its arguments, its limits and its refusals.

The names in `__all__` are for those who write a tool; `tool` and `typed_function` describe them, with
examples. They are
imported when they are first used, because the search process imports this package and needs only the standard
library.

The layers of this package are drawn in docs/change/layers.md.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .all_tools import toolbox as toolbox
    from .tool import Result as Result
    from .tool import Tool as Tool
    from .tool import ToolFailed as ToolFailed
    from .tool import Workplace as Workplace
    from .typed_function import ToolInvalid as ToolInvalid
    from .typed_function import function_tool as function_tool

__all__ = ["Result", "Tool", "ToolFailed", "ToolInvalid", "Workplace", "function_tool", "toolbox"]

_MODULES = {"ToolInvalid": "typed_function", "function_tool": "typed_function", "toolbox": "all_tools"}
"""The modules of names that are not in `tool`."""


if not TYPE_CHECKING:  # a type checker would accept any name then

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(f".{_MODULES.get(name, 'tool')}", __name__), name)


def __dir__() -> list[str]:
    return __all__
