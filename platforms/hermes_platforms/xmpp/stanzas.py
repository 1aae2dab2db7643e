"""Stanzas that we send, and the errors that come back. Pure.

The key of a message makes its id. The server keeps it with the message (`origin-id`, XEP-0359), so one that
may have been sent is found again in the archive.
"""

from __future__ import annotations

import hashlib
import re
from xml.etree.ElementTree import Element, SubElement

from hermes_trio.platform import (
    ChatGone,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
)

CLIENT = "{jabber:client}"
MESSAGE, PRESENCE, IQ = f"{CLIENT}message", f"{CLIENT}presence", f"{CLIENT}iq"
IDS = "{urn:xmpp:sid:0}"
ERRORS = "{urn:ietf:params:xml:ns:xmpp-stanzas}"
CHAT_STATES = "{http://jabber.org/protocol/chatstates}"
UNSTYLED = "{urn:xmpp:styling:0}unstyled"
MUC = "{http://jabber.org/protocol/muc}"
MUC_USER = "{http://jabber.org/protocol/muc#user}"
DISCO = "{http://jabber.org/protocol/disco#info}"
REQUEST_ACK = "<r xmlns='urn:xmpp:sm:3'/>"

DEFAULT_WAIT = 10.0
_SECONDS = re.compile(r"(\d{1,5}) ?s(?:ec|\b)")
_FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML cannot hold: a server ends the connection that sends one."""


class NotInRoom(NotSent):
    """The room has forgotten us."""


def id_of(key: str, chat_id: str, address: str) -> str:
    """Return the id of the message with a key."""
    digest = hashlib.sha256(f"{address}\n{chat_id}\n{key}".encode()).hexdigest()[:32]
    return f"hermes-{digest}"


def message_of(message: Outgoing, address: str, *, is_room: bool) -> Element:
    """Return the stanza of a message. One with a part that is shown exactly says that nothing in it is markup
    (XEP-0393)."""
    stanza_id = id_of(message.key, message.chat_id, address)
    stanza = Element(MESSAGE, to=message.chat_id, type="groupchat" if is_room else "chat", id=stanza_id)
    SubElement(stanza, f"{CLIENT}body").text = valid(message.text)
    SubElement(stanza, f"{IDS}origin-id", id=stanza_id)
    if message.preformatted:
        SubElement(stanza, UNSTYLED)
    if not is_room:
        SubElement(stanza, f"{CHAT_STATES}active")
    return stanza


def composing(chat_id: str) -> Element:
    """Return the stanza that shows for a while that somebody writes (XEP-0085)."""
    stanza = Element(MESSAGE, to=chat_id, type="chat")
    SubElement(stanza, f"{CHAT_STATES}composing")
    SubElement(stanza, "{urn:xmpp:hints}no-store")
    return stanza


def joining(room: str, nick: str) -> Element:
    """Return the presence that joins a room (XEP-0045), without what was said there before."""
    stanza = Element(PRESENCE, to=f"{room}/{nick}")
    SubElement(SubElement(stanza, f"{MUC}x"), f"{MUC}history", maxstanzas="0")
    return stanza


def presence(to: str = "", kind: str = "") -> Element:
    """Return a presence."""
    return Element(PRESENCE, {name: value for name, value in (("to", to), ("type", kind)) if value})


def disco(address: str) -> Element:
    """Return the question what an address can do (XEP-0030)."""
    stanza = Element(IQ, to=address, type="get")
    SubElement(stanza, f"{DISCO}query")
    return stanza


def valid(text: str) -> str:
    """Replace what XML cannot hold."""
    return _FORBIDDEN.sub("\N{REPLACEMENT CHARACTER}", text)


def bare(address: str) -> str:
    """Return an address without its device, or a room without the nick."""
    return address.partition("/")[0].lower()


def condition_of(stanza: Element) -> tuple[str, str, str]:
    """Return the condition, the type and the text of the error in a stanza (RFC 6120, 8.3)."""
    error = stanza.find(f"{CLIENT}error")
    if error is None:
        return "undefined-condition", "cancel", ""
    text = error.findtext(f"{ERRORS}text") or ""
    names = (one.tag.removeprefix(ERRORS) for one in error if one.tag.startswith(ERRORS))
    condition = next((name for name in names if name != "text"), "undefined-condition")
    return condition, error.get("type", "cancel"), text[:200]


def error_of(stanza: Element, *, is_room: bool) -> PlatformError:
    """Return what an error says of the message that it answers."""
    condition, kind, text = condition_of(stanza)
    why = f"XMPP: {text or condition}"
    match condition:
        case "remote-server-timeout":
            return OutcomeUnknown(why)
        case "gone" | "item-not-found":
            return ChatGone(why)
        case "service-unavailable" if not is_room and kind == "cancel":
            return ChatGone(why)  # how a server says that there is no such account
        case "not-acceptable" if is_room:
            return NotInRoom(f"We are not in the room now: {why}")
        case "policy-violation" | "resource-constraint" if kind == "wait":
            found = _SECONDS.search(text)
            return FloodWait(float(found[1]) if found else DEFAULT_WAIT)
        case "remote-server-not-found":
            return NotSent(why)
    return NotSent(why) if kind == "wait" else Refused(why)
