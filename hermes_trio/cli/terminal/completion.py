"""Completion with the Tab key: commands at the beginning of a message, file names anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prompt_toolkit.completion import CompleteEvent, Completer, Completion, PathCompleter
from prompt_toolkit.document import Document

PATHS = ("/", "./", "../", "~")
"""Beginnings of a word that is a path. A word with a slash in it is one too."""


class MessageCompleter(Completer):
    """Completes the word before the cursor."""

    def __init__(self, commands: Mapping[str, str]) -> None:
        """`commands` are the names of the commands, without the slash, and their help."""
        self._commands = commands
        self._paths = PathCompleter(expanduser=True)

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterator[Completion]:
        """Yield the completions, sorted as the commands or the directory are."""
        before = document.text_before_cursor
        if is_command(before):
            for name, help_ in self._commands.items():
                if name.startswith(before[1:].lower()):
                    yield Completion(f"/{name}", start_position=-len(before), display_meta=help_)
        elif complete_event.completion_requested:
            word = before.rpartition(" ")[2].rpartition("\n")[2].removeprefix("@")
            if word.startswith(PATHS) or "/" in word:
                yield from self._paths.get_completions(Document(word), complete_event)


def is_command(text: str) -> bool:
    """Return whether the text is the beginning of a command's name."""
    return text.startswith("/") and (len(text) == 1 or text[1:].isalnum())
