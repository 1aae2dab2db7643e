"""The limit of open files of this process."""

from __future__ import annotations

import sys
from contextlib import suppress

if sys.platform == "win32":  # pragma: no cover - Windows has no such limit

    def raise_open_files() -> None:
        pass

    def most_open_files() -> int | None:
        return None

else:
    import resource

    def raise_open_files() -> None:
        """Raise the limit of open files to the highest value that this process may set. The usual 1024 are
        few: each chat, run and command needs some."""
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        with suppress(OSError, ValueError):  # macOS reports a limit that it does not grant
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))

    def most_open_files() -> int | None:
        """Return the number of files that this process may have open; None where there is no limit."""
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        return None if soft == resource.RLIM_INFINITY else soft
