"""Messages of people from stanzas. Pure, and raises for no stanza.

| a message | its chat | the id of the person |
|---|---|---|
| direct | the address of the person | the same |
| of a room | the address of the room | the address of the person if the room shows it, else room/nick |
| direct, by way of a room | room/nick | as in the room |

An address of the form room/nick is no identity: anybody may take a free nick.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from xml.etree.ElementTree import Element

from hermes_trio.platform import MessageEvent, SessionSource

from .stanzas import CLIENT, IDS, MUC_USER, bare

_REPLY, _FALLBACK = "{urn:xmpp:reply:0}reply", "{urn:xmpp:fallback:0}"
_ENCRYPTED = (
    "{eu.siacs.conversations.axolotl}encrypted",
    "{urn:xmpp:omemo:2}encrypted",
    "{jabber:x:encrypted}x",
)
_COMMAND = re.compile(r"!([a-z][a-z0-9_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Account:
    """The account of the bot, and the rules by which a message is addressed to it."""

    address: str
    nick: str
    rooms: frozenset[str] = frozenset()
    require_mention: bool = True
    commands: frozenset[str] = frozenset()
    """Names of the chat commands. Some programs keep a line that begins with a slash for themselves."""
    platform: str = "xmpp"
    account: str = "main"
    occupants: dict[str, str] = field(default_factory=dict)
    """Addresses of people by room/nick, where a room shows them."""

    def is_room(self, chat_id: str) -> bool:
        """Return True for the address of one of our rooms."""
        return "/" not in chat_id and bare(chat_id) in self.rooms


@dataclass(frozen=True, slots=True)
class LeftOut:
    """Why a message is for nobody, if it is worth a line in the log."""

    why: str = ""


def event_of(stanza: Element, account: Account, archived_as: str = "") -> MessageEvent | LeftOut:
    """Return the event of a message. `archived_as` is its id in our own archive."""
    sender, kind = stanza.get("from", ""), stanza.get("type", "normal")
    if kind not in ("chat", "normal", "groupchat") or not sender or bare(sender) == bare(account.address):
        return LeftOut()
    if any(stanza.find(one) is not None for one in _ENCRYPTED):
        return LeftOut("it is encrypted from end to end")
    body = stanza.findtext(f"{CLIENT}body")
    if not body or not body.strip():
        return LeftOut()
    room, _, nick = sender.partition("/")
    in_room = kind == "groupchat"
    if in_room and (not account.is_room(room) or nick in ("", account.nick)):
        return LeftOut()
    reply_to, text = _without_quote(stanza, body)
    text, is_named = _unaddressed(text.strip(), account.nick)
    if not text or (in_room and account.require_mention and not is_named):
        return LeftOut()
    if text.startswith("/me "):  # XEP-0245
        text = f"* {nick if in_room else bare(sender).partition('@')[0]} {text[4:]}"
    found = _COMMAND.match(text)
    if found and found[1] in account.commands:
        text = f"/{text[1:]}"
    is_private = not in_room and (stanza.find(f"{MUC_USER}x") is not None or account.is_room(room))
    chat_id = bare(sender) if in_room or not is_private else f"{bare(room)}/{nick}"
    person = account.occupants.get(f"{bare(room)}/{nick}") if in_room or is_private else bare(sender)
    source = SessionSource(
        platform=account.platform,
        account=account.account,
        chat_id=chat_id,
        chat_type="group" if in_room else "dm",
        chat_name=bare(room) if in_room else None,
        user_id=person or f"{bare(room)}/{nick}",
        user_name=nick if in_room or is_private else bare(sender).partition("@")[0],
    )
    return MessageEvent(
        source,
        text,
        message_id=_id(stanza, bare(room) if in_room else "") or archived_as or None,
        kind="command" if text.startswith("/") else "text",
        reply_to=reply_to,
    )


def archive_id(stanza: Element, address: str) -> str:
    """Return the id that a server has given to a message in its archive (XEP-0359)."""
    ids = (one.get("id", "") for one in stanza.iterfind(f"{IDS}stanza-id") if one.get("by") == address)
    return next(ids, "")


def occupant_of(stanza: Element) -> tuple[str, str | None, frozenset[str]]:
    """Return the room/nick of a presence in a room, the address of the person if it is shown (None for one
    who has left), and the codes of the room."""
    room, _, nick = stanza.get("from", "").partition("/")
    about = stanza.find(f"{MUC_USER}x")
    item = None if about is None else about.find(f"{MUC_USER}item")
    codes = () if about is None else (one.get("code", "") for one in about.iterfind(f"{MUC_USER}status"))
    shown = "" if item is None else bare(item.get("jid", ""))
    return f"{bare(room)}/{nick}", None if stanza.get("type") == "unavailable" else shown, frozenset(codes)


def _id(stanza: Element, room: str) -> str:
    """Return the id of a message: in a room that of the room, because people there can take the ids of
    others."""
    return (room and archive_id(stanza, room)) or stanza.get("id", "")


def _without_quote(stanza: Element, body: str) -> tuple[str | None, str]:
    """Return the id of the message replied to (XEP-0461), and the text without the quotation for programs
    that do not know replies (XEP-0428)."""
    reply = stanza.find(_REPLY)
    if reply is None:
        return None, body
    for one in stanza.iterfind(f"{_FALLBACK}fallback"):
        part = one.find(f"{_FALLBACK}body")
        if one.get("for") == "urn:xmpp:reply:0" and part is not None:
            start, end = part.get("start", "0"), part.get("end", "")
            if start.isdecimal() and end.isdecimal() and len(start + end) < 12:
                body = body[: int(start)] + body[int(end) :]
    return reply.get("id"), body


def _unaddressed(text: str, nick: str) -> tuple[str, bool]:
    """Return a text without our nick in front of it, and whether we are named."""
    name = re.escape(nick)
    found = re.match(rf"(?:@{name}(?:[:,]|(?=\s|\Z))|{name}[:,])\s*", text, re.IGNORECASE)
    if found:
        return text[found.end() :], True
    return text, re.search(rf"@{name}(?!\w)", text, re.IGNORECASE) is not None
