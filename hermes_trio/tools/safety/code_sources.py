"""What an interpreter is given to run: a file, what it reads, what other commands make for it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .command_line import UNKNOWN, Command, Word, known_output
from .command_tables import STDIN, brings
from .verdict import FRESH, REMOTE, UNSEEN, Found

Look = Callable[[str], None]
"""Looks through a program text."""


def reads_code(found: Found, command: Command, look: Look) -> None:
    """Something runs what it reads: that is looked through, if it stands in the line."""
    source = known_output(command.source)
    if command.text_in is not None:
        look(command.text_in)
    elif command.is_piped and source is not None and UNKNOWN not in source:
        look(source)
    elif command.is_piped:
        found.ask(REMOTE)
    else:
        reads_output(found, [word for operator, word in command.redirects if "<" in operator], look)


def run_file(found: Found, words: Sequence[Word], command: Command, look: Look) -> None:
    """Something runs the file of this name, which may be what it reads."""
    reads_output(found, words, look)
    for word in words:
        if STDIN.fullmatch(word.text):
            reads_code(found, command, look)
        elif found.resolved(word.text) in found.fresh:
            found.ask(FRESH)


def reads_output(found: Found, words: Sequence[Word], look: Look) -> None:
    """Something runs what stands in these words, where other commands make that."""
    made = [known_output(one) for word in words for one in word.inner]
    known = [text for text in made if text is not None and UNKNOWN not in text]
    if brings(words):
        found.ask(REMOTE)
    elif made and len(known) == len(made):
        look("\n".join(known))
    elif len(made) > 1:
        found.ask(UNSEEN)
