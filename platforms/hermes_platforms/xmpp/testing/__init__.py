"""An XMPP server on this machine, for tests of the adapter: people who write to its account, driven by a
test.

open_xmpp_server     run the server while inside
XmppServer           its account, its people and what was sent to them
"""

from .xmpp_server import XmppServer as XmppServer
from .xmpp_server import open_xmpp_server as open_xmpp_server

__all__ = ["XmppServer", "open_xmpp_server"]
