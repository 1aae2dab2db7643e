"""The mailbox on a real server: Dovecot of Debian, with mail that comes by its LMTP. Another client of IMAP
and SMTP, that of Python's library, talks with the server for tests."""

from __future__ import annotations

import imaplib
import os
import shutil
import smtplib
import ssl
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import trio

from hermes_platforms.email.adapter import EmailAdapter
from hermes_platforms.email.composing import composed
from hermes_platforms.email.email_link import EmailLink
from hermes_platforms.email.settings import EmailSettings
from hermes_platforms.email.smtp import Denied, Submissions
from hermes_platforms.email.testing import open_mail_server
from hermes_platforms.http_calls import NotReached
from hermes_trio.platform import CredentialsRefused, Outgoing
from tests.platforms.email.mails import SETTINGS, mail
from tests.platforms.irc.irc_servers import free_port, listens

DOVECOT = shutil.which("dovecot", path="/usr/sbin:/usr/bin:/bin")
PATIENCE = 40.0
CERTIFICATE = [
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"),
    *("-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost", "-days", "2"),
    *("-keyout", "key.pem", "-out", "cert.pem"),
]
CONFIG = """
protocols = imap lmtp
base_dir = {home}/run
state_dir = {home}/state
log_path = {home}/log
ssl = required
ssl_cert = <{home}/cert.pem
ssl_key = <{home}/key.pem
mail_location = maildir:~/mails
default_login_user = nobody
default_internal_user = nobody
default_internal_group = nogroup
first_valid_uid = 0
first_valid_gid = 0
auth_username_format = %Ln
disable_plaintext_auth = yes
passdb {{
  driver = static
  args = password=password-of-nobody
}}
userdb {{
  driver = static
  args = uid=nobody gid=nogroup home={home}/mail
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = 0
  }}
  inet_listener imaps {{
    address = 127.0.0.1
    port = {port}
    ssl = yes
  }}
}}
service lmtp {{
  inet_listener lmtp {{
    address = 127.0.0.1
    port = {lmtp}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""

real = pytest.mark.skipif(
    DOVECOT is None or os.name != "posix" or os.geteuid() != 0, reason="needs Dovecot, and root"
)


class Dovecot:
    """A server that runs."""

    def __init__(self, settings: EmailSettings, lmtp: int) -> None:
        self.settings, self._lmtp = settings, lmtp

    async def deliver(self, data: bytes) -> None:
        """Deliver a mail as a server of mail does."""

        def handed_over() -> None:
            with smtplib.LMTP("127.0.0.1", self._lmtp) as client:
                client.sendmail("ann@people.test", ["hermes@home.test"], data)

        await trio.to_thread.run_sync(handed_over)

    async def flags(self) -> list[bytes]:
        """Return the flags of the mails, as another client sees them."""

        def asked() -> list[bytes]:
            context = ssl.create_default_context(cafile=self.settings.tls_ca)
            with imaplib.IMAP4_SSL("localhost", self.settings.imap_port, ssl_context=context) as client:
                client.login("hermes", self.settings.password)
                client.select("INBOX", readonly=True)
                return [bytes(one) for one in client.fetch("1:*", "(FLAGS)")[1] if isinstance(one, bytes)]

        return await trio.to_thread.run_sync(asked)


@pytest.fixture
async def dovecot(state_home: Path) -> AsyncIterator[Dovecot]:
    async with running_dovecot() as server:
        with trio.fail_after(PATIENCE):
            yield server


@asynccontextmanager
async def running_dovecot() -> AsyncIterator[Dovecot]:
    """Run the server while inside. Its parts run as other users, so its files are where those may look."""
    assert DOVECOT is not None
    port, lmtp = free_port(), free_port()
    with tempfile.TemporaryDirectory(prefix="dovecot-") as folder:
        home = Path(folder)
        home.chmod(0o755)
        subprocess.run(CERTIFICATE, cwd=home, check=True, capture_output=True)  # noqa: ASYNC221
        place = home / "dovecot.conf"
        place.write_text(CONFIG.format(home=home, port=port, lmtp=lmtp))
        (home / "mail").mkdir()
        shutil.chown(home / "mail", "nobody", "nogroup")
        process = subprocess.Popen([DOVECOT, "-F", "-c", str(place)])  # noqa: ASYNC220
        try:
            with trio.fail_after(PATIENCE):
                while not await listens(port) or not await listens(lmtp):
                    assert process.poll() is None, (home / "log").read_text()
                    await trio.sleep(0.05)
            settings = replace(
                SETTINGS,
                imap_host="localhost",
                imap_port=port,
                tls_ca=str(home / "cert.pem"),
                smtp_port=free_port(),
            )
            yield Dovecot(settings, lmtp)
        finally:
            process.terminate()
            process.wait()


@real
async def test_mail_wakes_idle_and_is_marked_as_read_once_it_is_stored(dovecot: Dovecot) -> None:
    async with EmailAdapter(dovecot.settings).connect() as link:
        events = link.receive()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(dovecot.deliver, mail("one").as_bytes())
            assert (await anext(events)).text == "one"
        assert not any(b"Seen" in one for one in await dovecot.flags())
    async with EmailAdapter(dovecot.settings).connect() as link, trio.open_nursery() as nursery:
        events = link.receive()
        assert (await anext(events)).text == "one"
        nursery.start_soon(anext, events)
        while not all(b"Seen" in one for one in await dovecot.flags()):  # noqa: ASYNC110
            await trio.sleep(0.05)
        nursery.cancel_scope.cancel()


@real
async def test_a_file_is_fetched_and_our_own_mail_is_found_by_its_key(dovecot: Dovecot) -> None:
    asked = mail("look", Subject="Holidays")
    asked.add_attachment(bytes(range(256)) * 50, maintype="image", subtype="png", filename="ü.png")
    await dovecot.deliver(asked.as_bytes())
    message = Outgoing(chat_id="ann@people.test", text="Done.", key="key-1")
    async with EmailAdapter(dovecot.settings).connect() as link:
        assert isinstance(link, EmailLink)
        event = await anext(link.receive())
        [file] = event.attachments
        assert (file.name, await link.fetch(str(file.file_id), 20_000)) == ("ü.png", bytes(range(256)) * 50)
        assert await link.find("ann@people.test", "key-1") is None
        await dovecot.deliver(composed(message, None, (), dovecot.settings, ""))
        assert await link.find("ann@people.test", "key-1") is not None


@real
async def test_a_password_that_dovecot_refuses_is_refused_for_good(dovecot: Dovecot) -> None:
    with pytest.raises(CredentialsRefused, match="password"):
        async with EmailAdapter(replace(dovecot.settings, password="wrong")).connect():
            pass


async def test_a_mail_goes_out_encrypted_where_encryption_is_asked_for(tmp_path: Path) -> None:
    subprocess.run(CERTIFICATE, cwd=tmp_path, check=True, capture_output=True)  # noqa: ASYNC221
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "cert.pem", tmp_path / "key.pem")
    async with open_mail_server() as server:
        asked = replace(server.settings, smtp_host="localhost", tls=True, smtp_starttls=True)
        with pytest.raises(Denied, match="500"):  # a server without encryption gets neither password nor mail
            await Submissions(asked).submit(["42"], mail().as_bytes())
        server.smtp_tls = context
        with pytest.raises(NotReached):
            await Submissions(asked).submit(["42"], mail().as_bytes())
        assert server.chat("42").texts == []
        trusting = replace(asked, tls_ca=str(tmp_path / "cert.pem"))
        await Submissions(trusting).submit(["42"], mail().as_bytes())
        assert server.chat("42").texts == ["hello"]


async def test_the_clients_of_pythons_library_talk_with_the_server_for_tests() -> None:
    async with open_mail_server() as server:

        def talk() -> tuple[list[bytes], object]:
            with smtplib.SMTP("127.0.0.1", server.smtp_port) as smtp:
                smtp.login(server.address, server.password)
                made = mail("..dots\n.\nend", To="ann@people.test")
                smtp.send_message(made, server.address, ["ann@people.test", server.address])
            with imaplib.IMAP4("127.0.0.1", server.imap_port) as imap:
                imap.login(server.address, server.password)
                imap.select("INBOX")
                found = imap.uid("SEARCH", "UNSEEN")[1]
                body = imap.uid("FETCH", "1", "(UID BODY.PEEK[])")[1][0]
                imap.uid("STORE", "1", "+FLAGS.SILENT", "(\\Seen)")
                return found, body

        found, body = await trio.to_thread.run_sync(talk)
        assert found == [b"1"]
        assert isinstance(body, tuple)
        assert b"..dots" in body[1]
        assert server.chat("ann@people.test").texts == ["..dots\n.\nend"]
        assert server.mails[0].is_read
