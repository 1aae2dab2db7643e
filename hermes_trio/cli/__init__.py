"""The command line: one file per command group, imported when its command runs.

`--help` therefore imports click and nothing else; what it says about each command stands here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from .. import __version__
from ..base.errors import ConfigInvalid, GatewayError
from .terminal_output import visible, visible_output

_COMMANDS = {
    "chat": "Talk to the agent in this terminal.",
    "run": "Run the gateway.",
    "stop": "Stop the gateway, and wait until it has stopped.",
    "restart": "Restart the gateway, and wait until it is back.",
    "status": "Say what the gateway is doing.",
    "link": "Print a new link that lets a browser in to the page.",
    "drain": "Begin nothing new and let what runs end, as before work on the machine.",
    "pairing": "Let people in who ask for it, and take that back.",
    "service": "Have systemd or launchd run the gateway.",
    "doctor": "Look for what is wrong, and say what to do about it.",
    "sessions": "Look at the conversations, take them along, delete one.",
    "journal": "Look at what was shown of each answer, and check it.",
    "setup": "Answer a few questions, and be ready to start.",
    "config": "Look at the configuration, and check it.",
}


class _Commands(click.Group):
    """The commands by name, each in its module as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        module = import_module(f".subcommands.{cmd_name}_command", __name__)
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # No command takes a path, and what is no text can neither be looked up nor told.
        for arg in args:
            if any("\ud800" <= c <= "\udfff" for c in arg):
                raise click.UsageError(f"{arg!r} is no text in UTF-8.", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        errors: list[GatewayError] = []
        try:
            return super().invoke(ctx)
        except* GatewayError as group:  # out of a tree of tasks, or bare
            errors = list(_single(group))
        for error in errors:
            for each in error.findings if isinstance(error, ConfigInvalid) else [error]:
                click.echo(visible(f"error: {each}"), err=True)
        raise click.exceptions.Exit(errors[0].exit_code)


def _single(group: BaseExceptionGroup[GatewayError]) -> Iterator[GatewayError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _single(error)
        else:
            yield error


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hermes-trio", message="%(prog)s %(version)s")
@click.pass_context
def main(ctx: click.Context) -> None:
    """Talk to an AI agent from the chats you already use."""
    # A terminal that knows few characters shows an escape instead of ending us with a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand != "chat":  # which draws the line that is typed, and escapes the answers itself
        ctx.with_resource(visible_output())
