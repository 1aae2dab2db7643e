"""The page about the commands in a chat, made from their table."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_trio.platform import command_menu

from .markdown import code, table


def chat_commands() -> Iterator[str]:
    """Yield the lines of the page about the commands in a chat."""
    yield "# Commands in a chat\n"
    yield (
        "A command is obeyed at once, also while a turn runs. It is never sent to the model and is never "
        "repeated after a restart. `/help` lists the commands in the chat.\n"
    )
    yield from table(
        ("Command", "Effect"), ((code(f"/{name}"), effect) for name, effect in command_menu().items())
    )
