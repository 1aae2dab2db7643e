"""The messages that were typed before, for the up and down keys and for Ctrl-R.

A line of the file is a JSON string, the oldest first. Only the owner can read it. Very long messages are not
kept, and the file is shortened when it is opened.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit.history import History

from ...host.files.private_files import open_private

FILE = "terminal_history"
MOST, LONGEST = 1000, 10_000
"""Messages that are kept, and characters of the longest one."""


class TypedHistory(History):
    """The history in a file. A file that cannot be used costs the history, and nothing else."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self._path = path

    def load_history_strings(self) -> Iterable[str]:
        """Return the messages, the newest first."""
        try:
            with open(open_private(self._path, os.O_RDONLY), encoding="utf-8", errors="replace") as file:
                lines = file.read().splitlines()
            if len(lines) > 2 * MOST:
                del lines[:-MOST]
                self._write("".join(f"{line}\n" for line in lines), os.O_TRUNC)
        except OSError:
            return []
        return list(dict.fromkeys(text for line in reversed(lines) if (text := _text(line))))

    def store_string(self, string: str) -> None:
        """Add a message."""
        if string.strip() and len(string) <= LONGEST:
            try:
                self._write(json.dumps(string) + "\n", os.O_APPEND)
            except OSError:
                return

    def _write(self, text: str, how: int) -> None:
        with open(open_private(self._path, os.O_WRONLY | how), "w", encoding="utf-8") as file:
            file.write(text)


def _text(line: str) -> str:
    """Return the message of a line; an empty text if the line is damaged."""
    try:
        text = json.loads(line)
    except (ValueError, RecursionError):
        return ""
    return text if isinstance(text, str) else ""
