"""A Discord server on this machine, for tests of the adapter: Discord with people that are driven by a test.

open_discord       run the server over HTTP and WebSocket while inside
DiscordServer      its channels, its people, its sessions and the calls of the adapter
"""

from .discord_server import DiscordServer as DiscordServer
from .discord_server import open_discord as open_discord

__all__ = ["DiscordServer", "open_discord"]
