"""A home server of Matrix on this machine, for tests of the adapter, with people that are driven by a test.

open_home_server   run the server over HTTP while inside
HomeServer         its rooms, its people and the calls of the adapter
"""

from .home_server import HomeServer as HomeServer
from .home_server import open_home_server as open_home_server

__all__ = ["HomeServer", "open_home_server"]
