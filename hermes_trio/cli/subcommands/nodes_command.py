"""`hermes-trio nodes`: the gateways that share the database of this home."""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict
from pathlib import Path

import click

from ...config.config_file import home_directory
from ...state.rules.ownership import NodeState, node_states
from ..home_reader import local_time, open_for_reading, print_table, store_of

BEATS = 5
"""A gateway that lives has stored something in this part of its lease."""


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def command(as_json: bool) -> None:
    """Print the gateways that share the database, and which of them live.

    A gateway lives if it stores something between two looks, for which the command waits.
    """
    home = home_directory(os.environ)
    store = store_of(home)
    if store.url is None:
        click.echo("[]" if as_json else "The database is a file in the home: its gateway is alone.")
        return
    before = {one.life: one.beat for one in _look(home)}
    time.sleep(store.lease / BEATS + 1)
    found = [(one, before.get(one.life) != one.beat) for one in _look(home)]
    if as_json:
        click.echo(json.dumps([{**asdict(one), "lives": lives} for one, lives in found], indent=2))
    elif not found:
        click.echo("No gateway uses the database.")
    else:
        rows = [_row(one, lives=lives) for one, lives in found]
        print_table(("NODE", "STATE", "SINCE", "CHATS", "ROLES"), rows, texts=(4, 0))


def _look(home: Path) -> list[NodeState]:
    with open_for_reading(home) as db:
        return node_states(db)


def _row(one: NodeState, *, lives: bool) -> tuple[str, ...]:
    state = "lives" if lives else "silent"
    return one.node, state, local_time(one.begun_at), str(one.chats), ", ".join(one.roles)
