"""Rules about the owners of chats, where several lives share the store.

Whoever receives a message stores it, and the owner of its chat decides what it is. A life adopts the chats
that are nobody's and have work. A chat is given away only while nothing of it is under way.
"""

from __future__ import annotations

from dataclasses import dataclass

from ...base.errors import ForeignChat
from ...base.messages import MessageEvent
from ..db.engine import Answer, Db
from ..tables import chats, inbox, outbox, sessions, turns
from ..tables.inbox import Received, Stored
from ..tables.session_entry import SessionEntry


@dataclass(frozen=True, slots=True)
class OwnWork:
    """The chats of a life on one account, and what waits in them."""

    chats: frozenset[str]
    told: tuple[Received, ...]
    """Messages that other lives have received, in the order of their arrival."""
    keys: tuple[str, ...]
    """Keys of sessions with waiting messages."""
    owed: tuple[str, ...]
    """Chats with open deliveries."""
    free: frozenset[str] = frozenset()
    """Chats that are nobody's and have work: to be adopted."""


@dataclass(frozen=True, slots=True)
class NodeState:
    """A life that goes on, as far as anybody knows, and what it has."""

    node: str
    life: str
    beat: int
    begun_at: float
    chats: int
    """The number of its chats."""
    roles: tuple[str, ...]


def node_states(db: Db) -> list[NodeState]:
    """Return the lives that are not over, in the order of their nodes."""
    query = (
        "SELECT node, life, beat, begun_at, (SELECT count(*) FROM chats WHERE chats.life = lives.life) "
        "FROM lives WHERE over_at IS NULL ORDER BY node, begun_at"
    )
    return [
        NodeState(node, life, beat, begun_at, owned, chats.roles_of(db, life))
        for node, life, beat, begun_at, owned in db.execute(query).fetchall()
    ]


def tell_owner(db: Db, life: str, event: MessageEvent, *, session_key: str, own_key: str, at: float) -> bool:
    """Store a message for the owner of its chat. Return False, with nothing stored, if this life owns the
    chat now, or has just taken it. Where a cut turn or an earlier message waits to be taken up, the owner is
    told even if it is this life: it takes them up in their order."""
    chat = _place_of(event)
    if not _ask_earlier(db, chat)() and chats.claim(db, life, *chat) == life:
        return False
    inbox.tell(db, event, session_key=session_key, own_key=own_key, at=at)
    return True


def store_or_tell(
    db: Db, life: str, event: MessageEvent, *, session_key: str, own_key: str, at: float, most: int
) -> Stored | None:
    """Store a message that waits for a turn in a chat of this life. Return None if it was stored for the
    owner of its chat instead, as `tell_owner` does. The owner is asked for together with the rest."""
    own, chat = ask_own(db, life, event), _place_of(event)
    stored = inbox.store(db, event, session_key=session_key, own_key=own_key, at=at, most=most)
    if own() or (not _ask_earlier(db, chat)() and chats.claim(db, life, *chat) == life):
        return stored
    if not stored.seen_before:
        inbox.hand_to_owner(db, stored.inbox_id, at)
    return None


def own_work(db: Db, life: str, platform: str, account: str) -> OwnWork:
    """Return the work in the chats of a life on an account."""
    place = platform, account
    told, waiting = inbox.told(db, *place), inbox.waiting_chats(db, *place)
    owed = outbox.waiting_chats(db, *place)
    marked = [chat[2] for entry in sessions.marked(db) if (chat := _chat_of(entry)) and chat[:2] == place]
    owners = chats.owners(db, *place)
    own = {chat_id for chat_id, owner in owners.items() if owner == life}
    waits = {*(row.event.source.chat_id for row in told), *waiting.values(), *owed, *marked}
    return OwnWork(
        frozenset(own),
        tuple(row for row in told if row.event.source.chat_id in own),
        tuple(key for key, chat_id in waiting.items() if chat_id in own),
        tuple(chat_id for chat_id in owed if chat_id in own),
        frozenset(waits - owners.keys()),
    )


def adopt(db: Db, life: str, platform: str, account: str) -> OwnWork:
    """Adopt the chats of an account that are nobody's and have work, and return the work in all own ones."""
    for chat_id in own_work(db, life, platform, account).free:
        chats.claim(db, life, platform, account, chat_id)
    return own_work(db, life, platform, account)


def give_chat(db: Db, life: str, to: str, platform: str, account: str, chat_id: str) -> bool:
    """Give a chat to another life. Return False, with nothing changed, while a turn runs there or a delivery
    is under way, and if the chat is not its own."""
    chat = platform, account, chat_id
    for turn in turns.unended(db):
        entry = sessions.by_id(db, turn.session_id) if turn.life == life else None
        if entry is not None and _chat_of(entry) == chat:
            return False
    if any(row.state is outbox.OutboxState.ATTEMPTING for row in outbox.undelivered_to(db, *chat)):
        return False
    return chats.give(db, life, to, *chat)


def _chat_of(entry: SessionEntry) -> tuple[str, str, str] | None:
    origin = entry.origin
    return None if origin is None else (origin.platform, origin.account, origin.chat_id)


def check_owner(db: Db, owner: str | None, platform: str, account: str, chat_id: str) -> None:
    """Take a chat that is nobody's, and raise `ForeignChat` if it is another life's. Without an owner, as in
    a gateway that is alone, every chat is its own."""
    ask_owner(db, owner, platform, account, chat_id)()


def ask_owner(db: Db, owner: str | None, platform: str, account: str, chat_id: str) -> Answer[None]:
    """Ask who owns a chat. The answer does what `check_owner` does."""
    if owner is None:
        return lambda: None
    chat = platform, account, chat_id
    known = chats.ask_owner(db, *chat)

    def answer() -> None:
        if (known() or chats.claim(db, owner, *chat)) != owner:
            raise ForeignChat(platform, chat_id)

    return answer


def is_own(db: Db, life: str, event: MessageEvent) -> bool:
    """Return True if this life owns the chat of an event, and nothing there has to be taken up before it."""
    return ask_own(db, life, event)()


def ask_own(db: Db, life: str, event: MessageEvent) -> Answer[bool]:
    """Ask what `is_own` returns."""
    chat = _place_of(event)
    owner, has_earlier = chats.ask_owner(db, *chat), _ask_earlier(db, chat)
    return lambda: not has_earlier() and owner() == life


def _ask_earlier(db: Db, chat: tuple[str, str, str]) -> Answer[bool]:
    """Ask whether something in a chat waits to be taken up: a cut turn, or a message that was told to its
    owner, perhaps to one who was taken over since."""
    is_told, marked = inbox.ask_told(db, *chat), sessions.ask_all_marked(db)
    return lambda: (
        any(_chat_of(entry) == chat and not turns.runs_in(db, entry.session_id) for entry in marked())
        or is_told()
    )


def _place_of(event: MessageEvent) -> tuple[str, str, str]:
    source = event.source
    return source.platform, source.account, source.chat_id
