"""`hermes-trio link`: a new log-in link for the page of the running gateway."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from ...base.errors import GatewayError
from ...base.tls import httpx
from ...config.config_file import home_directory
from ...host.home.home_lock import is_locked
from ...host.home.state_file import read_status
from ...host.processes.process_identity import is_alive
from ...web.http.auth import web_key
from .config_command import load_and_warn

TIMEOUT = 10.0
"""Seconds for the answer of the gateway."""


class NoLink(GatewayError):
    """No gateway runs, or the running gateway gives no link."""


class _Answer(msgspec.Struct, frozen=True):
    link: str


@click.command()
def command() -> None:
    """Print a new log-in link for the page."""
    home = home_directory(os.environ)
    address = _address(home)
    key = web_key(home, load_and_warn().config.web)
    try:
        # The key must not go through a proxy of the environment.
        with httpx.Client(trust_env=False, timeout=TIMEOUT) as http:
            answer = http.post(f"{address}/api/admin/link", headers={"Authorization": f"Bearer {key}"})
    except httpx.HTTPError as error:
        raise NoLink(f"the gateway does not answer at {address} ({error}). Read its log.") from error
    if answer.status_code == httpx.codes.UNAUTHORIZED:
        raise NoLink("the key was changed after the start of the gateway. Run `hermes-trio restart`.")
    if not answer.is_success:
        raise NoLink(f"the gateway gave no link ({answer.status_code}). Try again in a minute.")
    click.echo(msgspec.json.decode(answer.content, type=_Answer).link)


def _address(home: Path) -> str:
    """Return the address of the gateway of this home. Raise `NoLink` if there is none."""
    status = read_status(home) if is_locked(home) else None
    if status is None or not is_alive(status.process):
        raise NoLink("no gateway is running. `hermes-trio run` starts one and prints a link.")
    if status.web is None:
        raise NoLink(
            "the gateway has no page: it is starting or ending, or runs inside another program. "
            "Run `hermes-trio status`."
        )
    return status.web
