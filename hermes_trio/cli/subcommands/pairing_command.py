"""`hermes-trio pairing`: who asks to talk to the agent, and who may.

It works on the database itself, whether or not a gateway runs; a running one asks there at the next
message of the person, so nothing has to be restarted or told.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from datetime import datetime
from pathlib import Path

import click

from ...base.errors import GatewayError
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory
from ...state.tables import pairing
from ...state.tables.pairing import Person, WrongCode
from ..home_reader import reading


class NotDone(GatewayError):
    """Nobody was let in, or nothing was taken back."""


@click.group(no_args_is_help=True)
def command() -> None:
    """Let people in who ask for it, and take that back."""


@command.command("list")
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
def list_(as_json: bool) -> None:
    """Say who waits for an answer, and who was let in."""
    home, now = home_directory(os.environ), World().time()
    waiting: list[Person] = []
    paired: list[Person] = []
    if (home / "gateway.db").exists():
        with reading(home) as db:
            waiting, paired = pairing.waiting(db, now), pairing.all_paired(db)
    if as_json:
        report = {"waiting": list(map(asdict, waiting)), "paired": list(map(asdict, paired))}
        click.echo(json.dumps(report, indent=2))
        return
    for person in waiting:
        left = person.at + pairing.VALID - now
        click.echo(
            f"waiting  {_named(person)}; the code counts for {counted(round(left / 60), 'more minute')}"
        )
    for person in paired:
        click.echo(f"paired   {_named(person)}; since {_day(person.at)}")
    if not waiting and not paired:
        click.echo("Nobody waits, and nobody was let in by a code.")


@command.command()
@click.argument("code")
def approve(code: str) -> None:
    """Let in the person who was shown this code."""
    with pairing.deciding(_database()) as db:
        answer = pairing.approve(db, code.strip().upper(), World().time())
    if isinstance(answer, WrongCode):
        raise NotDone(_refusal(answer))
    click.echo(f"Let in: {_named(answer)}. They have to write again what they wrote before.")


@command.command()
@click.argument("platform")
@click.argument("user")
def revoke(platform: str, user: str) -> None:
    """Let a person in no longer.

    `list` shows the PLATFORM and the USER.
    """
    with pairing.deciding(_database()) as db:
        if not pairing.revoke(db, platform, user):
            raise NotDone(
                f"{_plain(platform)} {_plain(user)} was not let in by a code; `hermes-trio pairing list` "
                "shows who was. Whom config.yaml lets in, it has to let in no longer."
            )
    click.echo(f"Not let in any more: {_plain(platform)} {_plain(user)}.")


def _database() -> Path:
    """Where the database is, which is never made here."""
    path = home_directory(os.environ) / "gateway.db"
    if not path.exists():
        raise NotDone(f"No gateway has run in {path.parent}, so nobody has asked. Is HERMES_HOME right?")
    return path


def _attempts(count: int) -> str:
    return f"{counted(count, 'attempt')} {'is' if count == 1 else 'are'}"


def _refusal(wrong: WrongCode) -> str:
    if wrong.locked_until is None:
        return (
            f"Nobody was shown that code, or it is too old. {_attempts(wrong.attempts_left)} left; "
            "`hermes-trio pairing list` shows who waits."
        )
    until = datetime.fromtimestamp(wrong.locked_until).astimezone()
    return f"Too many wrong codes: none counts, right or wrong, until {until:%Y-%m-%d %H:%M:%S %z}."


def _named(person: Person) -> str:
    name = f" ({_plain(person.user_name)})" if person.user_name else ""
    return f"{_plain(person.platform)} {_plain(person.user_id)}{name}"


def _plain(text: str) -> str:
    # Strangers choose their names, and what cannot be printed may be a command to the terminal.
    return text if text.isprintable() else ascii(text)


def _day(at: float) -> str:
    return f"{datetime.fromtimestamp(at).astimezone():%Y-%m-%d}"
