"""What it takes to test a gateway, or a platform of one's own: platforms whose people are the test, and
an agent that does what it is told.

    MemoryPlatform      in memory, on Trio's clock: for a gateway in the same process
    open_loopback       over TCP: the test's side, for a gateway in a process of its own
    LoopbackAdapter     over TCP: the gateway's side
    Script, perform     what the agent does in a turn
    .laws               what every adapter keeps to, as stories; imported apart, for it needs pytest
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
from .stage import Operation as Operation
from .stage import Stage as Stage

__all__ = [
    "LoopbackAdapter",
    "LoopbackServer",
    "MemoryPlatform",
    "Operation",
    "Script",
    "ScriptTurn",
    "Shown",
    "ShownChat",
    "Stage",
    "open_loopback",
    "perform",
]
