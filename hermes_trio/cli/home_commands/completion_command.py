"""`hermes-trio completion`: the script with which a shell completes our commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

VARIABLE = "_HERMES_TRIO_COMPLETE"
"""The variable by which the script asks for completions; click derives it from the name of the program."""


@click.command()
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def command(context: click.Context, shell: str) -> None:
    """Print the script that completes commands and options in a shell.

    For bash put `eval "$(hermes-trio completion bash)"` into ~/.bashrc, for zsh the same with zsh into
    ~/.zshrc. For fish write the output to ~/.config/fish/completions/hermes-trio.fish.
    """
    kind = get_completion_class(shell)
    assert kind is not None  # noqa: S101 - click has these three
    click.echo(kind(context.find_root().command, {}, "hermes-trio", VARIABLE).source())
