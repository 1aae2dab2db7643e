"""A message of the gateway as a mail. Pure.

The key makes the Message-ID, so a mail that may have been sent can be found again, and a repeat of it is one
that many servers and programs drop.
"""

from __future__ import annotations

import hashlib
import mimetypes
from collections.abc import Sequence
from email import policy
from email.message import EmailMessage

from hermes_trio.platform import Outgoing

from .parsing import Thread
from .settings import EmailSettings

MOST_REFERENCES = 20


def message_id_of(key: str, settings: EmailSettings) -> str:
    """Return the Message-ID of the message with a key."""
    digest = hashlib.sha256(f"{settings.address}\n{key}".encode()).hexdigest()[:32]
    return f"<hermes.{digest}@{settings.domain or 'localhost'}>"


def composed(
    message: Outgoing,
    thread: Thread | None,
    files: Sequence[tuple[str, bytes]],
    settings: EmailSettings,
    date: str,
) -> bytes:
    """Return the mail of a message. It says that a program has written it, so that no other one answers."""
    mail = EmailMessage(policy.SMTP.clone(cte_type="7bit"))
    mail["From"], mail["To"] = settings.address, message.chat_id
    mail["Date"], mail["Message-ID"] = date, message_id_of(message.key, settings)
    subject = thread.subject if thread is not None else ""
    mail["Subject"] = f"Re: {subject}" if subject else "Message from Hermes"
    if thread is not None and thread.message_id:
        references = [*(one for one in thread.references if one != thread.message_id), thread.message_id]
        if len(references) > MOST_REFERENCES:
            references = [references[0], *references[1 - MOST_REFERENCES :]]
        mail["In-Reply-To"], mail["References"] = thread.message_id, " ".join(references)
    mail["Auto-Submitted"] = "auto-replied"
    mail["X-Auto-Response-Suppress"] = "All"
    mail.set_content(message.text, cte="base64" if not message.text.isascii() else None)
    for name, data in files:
        main, _, sub = (mimetypes.guess_type(name)[0] or "application/octet-stream").partition("/")
        mail.add_attachment(data, maintype=main, subtype=sub, filename=name)
    return mail.as_bytes()
