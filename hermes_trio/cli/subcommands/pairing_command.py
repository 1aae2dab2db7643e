"""`hermes-trio pairing`: approve people who ask to talk to the agent, and revoke approvals.

The command changes the database, whether a gateway runs or not. A running gateway reads it at the next
message of the person, so no restart is needed.
"""

from __future__ import annotations

import json
import os
from contextlib import AbstractContextManager
from dataclasses import asdict
from datetime import datetime

import click

from ...base.errors import GatewayError
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory
from ...state.chosen_store import DATABASE, server_of
from ...state.db.engine import Db
from ...state.tables import pairing
from ...state.tables.pairing import Person, WrongCode
from ..home_reader import may_have_messages, open_for_reading, store_of


class NotDone(GatewayError):
    """Nobody was approved, or no approval was revoked."""


@click.group(no_args_is_help=True)
def command() -> None:
    """Approve people who ask to talk to the agent, and revoke approvals."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def list_(as_json: bool) -> None:
    """List the people who wait for approval, and those who were approved."""
    home, now = home_directory(os.environ), World().time()
    waiting: list[Person] = []
    paired: list[Person] = []
    if may_have_messages(home):
        with open_for_reading(home) as db:
            waiting, paired = pairing.waiting(db, now), pairing.all_paired(db)
    if as_json:
        report = {"waiting": list(map(asdict, waiting)), "paired": list(map(asdict, paired))}
        click.echo(json.dumps(report, indent=2))
        return
    for person in waiting:
        left = person.at + pairing.VALID - now
        click.echo(
            f"waiting  {_named(person)}; the code is valid for {counted(round(left / 60), 'more minute')}"
        )
    for person in paired:
        click.echo(f"paired   {_named(person)}; since {_day(person.at)}")
    if not waiting and not paired:
        click.echo("Nobody waits, and nobody was approved.")


@command.command()
@click.argument("code")
def approve(code: str) -> None:
    """Approve the person who got this code."""
    with _deciding() as db:
        answer = pairing.approve(db, code.strip().upper(), World().time())
    if isinstance(answer, WrongCode):
        raise NotDone(_refusal(answer))
    click.echo(f"Approved: {_named(answer)}. They have to send their message again.")


@command.command()
@click.argument("platform")
@click.argument("user")
def revoke(platform: str, user: str) -> None:
    """Revoke the approval of a person.

    `list` shows the PLATFORM and the USER.
    """
    with _deciding() as db:
        if not pairing.revoke(db, platform, user):
            raise NotDone(
                f"{_plain(platform)} {_plain(user)} was not approved by a code; `hermes-trio pairing list` "
                "shows all approvals. Remove a person of `allow_from` from config.yaml."
            )
    click.echo(f"Revoked: {_plain(platform)} {_plain(user)}.")


def _deciding() -> AbstractContextManager[Db]:
    """Open a transaction of the owner. The store is never made here."""
    home = home_directory(os.environ)
    server = server_of(store_of(home))
    if server is not None:
        from ...state.postgres.single_transaction import transaction  # psycopg may be missing

        return transaction(server, writes=True)
    path = home / DATABASE
    if not path.exists():
        raise NotDone(f"No gateway has run in {home}, so nobody has asked. Check HERMES_HOME.")
    return pairing.deciding(path)


def _attempts(count: int) -> str:
    return f"{counted(count, 'attempt')} {'is' if count == 1 else 'are'}"


def _refusal(wrong: WrongCode) -> str:
    if wrong.locked_until is None:
        return (
            f"The code is wrong or too old. {_attempts(wrong.attempts_left)} left; "
            "`hermes-trio pairing list` shows the people who wait."
        )
    until = datetime.fromtimestamp(wrong.locked_until).astimezone()
    return f"Too many wrong codes: no code is accepted until {until:%Y-%m-%d %H:%M:%S %z}."


def _named(person: Person) -> str:
    name = f" ({_plain(person.user_name)})" if person.user_name else ""
    return f"{_plain(person.platform)} {_plain(person.user_id)}{name}"


def _plain(text: str) -> str:
    # Strangers choose their names, and a character that is not printable may control the terminal.
    return text if text.isprintable() else ascii(text)


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"
