"""Pairing: who asked to be let in, and whom the owner of the gateway has let in.

A stranger is shown a code, once, and brings it to the owner in some other way; who can run commands in
this home approves it. The code is stored as a salted hash and nowhere else, so nobody learns it from the
database, and it cannot be shown again: who asks again after a while gets another one in its place. All
that a stranger can cause is bounded here: how many may wait, how often one is told, how long a code counts.

Two write here. That somebody asks is written by the gateway, as all its facts, through the owner of the
database. The decision is made by the command line, in a transaction of its own (`deciding`), whether or
not a gateway runs: SQLite keeps the two apart, and the gateway, which asks here at every message of a
person that no list names, lets in or refuses from the next message on. That is the one exception to
"one owner". Rejected: to let the gateway carry out decisions left in a file, because it would have to poll
for them, the owner would get no answer, and wrong codes would be counted when nobody waits for it any more.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from ...base.errors import StoreUnusable
from ..db.sqlite_errors import typed

ALPHABET = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"
"""Neither 0 nor O, neither 1 nor I: a code is read out and typed in."""
LENGTH = 8
VALID = 3600.0
ASK_AGAIN = 600.0
"""Seconds for which somebody who was given a code is not given another."""
MOST_WAITING = 3
"""People of one platform whose codes count at a time."""
MOST_MISTAKES = 5
LOCKED = 3600.0

_SALT = 16
_PATIENCE = 10.0


@dataclass(frozen=True, slots=True)
class Person:
    """Somebody on a platform, and since when: the request, or the approval."""

    platform: str
    user_id: str
    user_name: str | None
    at: float


@dataclass(frozen=True, slots=True)
class WrongCode:
    """A code that nobody was given, or that came while the door was locked."""

    attempts_left: int
    locked_until: float | None


def new_code() -> str:
    """A code. Not from the world, whose ids a program may choose: a code must not be foreseen."""
    return "".join(secrets.choice(ALPHABET) for _ in range(LENGTH))


def sealed(code: str, salt: bytes = b"") -> bytes:
    """The code as it is stored: a salt, and the hash of both."""
    salt = salt or secrets.token_bytes(_SALT)
    return salt + hashlib.sha256(salt + code.encode(errors="replace")).digest()


# --- steps of the gateway ----------------------------------------------------------------------------


def ask(db: sqlite3.Connection, person: Person, code_hash: bytes) -> bool:
    """Note that somebody asks to be let in. False if this code is not to be shown: they were given one
    a moment ago, or enough others wait. What they had before does not count any more."""
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
        "INSERT OR REPLACE INTO pairing_requests (platform, user_id, user_name, asked_at, code_hash) "
        "VALUES (?, ?, ?, ?, ?)",
        (person.platform, person.user_id, person.user_name, person.at, code_hash),
    )
    return True


def is_paired(db: sqlite3.Connection, platform: str, user_ids: Iterable[str]) -> bool:
    """Whether the owner let in a person of any of these ids."""
    query = "SELECT 1 FROM paired WHERE platform = ? AND user_id = ?"
    return any(db.execute(query, (platform, user_id)).fetchone() for user_id in user_ids)


# --- what the owner asks and decides -----------------------------------------------------------------


def waiting(db: sqlite3.Connection, at: float) -> list[Person]:
    """Whose code counts now, the oldest first."""
    return [person for person, _ in _requests(db, at)]


def all_paired(db: sqlite3.Connection) -> list[Person]:
    """Everybody who was let in by a code."""
    query = "SELECT platform, user_id, user_name, approved_at FROM paired ORDER BY approved_at, user_id"
    return [Person(*row) for row in db.execute(query)]


def approve(db: sqlite3.Connection, code: str, at: float) -> Person | WrongCode:
    """Let in whoever was given this code. A code counts once. After `MOST_MISTAKES` wrong ones none
    counts, right or wrong, until `LOCKED` seconds have passed."""
    mistakes, newest = db.execute("SELECT count(*), max(made_at) FROM pairing_mistakes").fetchone()
    if mistakes and abs(at - newest) >= LOCKED:
        db.execute("DELETE FROM pairing_mistakes")
        mistakes = 0
    if mistakes >= MOST_MISTAKES:
        return WrongCode(0, newest + LOCKED)
    # All of them are compared, so that the time it takes tells nothing.
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
    db.execute(
        "INSERT OR REPLACE INTO paired (platform, user_id, user_name, approved_at) VALUES (?, ?, ?, ?)",
        (person.platform, person.user_id, person.user_name, at),
    )
    return person


def revoke(db: sqlite3.Connection, platform: str, user_id: str) -> bool:
    """Let somebody in no longer, and let their code not count. False if there was nothing to take back."""
    of = "WHERE platform = ? AND user_id = ?"
    taken_back = [
        db.execute(f"DELETE FROM {table} {of}", (platform, user_id)).rowcount  # noqa: S608 - constants
        for table in ("paired", "pairing_requests")
    ]
    return any(taken_back)


def _requests(db: sqlite3.Connection, at: float) -> list[tuple[Person, bytes]]:
    # A request of the future is from before a clock was corrected; it counts no longer than any other.
    rows = db.execute(
        "SELECT platform, user_id, user_name, asked_at, code_hash FROM pairing_requests "
        "WHERE abs(? - asked_at) < ? ORDER BY asked_at, user_id",
        (at, VALID),
    )
    return [(Person(*row[:4]), row[4]) for row in rows]


def _fits(code: str, stored: bytes) -> bool:
    return hmac.compare_digest(sealed(code, stored[:_SALT]), stored)


@contextmanager
def deciding(path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction of the owner's, committed when the block ends and rolled back if it raises.

    A gateway that wants to write meanwhile waits, so nothing slow is done while it lasts: it does not
    wait for the disk. The log is forced to the disk behind it, which holds nobody up.
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
            raise StoreUnusable(path, f"does not have what it should ({error})", remedy) from error
        raise typed(error, path)  # noqa: B904 - has its cause
    except sqlite3.Error as error:
        raise typed(error, path)  # noqa: B904 - has its cause
