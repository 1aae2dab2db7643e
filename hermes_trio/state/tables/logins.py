"""The table `logins`: browsers that may use the page, until they log out or the login expires."""

from __future__ import annotations

from dataclasses import dataclass

from ..db.engine import Db

MOST = 100
"""The oldest logins beyond this number are deleted."""


@dataclass(frozen=True, slots=True)
class Login:
    """The login of one browser."""

    login_id: str
    made_at: float
    expires_at: float
    browser: str
    """The browser's own description: the User-Agent header."""


def add(db: Db, login: Login) -> list[Login]:
    """Store a login, and delete expired and surplus ones. Return the remaining logins, the newest first."""
    db.execute(
        "INSERT INTO logins (login_id, made_at, expires_at, browser) VALUES (?, ?, ?, ?) "
        "ON CONFLICT DO NOTHING",
        (login.login_id, login.made_at, login.expires_at, login.browser),
    )
    db.execute("DELETE FROM logins WHERE expires_at <= ?", (login.made_at,))
    db.execute(
        "DELETE FROM logins WHERE login_id NOT IN "
        "(SELECT login_id FROM logins ORDER BY made_at DESC, login_id DESC LIMIT ?)",
        (MOST,),
    )
    return every(db)


def remove(db: Db, login_id: str) -> None:
    """Delete a login."""
    db.execute("DELETE FROM logins WHERE login_id = ?", (login_id,))


def every(db: Db) -> list[Login]:
    """Return all logins, the newest first."""
    rows = db.execute(
        "SELECT login_id, made_at, expires_at, browser FROM logins ORDER BY made_at DESC, login_id DESC"
    )
    return [Login(*row) for row in rows]
