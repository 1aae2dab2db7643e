"""The tables of pairing: requests by strangers for access, and the people whom the owner has approved.

A stranger is shown a code once, and gives it to the owner of the gateway in some other way; anybody who can
run commands in this home approves it. The code is stored only as a salted hash, so nobody learns it from the
database, and it cannot be shown again: a stranger who asks again later gets a new one. Everything a stranger
can cause is bounded here: the number of waiting requests, the pause between codes, the lifetime of a code.

There are two writers. The gateway stores requests, like all its data, through the owner of the database. The
command line stores decisions in its own transaction (`deciding`), whether or not a gateway runs: SQLite
separates the two, and the gateway, which looks here for each message of a person on no list, applies the
decision from the next message on. This is the one exception to "one owner". Rejected: a file of decisions
that the gateway carries out. The gateway would have to poll for it, the owner would get no answer, and wrong
codes would be counted when nobody waits any more.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.errors import StoreUnusable
from ..db.engine import Db
from ..db.sqlite_errors import as_store_error

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Without 0 and O, 1 and I: a code is read aloud and typed."""
LENGTH = 8
VALID = 3600.0
ASK_AGAIN = 600.0
"""Seconds after a code was shown before the same person is shown another."""
MOST_WAITING = 3
"""People of one platform who may have a valid code at the same time."""
MOST_MISTAKES = 5
LOCKED = 3600.0

_SALT = 16
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Person:
    """A person on a platform, and the time of the request or of the approval."""

    platform: str
    user_id: str
    user_name: str | None
    at: float


@dataclass(frozen=True, slots=True)
class WrongCode:
    """The answer to a code that does not exist, or that was entered while approval was locked."""

    attempts_left: int
    locked_until: float | None


def new_code() -> str:
    """Return a new code. Not from the `World`, whose ids a program may choose: a code must be secret."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def sealed(code: str, salt: bytes = b"") -> bytes:
    """Return the stored form of a code: a salt, followed by the hash of salt and code."""
    salt = salt or secrets.token_bytes(_SALT)
    return salt + hashlib.sha256(salt + code.encode(errors="replace")).digest()


# --- used by the gateway -----------------------------------------------------------------------------


def ask(db: Db, person: Person, code_hash: bytes) -> bool:
    """Store a request for access; it replaces an earlier request of this person. Return False, and store
    nothing, if the code must not be shown: the person got one recently, or enough others wait."""
    db.execute("DELETE FROM pairing_requests WHERE abs(? - asked_at) >= ?", (person.at, VALID))
    told_lately = (
        "SELECT 1 FROM pairing_requests WHERE platform = ? AND user_id = ? AND abs(? - asked_at) < ?"
    )
    if db.execute(told_lately, (person.platform, person.user_id, person.at, ASK_AGAIN)).fetchone():
        return False
    others = "SELECT count(*) FROM pairing_requests WHERE platform = ? AND user_id <> ?"
    if db.execute(others, (person.platform, person.user_id)).fetchone()[0] >= MOST_WAITING:
        return False
    db.execute(
        "INSERT INTO pairing_requests (platform, user_id, user_name, asked_at, code_hash) "
        "VALUES (?, ?, ?, ?, ?) ON CONFLICT (platform, user_id) DO UPDATE SET "
        "user_name = excluded.user_name, asked_at = excluded.asked_at, code_hash = excluded.code_hash",
        (person.platform, person.user_id, person.user_name, person.at, code_hash),
    )
    return True


def is_paired(db: Db, platform: str, user_ids: Iterable[str]) -> bool:
    """Return whether the owner approved a person with one of these ids."""
    query = "SELECT 1 FROM paired WHERE platform = ? AND user_id = ?"
    return any(db.execute(query, (platform, user_id)).fetchone() for user_id in user_ids)


# --- used by the owner -------------------------------------------------------------------------------


def waiting(db: Db, at: float) -> list[Person]:
    """Return the people with a valid code, the oldest request first."""
    return [person for person, _ in _requests(db, at)]


def all_paired(db: Db) -> list[Person]:
    """Return everybody who was approved with a code."""
    query = "SELECT platform, user_id, user_name, approved_at FROM paired ORDER BY approved_at, user_id"
    return [Person(*row) for row in db.execute(query)]


def approve(db: Db, code: str, at: float) -> Person | WrongCode:
    """Approve the person who was given this code, and invalidate it. After `MOST_MISTAKES` wrong codes every
    code is refused for `LOCKED` seconds."""
    mistakes, newest = db.execute("SELECT count(*), max(made_at) FROM pairing_mistakes").fetchone()
    if mistakes and abs(at - newest) >= LOCKED:
        db.execute("DELETE FROM pairing_mistakes")
        mistakes = 0
    if mistakes >= MOST_MISTAKES:
        return WrongCode(0, newest + LOCKED)
    # All codes are compared, so that the duration reveals nothing.
    found = [person for person, stored in _requests(db, at) if _fits(code, stored)]
    if not found:
        db.execute("INSERT INTO pairing_mistakes (made_at) VALUES (?)", (at,))
        left = MOST_MISTAKES - mistakes - 1
        return WrongCode(left, None if left else at + LOCKED)
    person = found[0]
    db.execute("DELETE FROM pairing_mistakes")
    db.execute(
        "DELETE FROM pairing_requests WHERE platform = ? AND user_id = ?", (person.platform, person.user_id)
    )
    let_in(db, replace(person, at=at))
    return person


def let_in(db: Db, person: Person) -> None:
    """Store the approval of a person."""
    db.execute(
        "INSERT INTO paired (platform, user_id, user_name, approved_at) VALUES (?, ?, ?, ?) "
        "ON CONFLICT (platform, user_id) DO UPDATE SET "
        "user_name = excluded.user_name, approved_at = excluded.approved_at",
        (person.platform, person.user_id, person.user_name, person.at),
    )


def revoke(db: Db, platform: str, user_id: str) -> bool:
    """Revoke the approval and the code of a person. Return False if there was neither."""
    of = "WHERE platform = ? AND user_id = ?"
    taken_back = [
        db.execute(f"DELETE FROM {table} {of}", (platform, user_id)).rowcount  # noqa: S608 - constants
        for table in ("paired", "pairing_requests")
    ]
    return any(taken_back)


def _requests(db: Db, at: float) -> list[tuple[Person, bytes]]:
    # A time in the future is from before a clock was corrected; such a request expires like any other.
    rows = db.execute(
        "SELECT platform, user_id, user_name, asked_at, code_hash FROM pairing_requests "
        "WHERE abs(? - asked_at) < ? ORDER BY asked_at, user_id",
        (at, VALID),
    )
    return [(Person(*row[:4]), row[4]) for row in rows]


def _fits(code: str, stored: bytes) -> bool:
    return hmac.compare_digest(sealed(code, stored[:_SALT]), stored)


@contextmanager
def deciding(path: Path) -> Iterator[Db]:
    """Open a transaction of the owner; commit it when the block ends, roll it back if the block raises.

    A gateway that writes at the same time has to wait, so the transaction itself does not wait for the disk.
    The log is flushed after the commit, when nobody is blocked.
    """
    try:
        address = f"{path.absolute().as_uri()}?mode=rw"
        with closing(sqlite3.connect(address, uri=True, isolation_level=None, timeout=_PATIENCE)) as db:
            db.execute("PRAGMA synchronous = NORMAL")
            db.execute("PRAGMA wal_autocheckpoint = 0")
            db.execute("BEGIN IMMEDIATE")
            try:
                yield db
                db.execute("COMMIT")
            finally:
                if db.in_transaction:
                    db.execute("ROLLBACK")
            db.execute("PRAGMA wal_checkpoint(PASSIVE)")
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode == sqlite3.SQLITE_ERROR:
            remedy = "Start the gateway once with this version, then try again."
            raise StoreUnusable(path, f"lacks a table or column ({error})", remedy) from error
        raise as_store_error(error, path)  # noqa: B904 - has its cause
    except sqlite3.Error as error:
        raise as_store_error(error, path)  # noqa: B904 - has its cause
