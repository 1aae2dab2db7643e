"""Signals to another gateway process."""

from __future__ import annotations

import os
import signal
from contextlib import suppress


def ask_to_stop(pid: int, *, announced: bool) -> None:
    """Send the signal that asks for a stop. Where no marker file announces it, send the signal that means a
    planned stop without one. On Windows send none: the gateway finds the marker within half a second."""
    if os.name == "posix":
        try:
            os.kill(pid, signal.SIGTERM if announced else signal.SIGINT)
        except ProcessLookupError:
            return  # it has ended already


def ask_to_restart(pid: int) -> bool:
    """Send the signal that asks for a restart. Return False where there is none (Windows); there a marker
    file asks for it."""
    number = getattr(signal, "SIGUSR1", None)
    if number is None:
        return False
    with suppress(ProcessLookupError):
        os.kill(pid, number)
    return True


def ask_for_tree(pid: int) -> bool:
    """Ask a gateway to write its task tree to its file. Return False if it has ended or the system has no
    such signal (Windows). Call this only while that file exists: the signal ends a program that does not
    expect it."""
    number = getattr(signal, "SIGUSR2", None)
    if number is None:
        return False
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
