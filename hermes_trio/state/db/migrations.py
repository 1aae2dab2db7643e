"""The schema of `gateway.db`, in numbered steps.

A step is an SQL file. It is applied in its own transaction, which also records its name, so a kill leaves
the schema either before or after the step. Before the first step is applied to a database that was in use,
a copy of the database is kept.

A step says which older versions can use the store with it (`-- lives-with: 0009`: those that know step 9),
and that is recorded with its name. So a version that finds a step which it does not know can tell whether it
may go on: several machines are brought to a new version one after the other, and back.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from ...base.errors import StoreTooNew, StoreUnusable
from ...base.world import World
from ...host.files.private_files import open_private
from .engine import Db
from .sqlite_errors import as_store_error


@dataclass(frozen=True, slots=True)
class SchemaStep:
    """One numbered change of the schema: the recorded name, and one or more SQL statements."""

    name: str
    sql: str

    @property
    def number(self) -> int:
        return int(self.name[:4])

    @property
    def lives_with(self) -> int | None:
        """The number of the newest step that a version must know to use the store with this one. None if it
        must know this one."""
        said = re.search(r"^-- lives-with: (\d{4})$", self.sql, re.MULTILINE)
        return int(said[1]) if said else None


def shipped_steps() -> Sequence[SchemaStep]:
    """Return the schema steps of this version, in order."""
    files = resources.files(__package__).joinpath("schema").iterdir()
    steps = (SchemaStep(f.name[:-4], f.read_text("utf-8")) for f in files if f.name.endswith(".sql"))
    return sorted(steps, key=lambda step: step.name)


def applied_steps(db: Db) -> Mapping[str, int | None]:
    """Return the names of the steps that were applied to a database, each with what it lives with."""
    return recorded_steps(db.execute("SELECT * FROM schema_steps"))


def recorded_steps(rows: Iterable[Sequence[Any]]) -> Mapping[str, int | None]:
    """Return the steps in the rows of their table, which an old version has made without the last column."""
    return {row[0]: row[2] if len(row) > 2 else None for row in rows}


def refusing_step(steps: Sequence[SchemaStep], had: Mapping[str, int | None]) -> str | None:
    """Return the last recorded step that keeps a version with these steps from using the store; None if the
    version knows all, or those that it does not know live with it."""
    newest = max((step.number for step in steps), default=0)
    unknown = had.keys() - {step.name for step in steps}
    if all(step.name in had for step in steps):
        unknown = {name for name in unknown if (oldest := had[name]) is None or oldest > newest}
    return max(unknown, default=None)


def missing_steps(
    connection: sqlite3.Connection, path: Path, steps: Sequence[SchemaStep]
) -> Sequence[SchemaStep]:
    """Return the steps that were not applied to this database yet. Raises `StoreUnusable` for another
    program's database, `StoreTooNew` for a recorded step that this version does not have."""
    tables = connection.execute(
        "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    )
    there = {name for (name,) in tables}
    recorded = "schema_steps" in there
    had = applied_steps(connection) if recorded else {}
    if there and not recorded:
        raise StoreUnusable(
            path,
            f"is the database of another program (it has {min(there)!r})",
            "Move it away, or point HERMES_HOME to another directory.",
        )
    return unapplied(steps, had, path)


def unapplied(steps: Sequence[SchemaStep], had: Mapping[str, int | None], path: Path) -> Sequence[SchemaStep]:
    """Return the steps that are not among the recorded ones, in order. Raises `StoreTooNew` for a recorded
    step that this version does not have and that does not live with it."""
    refusing = refusing_step(steps, had)
    if refusing is not None:
        raise StoreTooNew(
            path,
            f"was written by a newer version (schema step {refusing})",
            "Install that version or a newer one, or point HERMES_HOME to another directory.",
        )
    return [step for step in steps if step.name not in had]


def apply_steps(
    connection: sqlite3.Connection,
    path: Path,
    world: World,
    missing: Sequence[SchemaStep],
    *,
    keep_copy: bool,
) -> None:
    """Apply the missing steps in order; with `keep_copy` save a copy of the database before."""
    if missing and keep_copy:
        _keep_copy(connection, path.with_name(f"{path.name}.before-{missing[0].name}"))
    connection.execute(
        "CREATE TABLE IF NOT EXISTS schema_steps "
        "(name TEXT PRIMARY KEY, applied_at REAL NOT NULL, lives_with INTEGER) STRICT"
    )
    columns = connection.execute("SELECT name FROM pragma_table_info('schema_steps')").fetchall()
    if missing and ("lives_with",) not in columns:
        connection.execute("ALTER TABLE schema_steps ADD COLUMN lives_with INTEGER")
    for step in missing:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements(step.sql):
                connection.execute(statement)
            record = step.name, world.time(), step.lives_with
            connection.execute("INSERT INTO schema_steps VALUES (?, ?, ?)", record)
            connection.execute("COMMIT")
        except BaseException as error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            if isinstance(error, sqlite3.Error) and as_store_error(error, path) is error:
                raise not_applied(step, path, error) from error  # noqa: ASYNC104 - no Cancelled comes here
            raise


def not_applied(step: SchemaStep, path: Path, error: Exception) -> StoreUnusable:
    """Return the error for a step that the database does not take."""
    return StoreUnusable(
        path,
        f"could not be brought up to date (schema step {step.name}: {error})",
        "It is as it was before the step: install the version before this one, and report this.",
    )


def statements(sql: str) -> Iterator[str]:
    """Yield the statements of a step (`executescript` would commit the open transaction)."""
    pending = ""
    for part in re.split("(?<=;)", sql):
        pending += part
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
    if pending.strip():
        yield pending  # a last statement without its semicolon


def _keep_copy(connection: sqlite3.Connection, copy: Path) -> None:
    unfinished = copy.with_name(copy.name + ".part")
    unfinished.unlink(missing_ok=True)
    os.close(open_private(unfinished, os.O_RDWR))
    target = sqlite3.connect(unfinished)
    try:
        connection.backup(target)
    finally:
        target.close()
    unfinished.replace(copy)
