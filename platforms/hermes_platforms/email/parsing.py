"""Conversion of a mail to an event. Pure; it raises for no bytes.

A mail is for nobody if it is our own, if a program has written it, if its sender is not listed, or if our
server does not say that it is from its sender: an answer would go to somebody else, or two programs would
answer each other for ever.

A chat is a person. A mail that came to us by the address of a group is of the chat of that group.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from email import policy
from email.message import EmailMessage
from email.parser import BytesParser
from email.utils import getaddresses, parsedate_to_datetime
from typing import Literal

from hermes_trio.platform import Attachment, MessageEvent, SessionSource

from .authentication import is_authentic
from .readable import text_of
from .settings import ADDRESS, EmailSettings

_CONTENT = re.compile(rb"^content-[^\r\n]*\r?\n(?:[ \t][^\r\n]*\r?\n)*", re.IGNORECASE | re.MULTILINE)
_MESSAGE_ID = re.compile(r"<[^<>\s]{1,900}>")
_ANSWERS = re.compile(r"\A(?:\s*(?:re|aw|sv|antw|fwd?|wg)(?:\[\d+\])?\s*:)+", re.IGNORECASE)
_PROGRAM = re.compile(r"(?:no|do-?not)-?reply|mailer-daemon|postmaster|bounces?(?:[+-].*)?", re.IGNORECASE)


AttachmentKind = Literal["photo", "audio", "video", "document"]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a mail is for nobody."""

    why: str


@dataclass(frozen=True, slots=True)
class Thread:
    """The headers by which an answer is shown below a mail."""

    message_id: str
    references: tuple[str, ...]
    subject: str


def parsed(data: bytes) -> EmailMessage:
    """Parse a mail."""
    mail = BytesParser(EmailMessage, policy=policy.default.clone(raise_on_defect=False)).parsebytes(data)
    assert isinstance(mail, EmailMessage)  # noqa: S101 - the parser was told
    return mail


def read(
    data: bytes, number: str, settings: EmailSettings, platform: str, account: str
) -> MessageEvent | Refusal:
    """Return the event of a mail, or why there is none. `number` is its place in the mailbox. A mail that
    cannot be read is an event with its beginning."""
    try:
        mail = parsed(data)
        return _read(mail, number, settings, platform, account)
    except Exception as error:  # of any kind: the parser of the library is lenient, and its values are not
        return MessageEvent(
            SessionSource(platform, "", account=account),
            f"{type(error).__name__} in a mail\n{data[:10_000].decode('utf-8', 'replace')}",
            message_id=f"mail:{number}",
            kind="unreadable",
        )


def _read(
    mail: EmailMessage, number: str, settings: EmailSettings, platform: str, account: str
) -> MessageEvent | Refusal:
    senders = _addresses(mail, "from")
    if len(senders) != 1:
        return Refusal("it has not one sender")
    [(name, sender)] = senders
    if (why := _no_person(mail, sender, settings)) is not None:
        return Refusal(why)
    receivers = [one for _, one in _addresses(mail, "to", "cc")]
    group = next((one for one in receivers if one in settings.groups), None)
    if settings.address in receivers:
        group = None
    elif group is None:
        return Refusal("it is addressed to somebody else")
    text = text_of(mail)
    if group is not None and settings.require_mention:
        called = settings.address.partition("@")[0]
        if f"@{called}" not in f"{_header(mail, 'subject')}\n{text}":
            return Refusal("it does not mention us")
    subject = plain_subject(_header(mail, "subject"))
    if subject and not mail["in-reply-to"] and not text.startswith("/"):
        text = f"[Subject: {subject}]\n{text}"
    files = tuple(
        Attachment(
            _kind(part),
            name=part.get_filename(),
            mime_type=part.get_content_type(),
            size=len(content(part)),
            file_id=f"{number}/{place}",
        )
        for place, part in enumerate(mail.iter_attachments())
    )
    if not (text or files):
        return Refusal("it is empty")
    return MessageEvent(
        SessionSource(
            platform=platform,
            account=account,
            chat_id=group or sender,
            chat_type="dm" if group is None else "group",
            user_id=sender,
            user_name=name or None,
        ),
        text,
        message_id=thread_of(mail).message_id or f"mail:{number}",
        kind="command" if text.startswith("/") else "text",
        attachments=files,
        reply_to=next(iter(_MESSAGE_ID.findall(_header(mail, "in-reply-to"))), None),
        sent_at=_time(mail),
    )


def _no_person(mail: EmailMessage, sender: str, settings: EmailSettings) -> str | None:
    """Return why a mail is not of a person who may write to us; None if it is."""
    if not ADDRESS.fullmatch(sender):
        return "its sender has an address of an unknown form"
    if sender == settings.address:
        return "it is our own"
    if _header(mail, "auto-submitted").lower().partition(";")[0].strip() not in ("", "no"):
        return "a program has answered"
    if _header(mail, "precedence").lower() in ("bulk", "junk", "list", "auto_reply"):
        return "it was sent to many"
    if any(mail[one] for one in ("list-id", "list-unsubscribe", "x-auto-response-suppress", "feedback-id")):
        return "it was sent by a program"
    if _PROGRAM.fullmatch(sender.partition("@")[0]) or _header(mail, "return-path").strip() == "<>":
        return "its sender is a program"
    if settings.allow_from != "all" and sender not in settings.allow_from:
        return "its sender may not talk"
    if not settings.trust_from and not is_authentic(mail, sender, settings.authserv_id):
        return "our server does not say that it is from its sender"
    return None


def shortened(header: bytes, size: int) -> bytes:
    """Return a mail that is too long: its header, and a text that says so."""
    kept = _CONTENT.sub(b"", header.rstrip(b"\r\n") + b"\r\n")
    return kept + f"\r\n[This mail has {size} bytes, and is too long to be read.]\r\n".encode()


def thread_of(mail: EmailMessage) -> Thread:
    """Return what an answer needs."""
    message_id = next(iter(_MESSAGE_ID.findall(_header(mail, "message-id"))), "")
    references = _MESSAGE_ID.findall(_header(mail, "references")) or _MESSAGE_ID.findall(
        _header(mail, "in-reply-to")
    )
    return Thread(message_id, tuple(references), plain_subject(_header(mail, "subject")))


def plain_subject(subject: str) -> str:
    """Return a subject without the marks of answers."""
    return re.sub(
        r"\A(?:\s*(?:re|aw|sv|antw|fwd?|wg)(?:\[\d+\])?\s*:)+", "", subject, flags=re.IGNORECASE
    ).strip()


def content(part: EmailMessage) -> bytes:
    """Return the content of an attachment."""
    data = part.get_payload(decode=True)
    if isinstance(data, bytes):
        return data
    return b"".join(one.as_bytes() for one in part.get_payload())  # type: ignore[union-attr]


def _kind(part: EmailMessage) -> AttachmentKind:
    match part.get_content_maintype():
        case "image":
            return "photo"
        case "audio":
            return "audio"
        case "video":
            return "video"
        case _:
            return "document"


def _header(mail: EmailMessage, name: str) -> str:
    return " ".join(str(mail.get(name, "")).split())


def _addresses(mail: EmailMessage, *names: str) -> list[tuple[str, str]]:
    """Return names and addresses of headers. An address is in small letters."""
    headers = [str(one) for name in names for one in mail.get_all(name, ())]
    return [(name, address.lower()) for name, address in getaddresses(headers) if address]


def _time(mail: EmailMessage) -> float | None:
    try:
        return parsedate_to_datetime(_header(mail, "date")).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
