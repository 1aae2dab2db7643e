"""An IRC server on this machine, for tests of the adapter: a network with people that are driven by a test.

open_irc_server     run the server while inside
IrcServer           its chats, its people, its troubles
MODERN, OLD         capabilities of a server with all that the adapter uses, and of one without any
"""

from .irc_server import IrcServer as IrcServer
from .irc_server import open_irc_server as open_irc_server
from .irc_state import MODERN as MODERN
from .irc_state import OLD as OLD

__all__ = ["MODERN", "OLD", "IrcServer", "open_irc_server"]
