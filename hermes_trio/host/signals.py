"""Telling another process of ours to stop."""

from __future__ import annotations

import os
import signal


def ask_to_stop(pid: int) -> None:
    """Send the signal that asks for a stop. Where there is none that can be asked (Windows), the marker
    that was written before is found by the gateway within half a second."""
    if os.name == "posix":
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:
            return  # it was quicker
