"""The link to a mailbox: what the gateway sends and receives.

Each mail goes to its reader and to our own mailbox too. The copy takes the same way, so if it is there the
mail was accepted: that is how one that may have been sent is found again, on any server.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from email.utils import formatdate
from functools import partial
from typing import TypeVar

import trio

from hermes_trio.platform import (
    BaseLink,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    LinkLost,
    Log,
    MessageEvent,
    NotSent,
    Outgoing,
    PlatformError,
    Refused,
    Traits,
)

from ..attached_files import read_attached
from ..contract_calls import ContractCalls
from .composing import composed, message_id_of
from .imap import ImapConnection, ImapLost, ImapRefused, open_imap
from .mailbox import Mail, Mailbox, loss_of
from .parsing import Refusal, Thread, content, parsed, read, thread_of
from .settings import ADDRESS, EmailSettings
from .smtp import Denied, Submissions

TRAITS = Traits(limit=50_000, sends_files=True, fetches=True, finds=True)

Threads = dict[str, Thread | None]
"""The thread of the last mail of each chat, the latest at the end; None for a chat without mail."""
MOST_THREADS = 1000
LARGEST = 20 << 20

_T = TypeVar("_T")
log = Log(__name__)


class Calls(ContractCalls[Denied]):
    """Submissions as the contract knows them."""

    service = "The mail server"

    def __init__(self, submissions: Submissions, platform: str) -> None:
        # A server that takes no mail for a moment does not end the mailbox.
        super().__init__(lambda: submissions.closed, lambda why: None)
        self._platform = platform

    def refusal(self, no: Denied) -> PlatformError:
        """As `ContractCalls.refusal`."""
        if no.step == "login" and no.code >= 500:
            return CredentialsRefused(self._platform, "password")
        if no.code < 500:
            return NotSent(f"The mail server: {no}.") if no.seconds is None else FloodWait(no.seconds)
        is_gone = no.text.startswith(("5.1.1 ", "5.1.10 "))  # no such mailbox
        return (ChatGone if is_gone else Refused)(f"The mail server: {no}.")


class EmailLink(BaseLink):
    """A link to a mailbox, until its server cannot be reached."""

    def __init__(
        self,
        settings: EmailSettings,
        mailbox: Mailbox,
        submissions: Submissions,
        threads: Threads,
        platform: str,
        account: str,
    ) -> None:
        super().__init__(TRAITS)
        self._settings, self._mailbox, self._submissions = settings, mailbox, submissions
        self._threads, self._platform, self._account = threads, platform, account
        self._calls = Calls(submissions, platform)

    # --- messages of people ---

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self._mailbox, self._event)

    def _event(self, mail: Mail) -> MessageEvent | None:
        """Return the event of a mail; None if it is for nobody."""
        found = read(mail.data, mail.number, self._settings, self._platform, self._account)
        if isinstance(found, Refusal):
            log.info("mail left out", platform=self._platform, why=found.why)
            return None
        if found.kind != "unreadable":
            self._note_thread(found.source.chat_id, thread_of(parsed(mail.data)))
        return found

    def _note_thread(self, chat_id: str, thread: Thread | None) -> None:
        self._threads.pop(chat_id, None)
        self._threads[chat_id] = thread
        while len(self._threads) > MOST_THREADS:
            del self._threads[next(iter(self._threads))]

    async def _fetch(self, file_id: str, most: int) -> bytes:
        validity, _, rest = file_id.partition("/")
        uid, _, place = rest.partition("/")
        if not (uid.isdecimal() and place.isdecimal()):
            raise Refused("This is no id of a file of a mail.")
        data = await self._asked(partial(_fetched, validity=validity, uid=int(uid)))
        parts = [] if data is None else list(parsed(data).iter_attachments())
        if int(place) >= len(parts):
            raise Refused("The file is not there any more.")
        file = content(parts[int(place)])
        if len(file) > most:
            raise Refused(f"The file has {len(file)} bytes.")
        return file

    # --- messages of the gateway ---

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`. The mail answers the last one of its chat."""
        if not ADDRESS.fullmatch(message.chat_id):
            raise Refused("This is no address of mail.")
        files = [await read_attached(file, "A mail") for file in message.attachments]
        if sum(len(data) for _, data in files) > LARGEST:
            raise Refused(f"The files have more than {LARGEST} bytes.")
        try:
            thread = await self._thread(message.chat_id)
        except LinkLost as error:  # nothing was sent yet
            raise NotSent(str(error)) from error
        date = formatdate(localtime=False)
        data = composed(message, thread, files, self._settings, date)
        recipients = [message.chat_id, self._settings.address]
        await self._calls.sent(partial(self._submissions.submit, recipients, data))
        return message_id_of(message.key, self._settings)

    async def _thread(self, chat_id: str) -> Thread | None:
        """Return the thread of the last mail of a chat: after a restart the mailbox knows it."""
        if chat_id not in self._threads:
            who = "TO" if chat_id in self._settings.groups else "FROM"
            data = await self._asked(partial(_last_header, criteria=f'{who} "{chat_id}"'))
            self._note_thread(chat_id, None if data is None else thread_of(parsed(data)))
        return self._threads[chat_id]

    async def _find(self, chat_id: str, key: str, thread_id: str | None) -> str | None:
        message_id = message_id_of(key, self._settings)
        criteria = f'HEADER Message-ID "{message_id}"'
        found = await self._asked(lambda imap: imap.search(criteria))
        return message_id if found else None

    async def _asked(self, ask: Callable[[ImapConnection], Awaitable[_T]]) -> _T:
        """Ask the mailbox on a connection of its own: the other one waits in IDLE."""
        if self._submissions.closed:
            await trio.lowlevel.checkpoint()
            raise LinkLost("The link is closed.")
        try:
            async with open_imap(self._settings) as imap:
                await imap.select(to_read=True)
                return await ask(imap)
        except (ImapLost, ImapRefused, OSError) as error:
            raise LinkLost(str(loss_of(error, self._platform))) from error


class Incoming:
    """Iterator of events. A cancelled call loses nothing."""

    def __init__(self, mailbox: Mailbox, event_of: Callable[[Mail], MessageEvent | None]) -> None:
        self._mailbox, self._event_of = mailbox, event_of
        self._handed_out: Mail | None = None

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._handed_out is not None:  # the gateway asks for the next one: this one is stored
            self._mailbox.stored(self._handed_out)
            self._handed_out = None
        while True:
            mail = await self._mailbox.next()
            if (event := self._event_of(mail)) is not None:
                self._handed_out = mail
                return event
            self._mailbox.stored(mail)


async def _fetched(imap: ImapConnection, *, validity: str, uid: int) -> bytes | None:
    if await imap.select(to_read=True) != validity:
        return None  # the numbers of then are of other mails now
    return await imap.fetch(uid)


async def _last_header(imap: ImapConnection, *, criteria: str) -> bytes | None:
    found = await imap.search(criteria)
    return await imap.fetch(found[-1], "HEADER") if found else None
