"""The schema of `gateway.db`, in numbered steps.

A step is an SQL file. It is applied in its own transaction, which also records its name, so a kill leaves
the schema either before or after the step. Before the first step is applied to a database that was in use,
a copy of the database is kept.
"""

from __future__ import annotations

import os
import re
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

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


def shipped_steps() -> Sequence[SchemaStep]:
    """Return the schema steps of this version, in order."""
    files = resources.files(__package__).joinpath("schema").iterdir()
    steps = (SchemaStep(f.name[:-4], f.read_text("utf-8")) for f in files if f.name.endswith(".sql"))
    return sorted(steps, key=lambda step: step.name)


def applied_steps(db: Db) -> frozenset[str]:
    """Return the names of the steps that were applied to a database which is up to date or newer."""
    return frozenset(name for (name,) in db.execute("SELECT name FROM schema_steps"))


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
    had = applied_steps(connection) if recorded else frozenset()
    if there and not recorded:
        raise StoreUnusable(
            path,
            f"is the database of another program (it has {min(there)!r})",
            "Move it away, or point HERMES_HOME to another directory.",
        )
    return unapplied(steps, had, path)


def unapplied(steps: Sequence[SchemaStep], had: Collection[str], path: Path) -> Sequence[SchemaStep]:
    """Return the steps that are not among the recorded ones, in order. Raises `StoreTooNew` for a recorded
    step that this version does not have."""
    unknown = set(had) - {step.name for step in steps}
    if unknown:
        raise StoreTooNew(
            path,
            f"was written by a newer version (schema step {max(unknown)})",
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
        "CREATE TABLE IF NOT EXISTS schema_steps (name TEXT PRIMARY KEY, applied_at REAL NOT NULL) STRICT"
    )
    for step in missing:
        connection.execute("BEGIN IMMEDIATE")
        try:
            for statement in statements(step.sql):
                connection.execute(statement)
            connection.execute("INSERT INTO schema_steps VALUES (?, ?)", (step.name, world.time()))
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
