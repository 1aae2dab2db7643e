"""Finding or making the session in which a request is answered, and storing its message there.

A request of the OpenAI form often brings the whole conversation. The history that it brings counts, and is
never mixed with the stored one: if both are the same, the stored session goes on, with everything that the
agent did in it; if they differ, a new session begins with the given history, in place of the stored one.

| the request names | its session |
|---|---|
| a session | that one, which is made if it is unknown |
| only an idempotency key | one of its own, which the key finds again |
| neither | the one of its system text and its first message; while that is busy, a new one |

The last row gives a client that stores nothing one session for each conversation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from ...base.messages import MessageEvent, StoredFile
from ...base.world import World
from ...config.schema import GatewayConfig
from ...state.db.database import Database
from ...state.db.engine import Db
from ...state.rules import settle
from ...state.rules.store import key_of
from ...state.tables import inbox, sessions, transcript, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import TranscriptRow
from ..ending.control import Control
from ..intake.requests import NoTurnsNow, Posted, StoredRequest, store_request
from ..turn.attachments import attached, without_notes
from .api_sessions import API_PLATFORM, reachable_origin, source_of, title_of
from .gateway_actions import DeliverRequest, KeepFile
from .operation_errors import OperationRefused


class HistoryOfChat(OperationRefused):
    """A request brought a history for a session that lives in a chat."""

    def __init__(self) -> None:
        super().__init__(
            "This session lives in a chat, where everybody sees its messages.",
            "Leave the history out, or start another session.",
        )


class IdempotencyKeyReused(OperationRefused):
    """The idempotency key of a request belongs to a different request."""

    def __init__(self) -> None:
        super().__init__(
            "This Idempotency-Key was used for another request.", "Use a new key for a new request."
        )


@dataclass(frozen=True, slots=True)
class SentFile:
    """A file of a request, with its content."""

    stored: StoredFile
    data: bytes


@dataclass(frozen=True, slots=True)
class ConversationInput:
    """The content of a request: its message, and perhaps the conversation before it."""

    text: str
    history: tuple[TranscriptRow, ...] | None = None
    """The conversation before the message; None for the stored one."""
    instructions: str | None = None
    """The system instructions of the conversation."""
    files: tuple[SentFile, ...] = ()
    """The files of the message."""
    earlier_files: tuple[SentFile, ...] = ()
    """The files of the history, to which its rows refer."""

    @property
    def opening(self) -> str:
        """The first text of a person in the conversation."""
        return next((row.content for row in self.history or () if row.role == "user"), self.text)


@dataclass(frozen=True, slots=True)
class RequestTarget:
    """The names by which a request finds its session."""

    session_id: str | None
    key: str | None
    """Its idempotency key."""
    fingerprint: str
    """A digest of the whole request."""


@dataclass(frozen=True, slots=True)
class EnteredMessage:
    """The message of a request, stored in its session."""

    posted: Posted
    session: str
    """The name by which the client continues the session."""
    is_ours: bool
    """True if the turn belongs to this request alone, and to no chat."""


@dataclass(frozen=True, slots=True)
class Conversations:
    """The sessions of one gateway, entered by requests."""

    database: Database
    config: GatewayConfig
    world: World
    control: Control
    connected: Container[tuple[str, str]]
    """The platform and the account of each connection."""
    deliver: DeliverRequest
    created: Callable[[str], None]
    """Called with the id of each new session."""
    home: Path
    keep: KeepFile
    """Stores a file in the directory of a session."""
    owner: str | None = None
    """The life of this gateway if others share its store."""

    async def enter(
        self, content: ConversationInput, target: RequestTarget, run_id: str | None = None
    ) -> EnteredMessage:
        """Store the message of a request in its session, in one transaction. `run_id` is the id of its run;
        without it the run gets a new one. Raises `OperationRefused`, `NoTurnsNow` and `TooManyWait`."""
        terms = _Terms(
            self.config,
            self.world,
            self.control.takes_turns,
            self.connected,
            run_id or self.world.new_id(),
            self.world.new_id(),
            self.home,
            self.owner,
        )
        entry, is_new, request = await self.database.write(_store, content, target, terms)
        if is_new:
            self.created(entry.session_id)
        # The session of the files is known only now. A client that got no answer sends them again.
        for file in (*content.files, *content.earlier_files):
            await self.keep(entry.session_id, file.stored, file.data)
        posted = await self.deliver(request)
        is_ours = request.event.source.platform == API_PLATFORM and posted.status != "steered"
        return EnteredMessage(posted, target.session_id or entry.session_id, is_ours)


def session_name(content: ConversationInput, target: RequestTarget) -> str:
    """Return the id of the session to which a request belongs."""
    if target.session_id is not None:
        return target.session_id
    if target.key is not None:
        return "key-" + _digest(target.key)
    return "talk-" + _digest(f"{content.instructions}\n{content.opening}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


@dataclass(frozen=True, slots=True)
class _Terms:
    """The conditions under which a session is entered."""

    config: GatewayConfig
    world: World
    may_begin: bool
    """False while no turn may begin."""
    connected: Container[tuple[str, str]]
    """The platform and the account of each connection."""
    run_id: str
    other_name: str
    """A name for a session of its own, if the session of the request is busy."""
    home: Path
    owner: str | None


def _store(
    db: Db, content: ConversationInput, target: RequestTarget, terms: _Terms
) -> tuple[SessionEntry, bool, StoredRequest]:
    """Find or make the session of a request, and store its message there. Return True with a new session."""
    entry, is_new = _enter(db, content, target, session_name(content, target), terms)
    if entry is None:
        entry, is_new = _enter(db, content, target, terms.other_name, terms)
    assert entry is not None  # noqa: S101 - nothing waits in a session with a new name
    fingerprint = target.fingerprint if target.key else None
    event = MessageEvent(
        reachable_origin(entry, terms.connected),
        content.text,
        attachments=tuple(attached(terms.home, entry.session_id, one.stored) for one in content.files),
        idempotency_key=target.key,
        fingerprint=fingerprint,
        run_id=terms.run_id,
    )
    request = store_request(db, event, entry.session_key, terms.world.time(), terms.owner)
    if request.known is not None:
        for row in inbox.by_ids(db, [request.inbox_id]):
            if row.event.fingerprint != fingerprint:
                raise IdempotencyKeyReused
    return entry, is_new, request


def _enter(
    db: Db, content: ConversationInput, target: RequestTarget, name: str, terms: _Terms
) -> tuple[SessionEntry | None, bool]:
    """Return the session for a request, and True if it was made just now; None for one that is busy with
    other requests."""
    at = terms.world.time()
    known = sessions.by_id(db, name)
    source = known.origin if known is not None and known.origin is not None else source_of(name)
    key = known.session_key if known is not None else key_of(source, terms.config)
    is_open = known is not None and known.ended_at is None
    current = known if is_open else sessions.open_by_key(db, key)
    if current is not None and target.key is not None:
        again = MessageEvent(current.origin or source, idempotency_key=target.key)
        if inbox.id_of(db, again) is not None:
            return current, False
    if not terms.may_begin:
        raise NoTurnsNow
    if current is not None:
        if target.session_id is None and target.key is None and _is_busy(db, current):
            return None, False
        in_chat = source.platform != API_PLATFORM
        if in_chat and content.history is not None:
            raise HistoryOfChat
        if content.history is None or _is_same(transcript.load(db, current.session_id), content.history):
            if not in_chat:
                _instruct(db, current.session_id, content.instructions, at)
            return current, False
        settle.end_session(db, current.session_id, "history_given", at)
    entry = SessionEntry(
        session_key=key,
        session_id=name if known is None else terms.world.new_id(),
        created_at=at,
        updated_at=at,
        origin=source,
        display_name=known.display_name if known is not None else title_of(content.opening),
        platform=source.platform,
        chat_type=source.chat_type,
    )
    _add(db, entry, content)
    return entry, True


def _is_busy(db: Db, entry: SessionEntry) -> bool:
    """Return True if messages wait in this session, or a turn runs in it."""
    return inbox.count_pending(db, entry.session_key) > 0 or turns.runs_in(db, entry.session_id)


def _add(db: Db, entry: SessionEntry, content: ConversationInput) -> None:
    """Store a new session with the instructions and the history of a request."""
    sessions.add(db, entry)
    _instruct(db, entry.session_id, content.instructions, entry.created_at)
    for row in content.history or ():
        transcript.append(db, entry.session_id, replace(row, created_at=entry.created_at))


def _instruct(db: Db, session_id: str, instructions: str | None, at: float) -> None:
    """Replace the session's system instructions, if the request has any."""
    if instructions is not None:
        transcript.replace_instructions(db, session_id, TranscriptRow("system", instructions, at))


def _is_same(stored: Iterable[TranscriptRow], given: Iterable[TranscriptRow]) -> bool:
    """Return True if the given history is the stored one. A client knows the texts of people and of the
    agent; of an answer it may know the whole text, or the last part."""
    ours, theirs = _texts_by_role(stored), _texts_by_role(given)
    return len(ours) == len(theirs) and all(
        role == their_role
        and ("".join(sent) == "".join(texts) or (role == "assistant" and "".join(sent) == texts[-1]))
        for (role, texts), (their_role, sent) in zip(ours, theirs, strict=True)
    )


def _texts_by_role(rows: Iterable[TranscriptRow]) -> list[tuple[str, list[str]]]:
    """Return the texts of people and of the agent by turns, without blanks."""
    talk: list[tuple[str, list[str]]] = []
    for row in rows:
        text = "".join((without_notes(row.content) if row.files else row.content).split())
        if row.role not in ("user", "assistant") or not text:
            continue
        if not talk or talk[-1][0] != row.role:
            talk.append((row.role, []))
        talk[-1][1].append(text)
    return talk
