"""The sources of the code that an interpreter runs: a file, its input, the output of other commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .command_line import UNKNOWN, ShellCommand, Word, known_output
from .command_tables import STDIN, brings
from .verdict import FRESH, REMOTE, UNSEEN, Assessment

Look = Callable[[str], None]
"""Judges a program text."""


def reads_code(assessment: Assessment, command: ShellCommand, look: Look) -> None:
    """Judge the code that a command reads from its input, if it stands in the command line."""
    source = known_output(command.source)
    if command.text_in is not None:
        look(command.text_in)
    elif command.is_piped and source is not None and UNKNOWN not in source:
        look(source)
    elif command.is_piped:
        assessment.ask(REMOTE)
    else:
        reads_output(assessment, [word for operator, word in command.redirects if "<" in operator], look)


def run_file(assessment: Assessment, words: Sequence[Word], command: ShellCommand, look: Look) -> None:
    """Judge the run of the file with this name, which may stand for the command's input."""
    reads_output(assessment, words, look)
    for word in words:
        if STDIN.fullmatch(word.text):
            reads_code(assessment, command, look)
        elif assessment.resolve(word.text) in assessment.fresh:
            assessment.ask(FRESH)


def reads_output(assessment: Assessment, words: Sequence[Word], look: Look) -> None:
    """Judge the code in these words, where it is the output of other commands."""
    outputs = [known_output(one) for word in words for one in word.inner]
    known = [text for text in outputs if text is not None and UNKNOWN not in text]
    if brings(words):
        assessment.ask(REMOTE)
    elif outputs and len(known) == len(outputs):
        look("\n".join(known))
    elif len(outputs) > 1:
        assessment.ask(UNSEEN)
