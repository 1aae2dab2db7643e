"""`hermes-trio link`: a new log-in link for the page of the running gateway."""

from __future__ import annotations

import click

from ..gateway_request import ask_gateway


@click.command()
def command() -> None:
    """Print a new log-in link for the page."""
    click.echo(ask_gateway("POST", "/api/admin/link")["link"])
