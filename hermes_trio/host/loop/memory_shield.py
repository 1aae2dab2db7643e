"""Closing the memory of this process to others of the same account.

A command that runs without a sandbox could otherwise read the keys in our memory and environment, or trace
us. A child process that starts another program is open again. Root may still look.
"""

from __future__ import annotations

import ctypes
import sys

_PR_SET_DUMPABLE = 4


def close_memory() -> None:
    """Let no other process of this account read or trace this one, and write no core dump. Linux only."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
