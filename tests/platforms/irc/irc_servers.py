"""Real IRC servers on this machine, and a person with a client of a few lines."""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import trio

from hermes_platforms.irc.settings import IrcSettings
from hermes_platforms.irc.wire import Line, LineBuffer, encode

PATIENCE = 40.0
INSPIRCD = """
<server name="irc.simulated" description="for tests" network="Simulated">
<admin name="nobody" nick="nobody" email="nobody@irc.simulated">
<bind address="127.0.0.1" port="{port}" type="clients">
<connect name="main" allow="*" timeout="20" threshold="100" commandrate="100000" fakelag="off" localmax="99"
 globalmax="99" resolvehostnames="no" hardsendq="1048576" softsendq="65536" recvq="65536" modes="">
<dns server="127.0.0.1" timeout="1">
<options prefixquit="" nosnoticestack="no" hostintopic="yes" pingwarning="15" splitwhois="no">
<performance netbuffersize="10240" somaxconn="16" softlimit="100" quietbursts="yes">
<security hidebans="" announceinvites="dynamic" hidesplits="no" maxtargets="5">
<limits maxnick="30" maxchan="64" maxident="10" maxhost="64">
<pid file="{home}/inspircd.pid">
<log method="file" type="* -USERINPUT -USEROUTPUT" level="default" target="{home}/inspircd.log">
"""
MODULES = ("ircv3", "cap", "ircv3_echomessage", "ircv3_labeledresponse", "ircv3_batch", "ircv3_msgid",
           "ircv3_servertime", "ircv3_ctctags", "ircv3_accounttag", "services_account", "botmode",
           "customtitle", "monitor")  # fmt: skip
NGIRCD = """
[Global]
Name = irc.simulated
Info = for tests
Listen = 127.0.0.1
Ports = {port}
MotdFile = /dev/null
PidFile =
ServerGID = nogroup
ServerUID = nobody
{password}
[Limits]
MaxNickLength = 30
MaxConnectionsIP = 0
MaxPenaltyTime = 0
[Options]
DNS = no
Ident = no
PAM = no
"""


@dataclass
class RealServer:
    """A server that runs."""

    port: int
    settings: IrcSettings
    process: subprocess.Popen[bytes]


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def is_installed(name: str) -> bool:
    return shutil.which(name, path="/usr/sbin:/usr/bin:/bin") is not None


@asynccontextmanager
async def real_server(name: str, *, password: str = "") -> AsyncIterator[RealServer]:
    """Run `ngircd` or `inspircd` while inside. Debian's packages run them as users of their own, so the
    files are where everybody may read them."""
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="irc-") as folder:
        home = Path(folder)
        home.chmod(0o777)
        place = home / f"{name}.conf"
        if name == "ngircd":
            place.write_text(NGIRCD.format(port=port, password=f"Password = {password}" if password else ""))
            command = ["/usr/sbin/ngircd", "-n", "-f", str(place)]
        else:
            modules = "".join(f'<module name="{one}">\n' for one in MODULES)
            place.write_text(INSPIRCD.format(port=port, home=home) + modules)
            command = ["/usr/sbin/inspircd", "--nofork", "--runasroot", f"--config={place}", "--nopid"]
        place.chmod(0o644)
        with (home / "output").open("wb") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd="/")  # noqa: ASYNC220
        try:
            with trio.fail_after(PATIENCE):
                while not await listens(port):
                    assert process.poll() is None, (home / "output").read_text()
                    await trio.sleep(0.05)
                settings = IrcSettings(
                    host="127.0.0.1",
                    port=port,
                    tls=False,
                    channels=("#ours",),
                    server_password=password or None,
                    line_seconds=0.2,
                )
                yield RealServer(port, settings, process)
        finally:
            process.kill()
            process.wait()


async def listens(port: int) -> bool:
    """Return True if a program listens on a port of this machine."""
    try:
        stream = await trio.open_tcp_stream("127.0.0.1", port)
    except OSError:
        return False
    await stream.aclose()
    return True


@dataclass
class Person:
    """A person on the network."""

    nick: str
    stream: trio.SocketStream
    heard: list[Line] = field(default_factory=list)
    _buffer: LineBuffer = field(default_factory=LineBuffer)

    async def says(self, command: str, *params: str) -> None:
        await self.stream.send_all(encode(command, *params))

    async def until(self, *commands: str, where: str = "") -> Line:
        """Read until a line with one of these commands, which holds a text; answer PINGs meanwhile."""
        while True:
            for line in list(self.heard):
                self.heard.remove(line)
                if line.command == "PING":
                    await self.says("PONG", line.param(-1))
                if line.command in commands and where in " ".join([line.source, *line.params]):
                    return line
            data = await self.stream.receive_some(4096)
            assert data, "The server has closed the connection."
            self.heard += self._buffer.feed(data)


@asynccontextmanager
async def person(server: RealServer, nick: str) -> AsyncIterator[Person]:
    """Connect a person for the block."""
    async with await trio.open_tcp_stream("127.0.0.1", server.port) as stream:
        one = Person(nick, stream)
        if server.settings.server_password:
            await one.says("PASS", server.settings.server_password)
        await one.says("NICK", nick)
        await one.says("USER", nick, "0", "*", nick)
        await one.until("376", "422")
        yield one
