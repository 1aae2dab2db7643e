"""A Slack server on this machine, for tests of the adapter: a workspace with people whom a test drives.

open_slack       run the server over HTTP and WebSocket while inside
SlackServer      its channels, its people, its connections and the calls of the adapter
"""

from .slack_server import SlackServer as SlackServer
from .slack_server import open_slack as open_slack

__all__ = ["SlackServer", "open_slack"]
