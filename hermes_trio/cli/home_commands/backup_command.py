"""`hermes-trio backup`: one file with everything of a home that cannot be made again."""

from __future__ import annotations

import os
from pathlib import Path

import click

from ... import __version__
from ...base.errors import ConfigInvalid, StoreUnusable, home_error
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory, load_config
from ...state.backup.backup_file import BackupDamaged, backups_in, read_backup
from ...state.backup.backup_writer import SECRETS, Backup, backup_folder, write_backup
from ...state.chosen_store import DATABASE
from ..home_reader import store_of

_NOT_MISSED = frozenset(
    {"backups", "gateway.lock", "gateway_state.json", "gateway_tree.txt", "home_id.json"}
    | {"gateway.db-shm", "gateway.db-wal", "logs", "mcp", "places", "scratch", "spools", *SECRETS}
)
"""Names in a home that nobody misses in a backup, and those that are left out for a reason of their own."""


@click.group(invoke_without_command=True)
@click.option(
    "--to",
    "folder",
    type=click.Path(path_type=Path, resolve_path=True),
    help="Folder for the backup. Default: `backup.folder` of the configuration, or `backups` in the home.",
)
@click.option("--with-secrets", is_flag=True, help="Include `.env`, `web.key` and secrets in `config.yaml`.")
@click.option("--keep", type=click.IntRange(min=1), help="Remove all but this many backups in the folder.")
@click.pass_context
def command(context: click.Context, folder: Path | None, with_secrets: bool, keep: int | None) -> None:
    """Back up the home, also while the gateway runs.

    The file holds conversations. Keep it as private as the home.
    """
    if context.invoked_subcommand is not None:
        return
    home = home_directory(os.environ)
    if store_of(home).url is not None:
        remedy = "Back up the database with pg_dump, and copy the files of the home that you need."
        raise StoreUnusable(Path(DATABASE), "this home has its database on a server", remedy)
    backup = write_backup(
        home,
        folder or _folder(home),
        os.environ,
        World(),
        version=__version__,
        with_secrets=with_secrets,
        keep=keep,
    )
    _print_made(backup, home)


@command.command("list")
def list_() -> None:
    """List the backups in the folder of the configuration, the newest first."""
    folder = _folder(home_directory(os.environ))
    found = backups_in(folder)
    for made_at, path in found:
        click.echo(f"{made_at.astimezone():%Y-%m-%d %H:%M:%S}  {path.stat().st_size / 1e6:9.1f} MB  {path}")
    if not found:
        click.echo(f"There are no backups in {folder}.")


@command.command()
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
def check(file: Path) -> None:
    """Read a backup to its end, and compare each file with its hash.

    The exit code is 1 if it is not whole.
    """
    try:
        manifest = read_backup(file)
    except OSError as error:
        raise BackupDamaged(file, error.strerror or str(error)) from error
    made = f"{manifest.made_at.astimezone():%Y-%m-%d %H:%M:%S}"
    secrets = "with" if manifest.with_secrets else "without"
    files = counted(len(manifest.files), "file")
    click.echo(f"ok: {files}, made on {made} by version {manifest.version}, {secrets} secrets")


def _folder(home: Path) -> Path:
    try:
        return backup_folder(home, load_config(home, os.environ).config)
    except ConfigInvalid:
        return backup_folder(home, None)  # somebody may want a backup just then


def _print_made(backup: Backup, home: Path) -> None:
    try:
        size = backup.path.stat().st_size
    except OSError as error:
        raise home_error(backup.path.parent, error, "the backup") from error
    files = counted(len(backup.manifest.files), "file")
    click.echo(f"{backup.path}: {files}, {size / 1e6:.1f} MB")
    if backup.manifest.variables:
        names = ", ".join(backup.manifest.variables)
        click.echo(
            f"Without secrets: a restored home needs {names} in its .env. --with-secrets includes them."
        )
    others = [name for name in backup.left_out if name not in _NOT_MISSED and not name.endswith(".tmp")]
    if others:
        click.echo(f"Not in it: {', '.join(others)}. Copy what you need of that from {home}.")
