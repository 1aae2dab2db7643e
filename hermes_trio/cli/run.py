"""`hermes-trio run`: what the gateway would run with, until there is a gateway to run."""

from __future__ import annotations

import click

from .. import __version__
from .config import load_and_warn, shown


@click.command()
def command() -> None:
    """Run the gateway."""
    loaded = load_and_warn()
    click.echo(f"hermes-trio {__version__}, home {loaded.path.parent}\n")
    click.echo(shown(loaded))
