"""The users of the corpus: this process acts as one of them, and starts programs as one of them."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

NOBODY = 65534
PR_SET_DUMPABLE = 4


def identity(user: int) -> dict[str, Any]:
    """Return the arguments of `subprocess` that start a program as a user, where this process is root's."""
    return {"user": user, "group": user, "extra_groups": []} if os.getuid() == 0 else {}


@contextmanager
def acting_as(user: int) -> Iterator[None]:
    """Act with the rights of a user, where this process is root's."""
    if os.getuid() != 0 or user == 0:
        yield
        return
    os.setegid(user)
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 1, 0, 0, 0)  # a change of the user ends it
