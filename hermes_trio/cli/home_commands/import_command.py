"""`hermes-trio import`: move in from a home of hermes-agent."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...base.world import World
from ...config.config_file import home_directory
from ..home_reader import one_line
from .original_move import move


@click.command()
@click.argument(
    "source", type=click.Path(path_type=Path, file_okay=False, resolve_path=True), default="~/.hermes"
)
@click.option("--dry-run", is_flag=True, help="Print what would be taken and left, and change nothing.")
def command(source: Path, dry_run: bool) -> None:
    """Move in from a home of hermes-agent: conversations, people, notes, settings.

    SOURCE is its directory, ~/.hermes if it is not named. It stays as it is. A second import takes only the
    conversations that are new.
    """
    home = home_directory(os.environ)
    items = move(source.expanduser().absolute(), home, os.environ, World(), dry=dry_run)
    for item in items:
        reason = f": {item.reason}" if item.reason else ""
        click.echo(f"{item.verdict:8} {one_line(item.text + reason, 400)}")
    refused = [item for item in items if item.verdict == "refused"]
    if refused:
        click.echo(f"Before the first start decide about what is refused, in {home / 'config.yaml'}.")
    elif dry_run:
        click.echo("Nothing was changed. Without --dry-run what is taken is imported.")
    else:
        click.echo("Two programs must not use one bot: stop hermes-agent before you start the gateway.")
        click.echo("Next: hermes-trio doctor")
