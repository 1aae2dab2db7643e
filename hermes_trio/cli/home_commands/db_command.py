"""`hermes-trio db copy`: move the store of a home to a server, and back."""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path

import click

from ...base.errors import ConfigInvalid
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory
from ...config.database_section import DatabaseConfig
from ...host.home.home_lock import locked_home
from ...journal.file_shelf import FileShelf
from ...journal.shelf_copy import journals_to_files, journals_to_rows
from ...state.chosen_store import DATABASE, engine_of
from ...state.db.engine import Engine
from ...state.db.migrations import shipped_steps
from ...state.store_copy import NotCopied, copy_rows
from ...state.tables import lives
from ..home_reader import store_of


@click.group(no_args_is_help=True)
def command() -> None:
    """Move the store of a home to a server, and back."""


@command.command()
@click.option(
    "--to",
    "target",
    type=click.Choice(["server", "home"]),
    required=True,
    help="Copy to the server of database.url, or from it to gateway.db in the home.",
)
def copy(target: str) -> None:
    """Copy all rows and journals while no gateway runs. The source stays as it is."""
    home, world = home_directory(os.environ), World()
    config = store_of(home)
    if config.url is None:
        raise ConfigInvalid("database.url", "it names no server", "Write the address of the server there.")
    with locked_home(home), ExitStack() as opened:
        server = _opened(opened, home, config, world)
        if living := lives.living(server.writing) if target == "home" else []:
            nodes = ", ".join(one.node for one in living)
            raise NotCopied(f"Gateways use the server, as far as it knows: {nodes}. Stop them first.")
        if target == "server" and not (home / DATABASE).exists():
            raise NotCopied(f"There is no {DATABASE} in {home}, and nothing was copied.")
        file = _opened(opened, home, DatabaseConfig(), world)
        files = FileShelf(home / "journal")
        source, into = (file, server) if target == "server" else (server, file)
        into.begin()
        try:
            rows = copy_rows(source.writing, into.writing)
            into.count_ids_on()
            if target == "server":
                journals = journals_to_rows(files, server.writing)
            else:
                journals = journals_to_files(server.writing, files)
                into.writing.execute("DELETE FROM journal")
        except BaseException:  # also Ctrl-C: half a copy is none
            into.rollback()
            raise
        into.commit()
    click.echo(f"Copied {counted(sum(rows.values()), 'row')} and {counted(journals, 'journal')}.")
    if target == "home":
        click.echo("Take database.url out of config.yaml: then the gateway uses the home again.")


def _opened(opened: ExitStack, home: Path, config: DatabaseConfig, world: World) -> Engine:
    engine = engine_of(config)(home / DATABASE, world, shipped_steps())
    opened.callback(engine.close_writing)
    opened.callback(engine.close_reading)
    return engine
