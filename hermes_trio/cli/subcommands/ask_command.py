"""`hermes-trio ask`: one question, its answer, and an exit code."""

from __future__ import annotations

import sys

import click

from ...base.errors import GatewayError
from .chat_command import ask_once


@click.command()
@click.argument("question", nargs=-1)
@click.option("--session", metavar="ID", help="Ask in this session.")
@click.option("--continue", "goes_on", is_flag=True, help="Ask in the last session of a terminal.")
def command(question: tuple[str, ...], session: str | None, goes_on: bool) -> None:
    """Ask one question, and print the answer.

    A text from a pipe is added to the question: `git diff | hermes-trio ask "What does this change?"`. The
    exit code is 0 if there is an answer, else 1. The running gateway answers, or one that ends with the
    command.
    """
    from ..terminal.one_question import piped_text

    piped = piped_text(sys.stdin.fileno()) if sys.stdin is not None else ""
    text = "\n\n".join(part for part in (" ".join(question), piped) if part.strip())
    if not text:
        raise GatewayError('There is no question. Write one: `hermes-trio ask "How large is this folder?"`.')
    ask_once(text, session, goes_on=goes_on)
