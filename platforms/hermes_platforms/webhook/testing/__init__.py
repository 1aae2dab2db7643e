"""A program for tests that calls webhooks of this machine and gets the answers.

open_caller    run the program while inside
settings_for   the settings of a gateway that it calls
Caller         its chats, what it calls with, its troubles
"""

from .caller import Caller as Caller
from .caller import open_caller as open_caller
from .caller import settings_for as settings_for

__all__ = ["Caller", "open_caller", "settings_for"]
