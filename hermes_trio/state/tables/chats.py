"""The tables `chats` and `roles`: which life answers in a chat, and which one does what only one may do.

They are used where several lives share the store. A chat has one owner or none; it loses its owner by being
given away, or when the life of the owner is over and its open turns have been ended.
"""

from __future__ import annotations

from ..db.engine import Answer, Db

_THE_CHAT = "platform = ? AND account = ? AND chat_id = ?"
_OVER = "life IN (SELECT life FROM lives WHERE over_at IS NOT NULL)"


def claim(db: Db, life: str, platform: str, account: str, chat_id: str) -> str:
    """Take a chat that is nobody's. Return the life that owns it now."""
    chat = platform, account, chat_id
    owner = owner_of(db, *chat)
    if owner is None:
        claim_free(db, life, *chat)
        owner = owner_of(db, *chat)
    return owner or life


def claim_free(db: Db, life: str, platform: str, account: str, chat_id: str) -> None:
    """Take a chat if it is nobody's, without asking who owns it now."""
    chat = platform, account, chat_id
    db.execute("INSERT INTO chats VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING", (*chat, life))


def owner_of(db: Db, platform: str, account: str, chat_id: str) -> str | None:
    """Return the life that owns a chat; None for nobody's."""
    return ask_owner(db, platform, account, chat_id)()


def ask_owner(db: Db, platform: str, account: str, chat_id: str) -> Answer[str | None]:
    """Ask for the life that owns a chat."""
    query = f"SELECT life FROM chats WHERE {_THE_CHAT}"  # noqa: S608 - a constant of this module
    found = db.execute(query, (platform, account, chat_id))
    return lambda: next((life for (life,) in found.fetchall()), None)


def owners(db: Db, platform: str, account: str) -> dict[str, str]:
    """Return the life that owns it for each owned chat on this account."""
    query = "SELECT chat_id, life FROM chats WHERE platform = ? AND account = ?"
    return dict(db.execute(query, (platform, account)).fetchall())


def give(db: Db, life: str, to: str, platform: str, account: str, chat_id: str) -> bool:
    """Give a chat of a life to another one. Return False if it is not its own, or the other one is over."""
    gives = (
        f"UPDATE chats SET life = ? WHERE {_THE_CHAT} AND life = ? "  # noqa: S608 - a constant of this module
        "AND EXISTS (SELECT 1 FROM lives WHERE lives.life = ? AND over_at IS NULL)"
    )
    return db.execute(gives, (to, platform, account, chat_id, life, to)).rowcount == 1


def hint(db: Db, platform: str, account: str, chat_id: str) -> None:
    """Let the owner of a chat look at what waits there: on a server each change of a chat is a hint."""
    query = f"UPDATE chats SET life = life WHERE {_THE_CHAT}"  # noqa: S608 - a constant of this module
    db.execute(query, (platform, account, chat_id))


def roles_of(db: Db, life: str) -> tuple[str, ...]:
    """Return the roles of a life."""
    query = "SELECT role FROM roles WHERE life = ? ORDER BY role"
    return tuple(role for (role,) in db.execute(query, (life,)))


def holder_of(db: Db, role: str) -> str | None:
    """Return the life that has a role; None for nobody."""
    row = db.execute("SELECT life FROM roles WHERE role = ?", (role,)).fetchone()
    return row[0] if row else None


def take_role(db: Db, role: str, life: str) -> bool:
    """Take a role that is nobody's. Return True if the life has it now."""
    db.execute("INSERT INTO roles VALUES (?, ?) ON CONFLICT DO NOTHING", (role, life))
    return holder_of(db, role) == life


def free(db: Db) -> None:
    """Take chats and roles from the lives that are over. Their open turns are ended before."""
    for table in ("chats", "roles"):
        db.execute(f"DELETE FROM {table} WHERE {_OVER}")  # noqa: S608 - constants of this function


def any_to_free(db: Db) -> bool:
    """Return whether a life that is over still owns something."""
    query = f"SELECT 1 FROM chats WHERE {_OVER} UNION SELECT 1 FROM roles WHERE {_OVER} LIMIT 1"  # noqa: S608
    return db.execute(query).fetchone() is not None
