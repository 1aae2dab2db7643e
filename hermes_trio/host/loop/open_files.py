"""What this process may use."""

from __future__ import annotations

import sys
from contextlib import suppress

if sys.platform == "win32":  # pragma: no cover - it has no such limit

    def raise_open_files() -> None:
        pass

    def most_open_files() -> int | None:
        return None

else:
    import resource

    def raise_open_files() -> None:
        """Let this process open as many files as it is allowed to ask for. The usual 1024 are few where
        each chat, run and command has some of its own."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # macOS names a limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def most_open_files() -> int | None:
        """How many files this process may have open; None where there is no limit."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft
