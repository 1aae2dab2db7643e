"""The check of the store by `hermes-trio doctor`: the file in the home, or the server."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

from ..base.errors import GatewayError, StoreDamaged, StoreError
from ..base.plural import counted
from ..config.database_section import DatabaseConfig
from ..platform.doctor_checks import Finding
from ..state.chosen_store import DATABASE, reading_store
from ..state.db.damaged import damaged_copies
from ..state.db.migrations import applied_steps, refusing_step, shipped_steps
from ..state.db.opening import connect_reading
from ..state.db.sqlite_errors import as_store_error
from ..state.tables import lives

_INSTALL = "Install that version."


def database_findings(home: Path, config: DatabaseConfig) -> Iterator[Finding]:
    """Yield what is found about the store of a home."""
    yield from _of_file(home) if config.url is None else _of_server(home, config)


def _of_server(home: Path, config: DatabaseConfig) -> Iterator[Finding]:
    try:
        with reading_store(home, config) as db:
            (has_tables,) = db.execute("SELECT to_regclass('schema_steps') IS NOT NULL").fetchone()
            had = applied_steps(db) if has_tables else {}
            living = lives.living(db) if has_tables else []
            (is_standby, has_no_sync, synchronous) = db.execute(
                "SELECT pg_is_in_recovery(), current_setting('synchronous_commit') = 'off', "
                "current_setting('synchronous_standby_names')"
            ).fetchone()
    except GatewayError as error:
        yield Finding("problem", *_in_two(error))
        return
    if is_standby:
        yield Finding("problem", "the database is a standby, which takes no writes", "Name the primary.")
    if has_no_sync:
        text = "synchronous_commit is off: a crash of the server can undo accepted messages"
        yield Finding("warning", text, "Set it to on for this database.")
    if newer := refusing_step(shipped_steps(), had):
        yield Finding("problem", f"the database was written by a newer version (it has {newer})", _INSTALL)
    elif not has_tables:
        yield Finding("ok", "the database answers; the first start makes its tables")
    else:
        yield Finding("ok", f"the database answers; {counted(len(living), 'gateway')} use it")
    if not synchronous:
        text = "the database has no synchronous standby"
        yield Finding("ok", text, "If a standby may be promoted, see the page about several machines.")


def _of_file(home: Path) -> Iterator[Finding]:
    path = home / DATABASE
    if not path.exists():
        yield Finding("ok", "gateway.db does not exist yet; the first start makes it")
        return
    try:
        with closing(connect_reading(path)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            had = applied_steps(connection)
    except (GatewayError, sqlite3.Error) as error:
        ours = as_store_error(error, path)
        if isinstance(ours, StoreError) and not isinstance(ours, StoreDamaged):
            # A problem of the disk or of permissions: the content of the file is unknown.
            yield Finding("problem", f"{path} cannot be read: {ours.problem}", ours.remedy)
            return
        verdict, had = str(error), {}
    if verdict != "ok":
        remedy = "The next start moves a damaged database aside and makes a new one: copy it first."
        yield Finding("problem", f"{path} is damaged ({verdict})", remedy)
    elif newer := refusing_step(shipped_steps(), had):
        yield Finding("problem", f"{path} was written by a newer version (it has {newer})", _INSTALL)
    else:
        yield Finding("ok", f"{path} is not damaged")
    for copy in damaged_copies(path):
        text = f"the database was damaged once, and earlier conversations are only in {copy.name}"
        remedy = "Repair that file or restore a backup; delete it if it is not needed."
        yield Finding("warning", text, remedy)


def _in_two(error: GatewayError) -> tuple[str, str]:
    if isinstance(error, StoreError):
        return f"{error.path.name}: {error.problem}", error.remedy
    return str(error), ""
