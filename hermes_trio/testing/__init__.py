"""Names for those who test a gateway or an adapter: platforms whose people are driven by the test, and a
scripted agent.

    MemoryPlatform              platform in memory, on Trio's clock: for a gateway in the same process
    LoopbackAdapter             platform over TCP, the gateway's side
    open_loopback               platform over TCP, the test's side: for a gateway in a process of its own
    Stage, Shown, ShownChat     common part of all platforms for tests: people, chats, failures on demand
    Operation, WaitingEvent     calls of the gateway; events that it has not accepted
    ConnectionCutter, in_background     parts of a simulator of your own
    Script, perform, ScriptTurn         steps of the agent in a turn

`hermes_trio.testing.laws` has tests that every adapter must pass. It is imported separately, because it needs
pytest.
"""

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

__all__ = [
    "ConnectionCutter",
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
    "open_loopback",
    "perform",
]
