"""A program for tests that calls webhooks of this machine and gets the answers.

open_caller    run the program while inside
Caller         its chats, what it calls with, its troubles
"""

from .caller import Caller as Caller
from .caller import open_caller as open_caller

__all__ = ["Caller", "open_caller"]
