"""What it takes to test a gateway, or a platform of one's own: platforms whose people are the test, and
an agent that does what it is told.

    MemoryPlatform      in memory, on Trio's clock: for a gateway in the same process
    open_loopback       over TCP: the test's side, for a gateway in a process of its own
    LoopbackAdapter     over TCP: the gateway's side
    open_bot_api        over HTTP: a Bot API server, as Telegram's, for an adapter of it
    Script, perform     what the agent does in a turn
    .laws               what every adapter keeps to, as stories; imported apart, for it needs pytest
"""

from .agent import Script as Script
from .agent import Turn as Turn
from .agent import perform as perform
from .bot_api import BotApi as BotApi
from .bot_api import open_bot_api as open_bot_api
from .bot_api_methods import ApiError as ApiError
from .chats import Chat as Chat
from .chats import Shown as Shown
from .loopback import LoopbackAdapter as LoopbackAdapter
from .loopback_server import LoopbackServer as LoopbackServer
from .loopback_server import open_loopback as open_loopback
from .memory import MemoryPlatform as MemoryPlatform
from .stage import Operation as Operation
from .stage import Stage as Stage

__all__ = [
    "ApiError",
    "BotApi",
    "Chat",
    "LoopbackAdapter",
    "LoopbackServer",
    "MemoryPlatform",
    "Operation",
    "Script",
    "Shown",
    "Stage",
    "Turn",
    "open_bot_api",
    "open_loopback",
    "perform",
]
