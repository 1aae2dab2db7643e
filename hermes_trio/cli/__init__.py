"""The command line. Each command is a module that is imported when the command runs.

`--help` therefore imports only click; its line about each command stands here.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from importlib import import_module
from io import TextIOWrapper
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..base.errors import ConfigInvalid, GatewayError
from .terminal_output import visible, visible_output

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

_COMMANDS = {
    "chat": "Talk to the agent in this terminal.",
    "ask": "Ask one question, and print the answer.",
    "run": "Run the gateway.",
    "stop": "Stop the gateway, and wait until it has stopped.",
    "restart": "Restart the gateway, and wait until it is back.",
    "status": "Print the state of the gateway.",
    "nodes": "Print the gateways that share the database, and which of them live.",
    "link": "Print a new log-in link for the page.",
    "drain": "Begin no new turns, and let running ones end, for example before maintenance.",
    "pairing": "Approve people who ask to talk to the agent, and revoke approvals.",
    "service": "Run the gateway as a service of systemd or launchd.",
    "doctor": "Look for problems, and print a remedy for each.",
    "schedule": "List reminders and repeated tasks, and change them.",
    "skills": "List, print, add and check the agent's skills.",
    "prompt": "Print what a request to the model begins with, and how long each part is.",
    "sessions": "List, print, export or delete conversations.",
    "journal": "Print the run journals, and check them.",
    "logs": "Print the log of the gateway.",
    "backup": "Back up the home, also while the gateway runs.",
    "restore": "Make a home from a backup.",
    "db": "Move the store of a home to a server, and back.",
    "import": "Move in from a home of hermes-agent.",
    "setup": "Set up the model and a platform with a few questions.",
    "config": "Print the configuration, and check it.",
    "completion": "Print the script that completes commands in a shell.",
}
_OF_A_HOME = (
    "skills",
    "prompt",
    "sessions",
    "journal",
    "logs",
    "backup",
    "restore",
    "db",
    "import",
    "completion",
)
"""The commands in `home_commands`; all others are in `subcommands`."""


class _Commands(click.Group):
    """The commands by name. The module of each command has it as `command`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            return None
        room = "home_commands" if cmd_name in _OF_A_HOME else "subcommands"
        module = import_module(f".{room}.{cmd_name}_command", __name__)
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem  # imported here: no other use of a command needs it

        # The base class would import every command for its help.
        fitting = {name: text for name, text in _COMMANDS.items() if name.startswith(incomplete)}
        found = [CompletionItem(name, help=text) for name, text in fitting.items()]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        # An argument that is no valid text can be neither looked up nor printed.
        for arg in args:
            if any("\ud800" <= c <= "\udfff" for c in arg):
                raise click.UsageError(f"{arg!r} is not valid UTF-8.", ctx)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> Any:
        errors: list[GatewayError] = []
        try:
            return super().invoke(ctx)
        except* GatewayError as group:  # raised alone, or in a group by a tree of tasks
            errors = list(_single(group))
        for error in errors:
            for each in error.findings if isinstance(error, ConfigInvalid) else [error]:
                click.echo(visible(f"error: {each}"), err=True)
        raise click.exceptions.Exit(errors[0].exit_code)


def _single(group: BaseExceptionGroup[GatewayError]) -> Iterator[GatewayError]:
    """Yield each error of a group, also of groups inside it."""
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
    # A terminal with a small character set gets an escape instead of a traceback.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    if ctx.invoked_subcommand not in ("chat", "ask"):  # they draw, and escape the answers themselves
        ctx.with_resource(visible_output())
