"""The command line: one file per command group, imported when its command runs.

`--help` therefore imports click and nothing else; what it says about each command stands here.
"""

from __future__ import annotations

import sys
from importlib import import_module
from io import TextIOWrapper
from typing import Any

import click

from .. import __version__
from ..errors import GatewayError

_COMMANDS = {
    "chat": ("hermes_trio.cli.chat", "Talk to the agent in this terminal."),
    "run": ("hermes_trio.cli.run", "Run the gateway."),
    "stop": ("hermes_trio.cli.stop", "Stop the gateway, and wait until it has stopped."),
    "status": ("hermes_trio.cli.status", "Say what the gateway is doing."),
    "config": ("hermes_trio.cli.config", "Look at the configuration, and check it."),
}


class _Commands(click.Group):
    """The commands by name, each in its module as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        command: click.Command = import_module(_COMMANDS[cmd_name][0]).command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, help_) for name, (_, help_) in _COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except GatewayError as error:
            click.echo(f"error: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="hermes-trio", message="%(prog)s %(version)s")
def main() -> None:
    """Talk to an AI agent from the chats you already use."""
    # A terminal that knows few characters shows an escape instead of ending us with a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
