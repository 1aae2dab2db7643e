"""Signals to another process of ours."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def ask_to_stop(pid: int, *, announced: bool) -> None:
    """Send the signal that asks for a stop. One that no marker could announce is sent as the one that means
    a planned stop by itself. Where there is none that can be asked (Windows), the marker is found by the
    gateway within half a second."""
    if os.name == "posix":
        try:
            os.kill(pid, signal.SIGTERM if announced else signal.SIGINT)
        except ProcessLookupError:
            return  # it was quicker


def ask_to_restart(pid: int) -> bool:
    """Send the signal that asks for a restart. False where there is none (Windows); a marker asks too."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return True


def ask_for_tree(pid: int) -> bool:
    """Ask a gateway to write down its tree of tasks. False where a process cannot be asked (Windows). Only
    for one whose file of it is there: another program would die of it."""
    number = getattr(signal, "SIGUSR2", None)
    if number is None:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
