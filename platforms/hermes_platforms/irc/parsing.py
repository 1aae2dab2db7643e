"""Messages of people from lines of IRC. Pure, and raises for no line.

A line becomes `Heard` if it is addressed to us, and an event once its sender is known. A nick is no
identity: anybody may take a free one. So the id of a person is one of these. None can be mistaken for
another, because no account has a `!` or `@` in its name:

| the sender | id |
|---|---|
| is logged in, as the server says | the account, spelled as the lists of people spell it |
| has a mask of the lists, such as `*!kim@shell.example.org` | that mask |
| anybody else | `nick!user@host` |
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from hermes_trio.platform import MessageEvent, SessionSource

from .wire import Line, folded

ACTION = "ACTION"
_CTCP = "\x01"
_FORMATTING = re.compile(
    r"\x03(?:\d{1,2}(?:,\d{1,2})?)?|\x04(?:[0-9a-fA-F]{6}(?:,[0-9a-fA-F]{6})?)?|[\x00-\x08\x0a-\x1f\x7f]"
)
_COMMAND = re.compile(r"!([a-z][a-z0-9_-]*)(?=\s|$)")


@dataclass(frozen=True, slots=True)
class Me:
    """Our nick on this connection, and the rules by which a line is addressed to us."""

    nick: str
    platform: str = "irc"
    account: str = "main"
    require_mention: bool = True
    casemapping: str = "rfc1459"
    chantypes: str = "#&"
    statusmsg: str = ""
    commands: frozenset[str] = frozenset()
    """Names of the chat commands. Clients keep a line that begins with a slash for themselves."""

    def is_me(self, nick: str) -> bool:
        return self.folded(nick) == self.folded(self.nick)

    def folded(self, name: str) -> str:
        return folded(name, self.casemapping)

    def is_channel(self, target: str) -> bool:
        return target[:1] != "" and target[0] in self.chantypes


@dataclass(frozen=True, slots=True)
class Heard:
    """A message that is addressed to us."""

    id: str
    mask: str
    chat_id: str
    is_direct: bool
    text: str
    sent_at: float | None = None
    account: str | None = None
    """Account of the sender; empty if the sender has none, None if the line does not say."""

    @property
    def nick(self) -> str:
        return self.mask.partition("!")[0]


def hear(line: Line, me: Me, new_id: str, *, tags_account: bool = False) -> Heard | None:
    """Return the message in a line; None for a line that is none, or is not addressed to us. With
    `tags_account` the server marks the lines of people who are logged in. A notice is never answered, and
    neither is a bot: two bots would answer each other for ever."""
    if line.command != "PRIVMSG" or "!" not in line.source or me.is_me(line.nick) or "bot" in line.tags:
        return None
    target, text = line.param(0).lstrip(me.statusmsg), _without_ctcp(line.param(1), line.nick)
    is_direct = me.is_me(target)
    if text is None or not (is_direct or me.is_channel(target)):
        return None
    text, is_named = _unaddressed(_FORMATTING.sub("", text).strip(), me)
    if not text or not (is_direct or is_named or not me.require_mention):
        return None
    found = _COMMAND.match(text)
    if found and found[1] in me.commands:
        text = f"/{text[1:]}"
    return Heard(
        id=line.tags.get("msgid") or new_id,
        mask=line.source,
        chat_id=me.folded(line.nick if is_direct else target),
        is_direct=is_direct,
        text=text,
        sent_at=_time(line.tags.get("time", "")),
        account=line.tags.get("account", "" if tags_account else None),
    )


def event_of(heard: Heard, account: str, me: Me, known: Iterable[str] = ()) -> MessageEvent:
    """Return the event of a message. `known` are the accounts and masks of the lists of people."""
    source = SessionSource(
        platform=me.platform,
        account=me.account,
        chat_id=heard.chat_id,
        chat_type="dm" if heard.is_direct else "group",
        chat_name=None if heard.is_direct else heard.chat_id,
        user_id=person(heard.mask, account, known, me.casemapping),
        user_name=heard.nick,
    )
    return MessageEvent(
        source,
        heard.text,
        message_id=heard.id,
        kind="command" if heard.text.startswith("/") else "text",
        sent_at=heard.sent_at,
    )


def person(mask: str, account: str, known: Iterable[str], casemapping: str = "rfc1459") -> str:
    """Return the id of a person."""
    known = tuple(known)
    if account and not is_mask(account):
        name = folded(account, casemapping)
        spelled = (one for one in known if not is_mask(one) and folded(one, casemapping) == name)
        return next(spelled, name)
    return next((one for one in known if is_mask(one) and matches(mask, one, casemapping)), mask)


def is_mask(entry: str) -> bool:
    """Return True for a mask of the lists of people, and False for an account."""
    return "!" in entry or "@" in entry


def matches(mask: str, pattern: str, casemapping: str = "rfc1459") -> bool:
    """Return True if `nick!user@host` matches a pattern, in which `*` and `?` stand for any characters and
    for any one."""
    parts = (re.escape(part) for part in re.split(r"([*?])", folded(pattern, casemapping)))
    regex = "".join({r"\*": ".*", r"\?": "."}.get(part, part) for part in parts)
    return re.fullmatch(regex, folded(mask, casemapping), re.DOTALL) is not None


def ctcp_answer(line: Line, me: Me, version: str) -> str | None:
    """Return the answer to a request of a person's client, for a notice; None if none is due."""
    text = line.param(1)
    if line.command != "PRIVMSG" or "!" not in line.source or not text.startswith(_CTCP):
        return None
    if me.is_me(line.nick) or not me.is_me(line.param(0)):
        return None
    request, _, rest = text.strip(_CTCP).partition(" ")
    match request.upper():
        case "VERSION":
            return f"{_CTCP}VERSION {version}{_CTCP}"
        case "PING":
            return f"{_CTCP}PING {_FORMATTING.sub('', rest)[:60]}{_CTCP}"
    return None


def _without_ctcp(text: str, nick: str) -> str | None:
    """Return the text of an action (`/me waves`) as a sentence; None for a request of a client."""
    if not text.startswith(_CTCP):
        return text
    request, _, rest = text.strip(_CTCP).partition(" ")
    return f"* {nick} {rest}" if request.upper() == ACTION and rest.strip() else None


def _unaddressed(text: str, me: Me) -> tuple[str, bool]:
    """Return a text without our nick in front of it, and whether it was there."""
    nick = me.folded(me.nick)
    head = text.removeprefix("@")
    if me.folded(head[: len(nick)]) != nick:
        return text, False
    rest = head[len(nick) :]
    is_named = rest[:1] in (":", ",") or (head != text and rest[:1] in ("", " "))
    return (rest.lstrip(":, \t"), True) if is_named else (text, False)


def _time(written: str) -> float | None:
    try:
        return datetime.fromisoformat(written).timestamp()
    except (ValueError, OverflowError):
        return None
