"""The library behind the link: slixmpp, which knows only asyncio, on a loop inside Trio.

One loop serves one stream and lives as long as a block: at its end the tasks of asyncio are cancelled and
have ended. Callbacks of the library run between two steps of Trio's tasks, in the same thread, so they may
set events of Trio. What goes wrong in a task or a callback that nobody waits for is logged, and ends nothing.

Importing this module imports trio-asyncio, which changes asyncio for the whole process: it is imported when
an account connects, and not before.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast
from xml.etree.ElementTree import Element

import trio
import trio_asyncio
from slixmpp import ClientXMPP
from slixmpp.exceptions import IqError, IqTimeout
from slixmpp.plugins.base import register_plugin
from slixmpp.plugins.xep_0198 import XEP_0198
from slixmpp.stanza import Iq, Message, Presence
from slixmpp.xmlstream.handler import Callback
from slixmpp.xmlstream.matcher import MatchXPath

from hermes_trio.platform import CredentialsRefused, LinkLost, Log, PlatformError

from .settings import RESOURCE, XmppSettings
from .stanzas import IQ, MESSAGE, PRESENCE, REQUEST_ACK, bare

CONNECT_WITHIN = 60.0
ANSWER_WITHIN = 60
GOODBYE_WITHIN = 1.0
LOGINS = {"SCRAM-SHA-512", "SCRAM-SHA-256", "SCRAM-SHA-1", "PLAIN"}
_NO_PERSON = ("account-disabled", "credentials-expired", "invalid-authzid", "not-authorized")

log = Log(__name__)
logging.getLogger("slixmpp").setLevel(logging.CRITICAL)  # it would log what people write


@asynccontextmanager
async def open_asyncio_loop(platform: str) -> AsyncIterator[asyncio.AbstractEventLoop]:
    """Run a loop of asyncio while inside. An exception of the caller's block leaves it as it was raised, and
    not in a group."""

    def handle(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        error = context.get("exception")
        log.warning(
            "background task of the XMPP library failed",
            platform=platform,
            error=type(error).__name__ if error is not None else str(context.get("message")),
        )

    raised = None
    async with trio_asyncio.open_loop() as loop:
        loop.set_exception_handler(handle)
        try:
            yield loop
        except Exception as error:  # of any kind: the nurseries of the loop would put it into a group
            raised = error
    if raised is not None:
        raise raised


class StoredAcks(XEP_0198):
    """Stream management that acknowledges what is stored, and not what has come."""

    name = "stored_acks"

    def plugin_init(self) -> None:
        """Begin, with nobody who acknowledges."""
        super().plugin_init()  # type: ignore[no-untyped-call]
        self.on_request: Callable[[], None] = lambda: None

    def send_ack(self) -> None:
        """Note that the server asks for an acknowledgement."""
        self.on_request()

    def acknowledge(self, number: int) -> None:
        """Acknowledge the stanzas up to this number."""
        if self.xmpp.transport and self.enabled_in:
            self.xmpp.send_raw(f"<a xmlns='urn:xmpp:sm:3' h='{number}'/>")

    def _handle_resumed(self, stanza: Any) -> None:
        # What was on its way when the last connection broke is looked up, and not sent again from here.
        self.last_ack = self.seq = stanza["h"]
        super()._handle_resumed(stanza)  # type: ignore[no-untyped-call]


register_plugin(StoredAcks)


class XmppStream(ClientXMPP):
    """One stream to a server. `on_stanza` gets each message and presence with its number, `on_sent` the id of
    each stanza that the server has taken."""

    def __init__(
        self,
        settings: XmppSettings,
        context: ssl.SSLContext | None,
        loop: asyncio.AbstractEventLoop,
        platform: str,
        *,
        resource: str = RESOURCE,
    ) -> None:
        super().__init__(f"{settings.address}/{resource}", settings.password, loop=loop, ssl_context=context)
        self._settings, self._platform = settings, platform
        self.ready, self.ended = trio.Event(), trio.Event()
        self.loss: PlatformError | None = None
        self.is_resumed = False
        self.stanzas_heard = 0
        self._trouble = ""
        self.on_stanza: Callable[[Element, int], None] = lambda stanza, number: None
        self.on_sent: Callable[[str], None] = lambda stanza_id: None
        self.register_plugin("stored_acks", {"window": 1 << 62})  # the link asks for acknowledgements
        self.acks: StoredAcks = cast("StoredAcks", self.plugin.get("stored_acks", None))
        login = self.plugin["feature_mechanisms"]
        login.use_mechs = set(LOGINS)
        login.unencrypted_plain = login.unencrypted_scram = not settings.tls
        self.enable_starttls = self.enable_direct_tls = settings.tls
        self.enable_plaintext = not settings.tls
        for name in ("IM", "IMError", "Presence"):  # people and rooms are the business of the link
            self.remove_handler(name)
        for tag in (MESSAGE, PRESENCE):
            self.register_handler(Callback(tag, MatchXPath(tag), self._take))
        for event, handler in (
            ("sm_enabled", self._started),
            ("session_resumed", self._resumed),
            ("stream_negotiated", self._negotiated),
            ("stanza_acked", lambda stanza: self.on_sent(stanza.xml.get("id", ""))),
            ("connection_failed", self._unreached),
            ("ssl_invalid_chain", self._unreached),
            ("reconnect_delay", lambda _: self.lose(f"it cannot be reached: {self._trouble}")),
            ("failed_auth", self._refused),
            ("failed_all_auth", lambda _: self.lose("it offers no login that is safe")),
            ("stream_error", lambda error: self.lose(f"it says {error['condition']}")),
            ("disconnected", self._disconnected),
        ):
            self.add_event_handler(event, handler)

    # --- for the link ---

    async def open(self, session_id: str, handled: int) -> None:
        """Connect, log in, and resume a session or begin one. Raises `CredentialsRefused` or `LinkLost`."""
        self.acks.sm_id, self.acks.handled = session_id or None, handled
        settings = self._settings
        self.connect(*((settings.host, settings.port) if settings.host else ()))
        with trio.move_on_after(CONNECT_WITHIN):
            await self.ready.wait()
        if self.loss is None and not self.ready.is_set():
            self.lose(f"it did not let us in within {CONNECT_WITHIN:g} seconds")
        if self.loss is None and self._settings.tls and not self.get_ssl_object():
            self.lose("the connection is not encrypted")
        if self.loss is not None:
            raise self.loss

    @property
    def session_id(self) -> str:
        """Id by which the session can be resumed; empty if it cannot."""
        return self.acks.sm_id or ""

    def get_ssl_object(self) -> object:
        """Return the encryption of the connection; None if there is none."""
        return self.transport.get_extra_info("ssl_object") if self.transport else None

    def put(self, stanza: Element) -> None:
        """Send a stanza, after those before it."""
        kind = {MESSAGE: Message, PRESENCE: Presence}[stanza.tag]
        self.send(kind(self, xml=stanza))

    def ask_for_ack(self) -> None:
        """Ask the server which stanzas it has taken."""
        self.send(REQUEST_ACK)

    async def ask(self, stanza: Element) -> Element:
        """Send a question and return its answer. Raises `IqError` or `LinkLost`; a cancellation of the caller
        cancels the wait of the library too."""
        await trio.lowlevel.checkpoint()
        if self.loss is not None:
            raise LinkLost(str(self.loss))
        request = cast("Any", Iq)(self, xml=stanza)
        request["id"] = self.new_id()
        answer = request.send(timeout=ANSWER_WITHIN)
        found: list[Element] = []
        async with trio.open_nursery() as nursery:

            async def until_ended() -> None:
                await self.ended.wait()
                answer.cancel()

            nursery.start_soon(until_ended)
            try:
                found.append((await trio_asyncio.run_aio_future(answer)).xml)
            except IqTimeout:
                self.lose("it does not answer")
            except IqError as error:
                found.append(error.iq.xml)
            except asyncio.CancelledError:  # noqa: ASYNC103 - of the answer, and not of this task
                pass  # the stream has ended
            nursery.cancel_scope.cancel(reason="answered")
        if not found:
            raise LinkLost(str(self.loss or "The XMPP server did not answer."))
        return found[0]

    def lose(self, why: str) -> None:
        """Note that the stream has ended, or is of no use."""
        self.loss = self.loss or LinkLost(f"The XMPP server: {why}.")
        self.ready.set()
        self.ended.set()

    async def close(self) -> None:
        """End the stream: in order if it works, else at once."""
        was_good = self.loss is None
        self.lose("the link is closed")
        self.cancel_connection_attempt()
        if self.transport and was_good:
            with trio.move_on_after(GOODBYE_WITHIN, shield=True):
                self._gone = trio.Event()
                self.send_raw(self.stream_footer)
                await self._gone.wait()
        self.abort()

    # --- events of the library ---

    _gone: trio.Event | None = None

    def _take(self, stanza: Any) -> None:
        self.on_stanza(stanza.xml, self.acks.handled)

    def incoming_filter(self, xml: Element) -> Element:
        """Count what the server says, as a sign of life."""
        self.stanzas_heard += 1
        return xml

    def exception(self, exception: Exception) -> None:
        """Log what has failed in a handler."""
        log.warning("XMPP library failed", platform=self._platform, error=type(exception).__name__)

    def _started(self, _: object) -> None:
        if bare(self.boundjid.full) == bare(self._settings.address):
            self.ready.set()
        else:
            self.lose("it has logged us in as somebody else")

    def _resumed(self, _: object) -> None:
        self.is_resumed = True
        self.ready.set()

    def _negotiated(self, _: object) -> None:
        if not self.ready.is_set():
            self.lose("it has no stream management (XEP-0198)")

    def _unreached(self, error: object) -> None:
        self._trouble = str(error)
        if isinstance(error, ssl.SSLCertVerificationError):
            self.lose(f"its certificate is not trusted ({error.verify_message})")

    def _refused(self, failure: Any) -> None:
        if failure["condition"] in _NO_PERSON:
            self.loss = self.loss or CredentialsRefused(self._platform, "password")
        else:
            self.lose(f"it refuses the login for now ({failure['condition']})")

    def _disconnected(self, reason: object) -> None:
        self._unreached(reason)
        if self._gone is not None:
            self._gone.set()
        self.lose("the connection broke")


def is_error(answer: Element) -> bool:
    """Return True for an answer that refuses the question."""
    return answer.tag == IQ and answer.get("type") == "error"
