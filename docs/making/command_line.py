"""The page about the command line, made from the commands."""

from __future__ import annotations

from collections.abc import Iterator

import click

from hermes_trio.cli import main

from .markdown import code, escaped, table


def command_line() -> Iterator[str]:
    """Yield the lines of the page about the command line."""
    yield "# Command line\n"
    yield (
        "`hermes-trio` is also `python -m hermes_trio`. Every command takes `--help`. Commands read "
        "`HERMES_HOME`, and use `~/.hermes-trio` if it is not set.\n"
    )
    context = click.Context(main, info_name="hermes-trio")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None  # noqa: S101 - it is in the list
        yield from _command(command, f"hermes-trio {name}", context)


def _command(command: click.Command, path: str, parent: click.Context) -> Iterator[str]:
    """Yield a command, and each command of a group after it. Hidden ones are left out."""
    if command.hidden:
        return
    context = click.Context(command, info_name=path.rpartition(" ")[2], parent=parent)
    yield f"{'##' if path.count(' ') == 1 else '###'} {path}\n"
    yield f"{_help(command)}\n"
    if not isinstance(command, click.Group):
        yield f"```text\n{path} {' '.join(command.collect_usage_pieces(context))}\n```\n"
    options = [each for each in command.params if isinstance(each, click.Option) and not each.hidden]
    yield from table(
        ("Option", "Meaning"),
        ((code(_spelling(each, context)), escaped(each.help or "")) for each in options),
    )
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None  # noqa: S101 - it is in the list
            yield from _command(inner, f"{path} {name}", context)


def _help(command: click.Command) -> str:
    """Return the help of a command as paragraphs."""
    paragraphs = (" ".join(part.split()) for part in (command.help or "").split("\n\n"))
    return escaped("\n\n".join(paragraphs))


def _spelling(option: click.Option, context: click.Context) -> str:
    record = option.get_help_record(context)
    return record[0] if record else ", ".join(option.opts)
