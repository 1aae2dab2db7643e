"""What a request in the form of OpenAI says, and the conversation in which that is said.

Such a request often brings the whole conversation along. What it brings counts, and never stands beside what
we have stored: where both are the same the stored one goes on, with all that the agent did in it; where they
differ, a session begins with what was brought, in place of the one before.

A request that names a session is said in that one, which is made if it is not known. One that names only an
idempotency key has a session of its own, found again by the key. One that names neither is said in the
session of its system text and its first message, so that a client without another memory has one session for
each conversation; while that is busy it has one of its own, and waits for nobody.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec
from msgspec import Meta
from starlette.requests import Request

from ...base.ids import path_safe_id
from ...base.messages import MessageEvent
from ...base.world import World
from ...config.schema import GatewayConfig
from ...gateway.intake.requests import NoTurnsNow, Posted, TooManyWait, post
from ...state.rules import settle
from ...state.rules.store import key_of
from ...state.tables import inbox, sessions, transcript, turns
from ...state.tables.session_entry import SessionEntry
from ...state.tables.transcript import ToolCall, TranscriptRow
from ..api.api_platform import NAME, source_of
from ..api.session_routes import reached, title_of
from ..http.http_errors import RETRY_AFTER, Draining, Refusal

if TYPE_CHECKING:
    from ..app import Web

LONGEST_KEY = 256
_LEADS = ("system", "developer")

# --- what is sent ------------------------------------------------------------------------------------


class Part(msgspec.Struct, frozen=True):
    """A piece of a message."""

    type: str
    text: str | None = None
    refusal: str | None = None


class Function(msgspec.Struct, frozen=True):
    """What was called, and with what."""

    name: str
    arguments: str = "{}"


class Call(msgspec.Struct, frozen=True):
    """A tool call of an earlier answer."""

    id: str
    function: Function


_NOTHING = Meta(description="It cannot be read here.", extra_json_schema={"enum": [None]})


class ChatMessage(msgspec.Struct, frozen=True):
    """One message, as a client sends it."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | tuple[Part, ...] | None = None
    tool_calls: tuple[Call, ...] | None = None
    tool_call_id: str | None = None
    name: str | None = None
    refusal: str | None = None
    """What a model said in place of a `content`."""
    audio: Annotated[Any, _NOTHING] = None
    function_call: Annotated[Any, _NOTHING] = None


MOST_MESSAGES = 4096
"""More than any talk has; each of them becomes a row."""
ChatMessages = Annotated[tuple[ChatMessage, ...], Meta(min_length=1, max_length=MOST_MESSAGES)]


@dataclass(frozen=True, slots=True)
class Said:
    """What a request says."""

    text: str
    history: tuple[TranscriptRow, ...] | None = None
    """What was said before; None if the stored conversation is meant."""
    instructions: str | None = None
    """How the conversation is to be led, in its owner's words."""

    @property
    def opening(self) -> str:
        """What a person says first in it."""
        return next((row.content for row in self.history or () if row.role == "user"), self.text)


def said_in(messages: Sequence[ChatMessage], before: Sequence[ChatMessage] | None = None) -> Said:
    """What a whole conversation says. The last message is what is said now; `before` stands in place of the
    others. Raises `Refusal`."""
    led = [_text(one) for one in (*(before or ()), *messages) if one.role in _LEADS]
    talk = [one for one in messages if one.role not in _LEADS]
    if not talk or talk[-1].role != "user" or not _text(talk[-1]).strip():
        message = "The last message is nothing that a person says."
        remedy = "End with a message of role user that has a text."
        raise Refusal(400, "no_text", message, remedy, param="messages")
    earlier = talk[:-1] if before is None else [one for one in before if one.role not in _LEADS]
    return Said(_text(talk[-1]), tuple(map(_row, earlier)), "\n\n".join(led) or None)


def _row(one: ChatMessage) -> TranscriptRow:
    calls = tuple(
        ToolCall(call.id, call.function.name, call.function.arguments) for call in one.tool_calls or ()
    )
    if one.role == "assistant":
        return TranscriptRow(
            "assistant", _text(one), 0, tool_calls=calls, finish="tool_calls" if calls else "completed"
        )
    if one.role == "tool":
        return TranscriptRow(
            "tool", _text(one), 0, tool_call_id=one.tool_call_id, tool_name=one.name, status="ok"
        )
    return TranscriptRow("user", _text(one), 0)


def _text(one: ChatMessage) -> str:
    if one.audio is not None or one.function_call is not None:
        raise _unreadable("Messages with `audio` or `function_call`")
    if one.content is None or isinstance(one.content, str):
        return one.content or one.refusal or ""
    return "\n".join(map(_text_of_part, one.content))


def _text_of_part(part: Part) -> str:
    text = part.text if part.type in ("text", "input_text", "output_text") else None
    if part.type == "refusal":  # a part of what a model answered
        text = part.refusal
    if text is None:
        raise _unreadable(f"Parts of type {part.type[:40]!r}")
    return text


def _unreadable(what: str) -> Refusal:
    remedy = "Send text, and links to what is no text."
    return Refusal(400, "unsupported_content", f"{what} cannot be read here.", remedy, param="messages")


# --- where it is said --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Place:
    """What a request says of where it belongs."""

    session_id: str | None
    key: str | None
    """Its idempotency key."""
    fingerprint: str
    """Of all that it says."""


@dataclass(frozen=True, slots=True)
class Entered:
    """What has become of a request."""

    posted: Posted
    session: str
    """By this name it goes on."""
    is_ours: bool
    """Whether its turn belongs to this request alone, and to no chat."""


def place_of(request: Request, body: bytes, session_id: str | None) -> Place:
    """Where this request belongs. Raises `Refusal` and `InvalidId`."""
    key = request.headers.get("idempotency-key")
    if key is not None and not 1 <= len(key) <= LONGEST_KEY:
        message = f"An Idempotency-Key has 1 to {LONGEST_KEY} characters."
        raise Refusal(400, "bad_idempotency_key", message, "Send a shorter one, or none.")
    if session_id is not None:
        path_safe_id(session_id)
    of = hashlib.sha256(f"{request.scope['path']}\n{session_id}\n".encode() + body).hexdigest()
    return Place(session_id, key, of)


async def enter(web: Web, said: Said, place: Place) -> Entered:
    """Say it, in the conversation it belongs to. Raises `Refusal`."""
    gateway = web.gateway
    # One after the other: which session a request goes into depends on what waits in it.
    async with web.entering:
        terms = gateway.home.config, gateway.home.world, gateway.control.takes_turns
        entry, is_new = await gateway.home.database.write(_enter, said, place, _name(said, place), *terms)
        if entry is None:
            entry, is_new = await gateway.home.database.write(
                _enter, said, place, gateway.home.world.new_id(), *terms
            )
        assert entry is not None  # noqa: S101 - nothing waits in a session that was not there
        origin = reached(gateway, entry)
        if is_new:
            web.changes.note(entry.session_id)
        event = MessageEvent(
            origin, said.text, idempotency_key=place.key, fingerprint=place.fingerprint if place.key else None
        )
        posted = await _posted(web, entry.session_key, event)
    is_ours = origin.platform == NAME and posted.status != "steered"
    return Entered(posted, place.session_id or entry.session_id, is_ours)


async def _posted(web: Web, key: str, event: MessageEvent) -> Posted:
    try:
        posted = await post(web.gateway.mailbox, key, event)
    except NoTurnsNow:
        raise Draining from None
    except TooManyWait as error:
        wait = {"Retry-After": str(RETRY_AFTER)}
        raise Refusal(429, "too_many_waiting", str(error), "Wait until one is answered.", wait) from None
    if event.idempotency_key is not None:
        for row in await web.gateway.home.database.read(inbox.by_ids, [posted.inbox_id]):
            if row.event.fingerprint != event.fingerprint:
                message = "This Idempotency-Key was used for another request."
                raise Refusal(422, "idempotency_key_reused", message, "Use a new key for a new request.")
    return posted


def _name(said: Said, place: Place) -> str:
    """What the session is called that a request belongs to."""
    if place.session_id is not None:
        return place.session_id
    if place.key is not None:
        return "key-" + _digest(place.key)
    return "talk-" + _digest(f"{said.instructions}\n{said.opening}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def _enter(
    db: sqlite3.Connection,
    said: Said,
    place: Place,
    name: str,
    config: GatewayConfig,
    world: World,
    may_begin: bool,
) -> tuple[SessionEntry | None, bool]:
    """The session in which it is said, and whether it has just been made. None for one that others use."""
    at = world.time()
    known = sessions.by_id(db, name)
    source = known.origin if known is not None and known.origin is not None else source_of(name)
    key = known.session_key if known is not None else key_of(source, config)
    current = sessions.open_by_key(db, key)
    if current is not None:
        again = MessageEvent(current.origin or source, idempotency_key=place.key)
        if place.key is not None and inbox.id_of(db, again) is not None:
            return current, False
    if not may_begin:
        raise Draining
    if current is not None:
        is_busy = inbox.count_pending(db, key) > 0 or turns.runs_in(db, current.session_id)
        if is_busy and place.session_id is None and place.key is None:
            return None, False
        if source.platform != NAME:
            if said.history is None:
                return current, False
            message = "This session lives in a chat, where everybody sees what was said."
            raise Refusal(409, "history_of_chat", message, "Leave the history out, or begin another session.")
        if said.history is None or _same(transcript.load(db, current.session_id), said.history):
            _instruct(db, current.session_id, said.instructions, at)
            return current, False
        settle.end_session(db, current.session_id, "history_given", at)
    session_id = name if known is None else world.new_id()
    entry = SessionEntry(
        session_key=key,
        session_id=session_id,
        created_at=at,
        updated_at=at,
        origin=source,
        display_name=known.display_name if known is not None else title_of(said.opening),
        platform=source.platform,
        chat_type=source.chat_type,
    )
    sessions.add(db, entry)
    _instruct(db, session_id, said.instructions, at)
    for row in said.history or ():
        transcript.append(db, session_id, replace(row, created_at=at))
    return entry, True


def _instruct(db: sqlite3.Connection, session_id: str, instructions: str | None, at: float) -> None:
    """Let this be what was said of how the conversation is to be led, if anything was."""
    if instructions is not None:
        transcript.instruct(db, session_id, TranscriptRow("system", instructions, at))


def _same(stored: Iterable[TranscriptRow], given: Iterable[TranscriptRow]) -> bool:
    """Whether this is what was said there. A client knows what people and the agent said to each other, and
    of an answer all of it, or the last part."""
    ours, theirs = _talk(stored), _talk(given)
    return len(ours) == len(theirs) and all(
        role == their_role
        and ("".join(told) == "".join(said) or (role == "assistant" and "".join(told) == said[-1]))
        for (role, said), (their_role, told) in zip(ours, theirs, strict=True)
    )


def _talk(rows: Iterable[TranscriptRow]) -> list[tuple[str, list[str]]]:
    """Who said what by turns, without the blanks."""
    talk: list[tuple[str, list[str]]] = []
    for row in rows:
        text = "".join(row.content.split())
        if row.role not in ("user", "assistant") or not text:
            continue
        if not talk or talk[-1][0] != row.role:
            talk.append((row.role, []))
        talk[-1][1].append(text)
    return talk
