"""`hermes-trio restore`: make a home from a backup."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory
from ...state.backup.restored_home import restore


@click.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option(
    "--to",
    type=click.Path(path_type=Path, resolve_path=True),
    help="Directory that becomes the home: a new one, or an empty one. Default: the home.",
)
def command(file: Path, to: Path | None) -> None:
    """Make a home from a backup.

    The backup is checked before the home exists. A home with anything in it is never touched.
    """
    restored = restore(file, to or home_directory(os.environ), World())
    manifest = restored.manifest
    made = f"{manifest.made_at.astimezone():%Y-%m-%d %H:%M:%S}"
    click.echo(f"{restored.home}: {counted(restored.sessions, 'session')}, as of {made}")
    if restored.dropped is not None:
        dropped = restored.dropped
        click.echo(
            f"The gateway went on after the backup, so what was under way then is not done again: "
            f"{counted(dropped.turns, 'turn')}, {counted(dropped.messages, 'waiting message')}, "
            f"{counted(dropped.deliveries, 'owed message')}."
        )
    if not manifest.with_secrets:
        click.echo("The backup has no secrets. The key of the API is made anew at the next start.")
    if manifest.variables:
        click.echo(f"Set these variables in {restored.home / '.env'}: {', '.join(manifest.variables)}.")
    place = f"HERMES_HOME='{restored.home}' " if to is not None else ""
    click.echo(f"Next: {place}hermes-trio doctor")
