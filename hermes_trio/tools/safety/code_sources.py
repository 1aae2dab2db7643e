"""The sources of the code that an interpreter runs: a file, its input, the output of other commands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from .command_line import UNKNOWN, ShellCommand, Word, known_output
from .command_tables import STDIN, is_fetched_or_decoded
from .verdict import FRESH, REMOTE, UNSEEN, Assessment

JudgeText = Callable[[str], None]
"""Judges a program text."""


def judge_input(assessment: Assessment, command: ShellCommand, judge_text: JudgeText) -> None:
    """Judge the code that a command reads from its input, if it stands in the command line."""
    source = known_output(command.source)
    if command.text_in is not None:
        judge_text(command.text_in)
    elif command.is_piped and source is not None and UNKNOWN not in source:
        judge_text(source)
    elif command.is_piped:
        assessment.ask(REMOTE)
    else:
        judge_output(
            assessment, [word for operator, word in command.redirects if "<" in operator], judge_text
        )


def judge_file(
    assessment: Assessment, words: Sequence[Word], command: ShellCommand, judge_text: JudgeText
) -> None:
    """Judge the run of the file with this name, which may stand for the command's input."""
    judge_output(assessment, words, judge_text)
    for word in words:
        if STDIN.fullmatch(word.text):
            judge_input(assessment, command, judge_text)
        elif assessment.resolve(word.text) in assessment.fresh:
            assessment.ask(FRESH)


def judge_output(assessment: Assessment, words: Sequence[Word], judge_text: JudgeText) -> None:
    """Judge the code in these words, where it is the output of other commands."""
    outputs = [known_output(one) for word in words for one in word.inner]
    known = [text for text in outputs if text is not None and UNKNOWN not in text]
    if is_fetched_or_decoded(words):
        assessment.ask(REMOTE)
    elif outputs and len(known) == len(outputs):
        judge_text("\n".join(known))
    elif len(outputs) > 1:
        assessment.ask(UNSEEN)
