"""The errors of a PostgreSQL server as errors of the store, each with its remedy."""

from __future__ import annotations

from pathlib import Path

import psycopg
from psycopg import errors

from ...base.errors import (
    StoreAway,
    StoreBusy,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnusable,
)

_BY_TYPE: tuple[tuple[type[psycopg.Error], type[StoreError], str, str], ...] = (
    (errors.DiskFull, StoreFull, "the disk of the server is full", "Free some space there."),
    (
        errors.ReadOnlySqlTransaction,
        StoreReadOnly,
        "takes no writes",
        "Check whether the server is a standby.",
    ),
    (errors.LockNotAvailable, StoreBusy, "another process holds a lock", "Close the program that holds it."),
    (errors.DeadlockDetected, StoreBusy, "two gateways waited for each other", "It is tried again."),
    (
        errors.QueryCanceled,
        StoreBusy,
        "a statement took too long",
        "Check the load of the server, and what holds locks there (pg_stat_activity).",
    ),
    (
        errors.InsufficientPrivilege,
        StoreUnusable,
        "this user may not do what the gateway has to do",
        "Let the user own the database: ALTER DATABASE ... OWNER TO ...; or name its own schema "
        "in database.schema.",
    ),
)

# A server tells the reason of a refused connection only as a text, which a version in another language words
# differently. Then the general remedy is shown, with that text.
_BY_TEXT: tuple[tuple[tuple[str, ...], type[StoreError], str, str], ...] = (
    (
        ("password authentication failed", "no password supplied"),
        StoreUnusable,
        "the server refuses the password",
        "Correct the user and the password in database.url.",
    ),
    (
        ('database "',),
        StoreUnusable,
        "there is no such database",
        "Create it with `createdb`, or correct its name in database.url.",
    ),
    (
        ('role "', "pg_hba.conf"),
        StoreUnusable,
        "the server refuses this user",
        "Create the user and let it in (pg_hba.conf), or correct database.url.",
    ),
)


def as_store_error(error: BaseException, place: Path) -> BaseException:
    """Return the `StoreError` for an error of psycopg, with that error as its cause. A mistake of the caller
    is returned unchanged."""
    for kinds, kind, problem, remedy in _BY_TYPE:
        if isinstance(error, kinds):
            return _caused(kind(place, f"{problem} ({_text(error)})", remedy), error)
    if not isinstance(error, psycopg.OperationalError):
        return error
    text = _text(error)
    for parts, kind, problem, remedy in _BY_TEXT:
        if ("FATAL" in text or "fe_sendauth" in text) and any(part in text for part in parts):
            return _caused(kind(place, f"{problem} ({text})", remedy), error)
    remedy = "Check that it runs, and the address in database.url."
    return _caused(StoreAway(place, f"the server does not answer ({text})", remedy), error)


def _text(error: BaseException) -> str:
    return " ".join(str(error).split())


def _caused(ours: StoreError, error: BaseException) -> StoreError:
    ours.__cause__ = error
    return ours
