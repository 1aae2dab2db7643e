"""The manual page of the command line, in the markup of `man`, made from the commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hermes_trio.cli import main

_EXITS = {
    0: "Success.",
    1: "A failure; the message has a remedy.",
    2: "A wrong argument.",
    75: "The gateway asks to be started again.",
    78: "A mistake in the configuration or in the home: another start would fail too.",
}


def man_page() -> Iterator[str]:
    """Yield the lines of the manual page."""
    yield '.TH HERMES\\-TRIO 1 "" "hermes\\-trio" "User Commands"'
    yield from (".SH NAME", "hermes\\-trio \\- talk to an AI agent from the chats you already use")
    yield from (".SH SYNOPSIS", ".B hermes\\-trio", ".I COMMAND", "[\\fIOPTIONS\\fR] [\\fIARGUMENTS\\fR]")
    yield ".SH COMMANDS"
    context = click.Context(main, info_name="hermes-trio")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None  # noqa: S101 - it is in the list
        yield from _command(command, f"hermes-trio {name}", context)
    yield from (".SH ENVIRONMENT", ".TP", ".B HERMES_HOME")
    yield _text("The directory with everything of a gateway. Default: ~/.hermes-trio")
    yield ".SH EXIT STATUS"
    for code, meaning in _EXITS.items():
        yield from (".TP", f".B {code}", meaning)


def _command(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    """Yield a command, and each command of a group after it. Hidden ones are left out."""
    if command.hidden:
        return
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    usage = " ".join([path, *command.collect_usage_pieces(context)])
    yield f'.SS "{_text(usage)}"'
    paragraphs = (" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    yield "\n.PP\n".join(map(_text, paragraphs))
    for option in command.params:
        record = option.get_help_record(context) if isinstance(option, click.Option) else None
        if record is not None:
            yield from (".TP", f".B {_text(record[0])}", _text(record[1]))
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None  # noqa: S101 - it is in the list
            yield from _command(inner, f"{path} {name}", context)


def _text(text: str) -> str:
    """Return a text in which no character has a meaning for `man`."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace('"', "\\(dq").replace("`", "")
    return f"\\&{plain}" if plain[:1] in (".", "'") else plain
