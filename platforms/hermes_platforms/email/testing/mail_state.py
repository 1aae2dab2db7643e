"""State of a mail server for tests: one mailbox, and the mails that were submitted for people."""

from __future__ import annotations

import ssl
from dataclasses import dataclass
from email.message import EmailMessage
from email.utils import formatdate

import trio

from hermes_trio.platform import MessageEvent, Outgoing, Traits
from hermes_trio.testing import Stage, WaitingEvent

from ..settings import EmailSettings

TRAITS = Traits(limit=50_000, finds=True)


@dataclass(slots=True)
class StoredMail:
    """A mail in the mailbox."""

    uid: int
    data: bytes
    is_read: bool = False
    waiting: WaitingEvent | None = None


class MailState(Stage):
    """State of one mailbox, and of the submission for people."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account, TRAITS)
        self.address, self.password = "hermes_bot", "password-of-nobody"
        self.imap_port = self.smtp_port = 0
        self.smtp_tls: ssl.SSLContext | None = None
        """Offer encryption by STARTTLS, with this certificate."""
        self.lets_in = True
        """The password is valid."""
        self.mails: list[StoredMail] = []
        self.sent: list[bytes] = []
        """Mails that were accepted for people."""
        self._noted: set[int] = set()
        self._message_id = ""

    @property
    def settings(self) -> EmailSettings:
        """The settings of the mailbox, for laws: its people have addresses without a domain."""
        return EmailSettings(
            address=self.address,
            password=self.password,
            imap_host="127.0.0.1",
            smtp_host="127.0.0.1",
            imap_port=self.imap_port,
            smtp_port=self.smtp_port,
            tls=False,
            groups=("-100",),
            trust_from=True,
        )

    # --- for tests ---

    def refuses(self) -> None:
        """Make the password invalid from now on."""
        self.lets_in = False

    def put(self, data: bytes, *, waiting: WaitingEvent | None = None) -> None:
        """Put a mail into the mailbox."""
        self.mails.append(StoredMail(len(self.mails) + 1, data, waiting=waiting))
        self.changed.set()

    # --- for the sessions ---

    def note_posts(self) -> None:
        """Put what people have written into the mailbox."""
        for one in list(self._waiting):
            if one.number not in self._noted:
                self._noted.add(one.number)
                self.put(self._mail(one.event), waiting=one)

    def mark_read(self, uid: int) -> None:
        """Mark a mail as read: its event is stored."""
        for mail in self.mails:
            if mail.uid == uid:
                mail.is_read = True
                if mail.waiting is not None:
                    self.accept(mail.waiting)
        self.changed.set()

    def new_message_id(self) -> str:
        """As `Stage.new_message_id`."""
        return self._message_id

    async def send(self, message: Outgoing) -> str:
        """As `Stage.send`. The id of the message is that of the mail."""
        self.note("send", message.chat_id, text=message.text, key=message.key)

        def show() -> str:
            self._message_id = message.key
            return self._chats.show(message, trio.current_time())

        return await self._perform("send", message.chat_id, show)

    def _mail(self, event: MessageEvent) -> bytes:
        source = event.source
        mail = EmailMessage()
        mail["From"] = source.user_id
        mail["To"] = self.address if source.chat_type == "dm" else source.chat_id
        mail["Date"], mail["Message-ID"] = formatdate(), f"<{event.message_id}@people.test>"
        if event.reply_to is not None:
            mail["In-Reply-To"] = event.reply_to
        mail.set_content(event.text)
        for file in event.attachments:
            data = self.files.get(file.file_id or "", b"")
            mail.add_attachment(data, maintype="application", subtype="octet-stream", filename=file.name)
        return mail.as_bytes()
