"""Names for those who test a gateway, an adapter, or a program with a gateway in it: platforms whose people
are driven by the test, a scripted agent, and a gateway in memory.

    life, Life, Lives           gateway in memory on a virtual clock, for tests of programs that embed one
    ClockNotVirtual             its error if the run has a real clock
    MemoryPlatform              platform in memory, on Trio's clock: for a gateway in the same process
    LoopbackAdapter             platform over TCP, the gateway's side
    open_loopback               platform over TCP, the test's side: for a gateway in a process of its own
    Stage, Shown, ShownChat     common part of all platforms for tests: people, chats, failures on demand
    Operation, WaitingEvent     calls of the gateway; events that it has not accepted
    ConnectionCutter, in_background     parts of a simulator of your own
    trial_of                    adapter with its simulator, for `hermes-trio setup PLATFORM --simulate`
    Script, perform, ScriptTurn         steps of the agent in a turn

`hermes_trio.testing.laws` has tests that every adapter must pass. It is imported separately, because it needs
pytest. Each name is imported when it is first used: every pytest loads this package for its plugin.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .lives import ClockNotVirtual as ClockNotVirtual
    from .lives import Life as Life
    from .lives import Lives as Lives
    from .lives import life as life
    from .loopback import LoopbackAdapter as LoopbackAdapter
    from .loopback_server import LoopbackServer as LoopbackServer
    from .loopback_server import open_loopback as open_loopback
    from .memory_platform import MemoryPlatform as MemoryPlatform
    from .script import Script as Script
    from .script import ScriptTurn as ScriptTurn
    from .script import perform as perform
    from .shown_chats import Shown as Shown
    from .shown_chats import ShownChat as ShownChat
    from .simulator import ConnectionCutter as ConnectionCutter
    from .simulator import in_background as in_background
    from .stage import Operation as Operation
    from .stage import Stage as Stage
    from .stage import WaitingEvent as WaitingEvent
    from .trial import trial_of as trial_of

__all__ = [
    "ClockNotVirtual",
    "ConnectionCutter",
    "Life",
    "Lives",
    "LoopbackAdapter",
    "LoopbackServer",
    "MemoryPlatform",
    "Operation",
    "Script",
    "ScriptTurn",
    "Shown",
    "ShownChat",
    "Stage",
    "WaitingEvent",
    "in_background",
    "life",
    "open_loopback",
    "perform",
    "trial_of",
]

_MODULES = {
    ".lives": ("ClockNotVirtual", "Life", "Lives", "life"),
    ".loopback": ("LoopbackAdapter",),
    ".loopback_server": ("LoopbackServer", "open_loopback"),
    ".memory_platform": ("MemoryPlatform",),
    ".script": ("Script", "ScriptTurn", "perform"),
    ".shown_chats": ("Shown", "ShownChat"),
    ".simulator": ("ConnectionCutter", "in_background"),
    ".stage": ("Operation", "Stage", "WaitingEvent"),
    ".trial": ("trial_of",),
}
_HOMES = {name: module for module, names in _MODULES.items() for name in names}


if not TYPE_CHECKING:  # a type checker would accept any name then

    def __getattr__(name: str) -> object:
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(import_module(_HOMES[name], __name__), name)


def __dir__() -> list[str]:
    return __all__
