"""The tool `web_fetch` with servers on this machine in place of the internet: names are looked up in a table,
and a connection to a checked address goes to such a server. No configuration can do that."""

from __future__ import annotations

import gc
import gzip
import ssl
import tracemalloc
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_trio.base.tls import httpx
from hermes_trio.config.schema import GatewayConfig, ModelConfig
from hermes_trio.tools.tool import ToolFailed
from hermes_trio.tools.web.http_fetch import LARGEST_BODY, Fetcher
from hermes_trio.tools.web.web_fetch import LONGEST_PAGE, WebFetch
from tests.tools.desk import Desk, desk_in

CERTIFICATE = Path(__file__).with_name("certificate.pem")
"""For pages.example.org, self-signed, valid for a hundred years. Its key is used nowhere else."""
PUBLIC, OTHER = "93.184.216.34", "93.184.216.35"

Answering = Callable[[trio.abc.SendStream], Awaitable[None]]


def head(status: int = 200, **headers: object) -> bytes:
    lines = [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
    return "\r\n".join([f"HTTP/1.1 {status} Said", *lines, "", ""]).encode()


def page(text: str | bytes, status: int = 200, kind: str = "text/html", **headers: object) -> bytes:
    body = text.encode() if isinstance(text, str) else text
    return head(status, content_type=kind, content_length=len(body), **headers) + body


@dataclass
class Internet:
    """A server at the end of every public address, and a table of names."""

    port: int = 0
    tls: ssl.SSLContext | None = None
    pages: dict[str, bytes | Answering] = field(default_factory=dict)
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    """The answers to the lookups of a name, one after another; the last one is repeated."""
    looked_up: list[str] = field(default_factory=list)
    reached: list[str] = field(default_factory=list)
    """The addresses to which connections were made."""
    heads: list[str] = field(default_factory=list)
    open: int = 0
    dead: set[str] = field(default_factory=set)

    async def lookup(self, host: str, port: int) -> list[str]:
        self.looked_up.append(host)
        answers = self.names.get(host, [[PUBLIC]])
        return answers.pop(0) if len(answers) > 1 else answers[0]

    def fetcher(self) -> Fetcher:
        return Fetcher(self.lookup, lambda: _Led(self))

    async def serve(self, stream: trio.SocketStream) -> None:
        self.open += 1
        secure: trio.abc.Stream = stream
        if self.tls:
            secure = trio.SSLStream(stream, self.tls, server_side=True, https_compatible=True)
        try:
            async with secure:
                data = b""
                while b"\r\n\r\n" not in data:
                    more = await secure.receive_some()
                    if not more:
                        return
                    data += more
                self.heads.append(data.decode())
                answer = self.pages.get(data.split(b" ")[1].decode(), page("nothing here", 404))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(_leave_with, secure, nursery)
                    await (secure.send_all(answer) if isinstance(answer, bytes) else answer(secure))
                    nursery.cancel_scope.cancel()
        except* trio.BrokenResourceError:
            pass
        finally:
            self.open -= 1


async def _leave_with(peer: trio.abc.Stream, nursery: trio.Nursery) -> None:
    with suppress(trio.BrokenResourceError):
        while await peer.receive_some():
            pass
    nursery.cancel_scope.cancel()


class _Led(httpx.AsyncBaseTransport):
    """The real transport, except that every connection goes to the server of the test."""

    def __init__(self, internet: Internet) -> None:
        self._internet = internet
        trusted = ssl.create_default_context(cafile=str(CERTIFICATE))
        self._real = httpx.AsyncHTTPTransport(verify=trusted, trust_env=False)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self._internet.reached.append(request.url.host)
        if request.url.host in self._internet.dead:
            raise httpx.ConnectError("nobody there")
        request.url = request.url.copy_with(host="127.0.0.1", port=self._internet.port)
        return await self._real.handle_async_request(request)

    async def aclose(self) -> None:
        await self._real.aclose()


@asynccontextmanager
async def an_internet(*, tls: bool = False) -> AsyncIterator[Internet]:
    internet = Internet()
    if tls:
        internet.tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        internet.tls.load_cert_chain(CERTIFICATE)
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    internet.port = listeners[0].socket.getsockname()[1]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(trio.serve_listeners, internet.serve, listeners)
        yield internet
        with trio.fail_after(10):
            while internet.open:  # noqa: ASYNC110 - a connection ends with its request
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    gc.collect()  # an unclosed object of httpx is a warning, which fails the test


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return desk_in(tmp_path)


async def fetch(internet: Internet, desk: Desk, url: str, **more: Any) -> str:
    tool = WebFetch(internet.fetcher).tool
    return (await desk.use(tool, url=url, **more)).content


async def test_web_fetch_returns_text_from_the_address_that_was_checked(desk: Desk) -> None:
    async with an_internet() as internet:
        internet.pages["/a?b=c"] = page("<h1>Hello</h1><a href=/x>more</a>")
        told = await fetch(internet, desk, "http://example.org/a?b=c#part")
        assert told == (
            "[http://example.org/a?b=c#part, status 200]\n# Hello\n\n[more](http://example.org/x)"
        )
        assert internet.reached == [PUBLIC]
        assert "\r\nhost: example.org\r\n" in internet.heads[0].lower()
        assert internet.heads[0].startswith("GET /a?b=c HTTP/1.1\r\n")


async def test_web_fetch_over_tls_checks_the_certificate_for_the_name(desk: Desk) -> None:
    async with an_internet(tls=True) as internet:
        internet.pages["/"] = page("secure", kind="text/plain")
        assert "secure" in await fetch(internet, desk, "https://pages.example.org/")
        assert internet.reached == [PUBLIC]
        with pytest.raises(
            ToolFailed, match=r"other\.example\.org cannot be reached.*(?i:hostname mismatch)"
        ):
            await fetch(internet, desk, "https://other.example.org/")


async def test_web_fetch_looks_a_name_up_once_against_dns_rebinding(desk: Desk) -> None:
    async with an_internet() as internet:
        internet.names["rebind.example.org"] = [[PUBLIC], ["127.0.0.1"]]
        internet.pages["/"] = page("public", kind="text/plain")
        assert "public" in await fetch(internet, desk, "http://rebind.example.org/")
        assert internet.looked_up == ["rebind.example.org"]
        assert internet.reached == [PUBLIC]
        with pytest.raises(ToolFailed, match="private network"):
            await fetch(internet, desk, "http://rebind.example.org/")
        assert internet.reached == [PUBLIC]


@pytest.mark.parametrize(
    "location",
    [
        "http://127.0.0.1/", "//127.0.0.1/", "http://169.254.169.254/latest/meta-data/", "http://2130706433/",
        "http://[::ffff:10.0.0.1]/", "http://0x7f.1/", "http://inside.example.org/", "http://localhost:8642/",
        "file:///etc/passwd", "ftp://example.org/", "http://user:pass@example.org/", "javascript:alert(1)",
        "http://xn--/",
    ],
)  # fmt: skip
async def test_web_fetch_follows_no_redirect_into_a_private_network(desk: Desk, location: str) -> None:
    async with an_internet() as internet:
        internet.names["inside.example.org"] = [["10.0.0.7"]]
        internet.pages["/"] = head(302, location=location, content_length=0)
        with pytest.raises(ToolFailed):
            await fetch(internet, desk, "http://example.org/")
        assert internet.reached == [PUBLIC]
        with pytest.raises(ToolFailed):
            await fetch(internet, desk, location)
        assert internet.reached == [PUBLIC]


async def test_web_fetch_follows_at_most_five_redirects(desk: Desk) -> None:
    async with an_internet() as internet:
        for number in range(6):
            internet.pages[f"/{number}"] = head(301, location=f"/{number + 1}", content_length=0)
        internet.pages["/6"] = page("there", kind="text/plain")
        assert "[http://example.org/6, status 200]\nthere" in await fetch(
            internet, desk, "http://example.org/1"
        )
        with pytest.raises(ToolFailed, match="more than 5 times"):
            await fetch(internet, desk, "http://example.org/0")


async def test_web_fetch_tries_the_next_address_of_a_name(desk: Desk) -> None:
    async with an_internet() as internet:
        internet.names["two.example.org"] = [[PUBLIC, OTHER]]
        internet.dead = {PUBLIC}
        internet.pages["/"] = page("alive", kind="text/plain")
        assert "alive" in await fetch(internet, desk, "http://two.example.org/")
        internet.dead = {PUBLIC, OTHER}
        with pytest.raises(ToolFailed, match="cannot be reached: nobody there"):
            await fetch(internet, desk, "http://two.example.org/")


async def test_web_fetch_cuts_giant_endless_and_compressed_bodies(desk: Desk) -> None:
    async def endless(stream: trio.abc.SendStream) -> None:
        await stream.send_all(head(content_type="text/plain"))
        while True:
            await stream.send_all(b"x" * 65536)

    async def bomb(stream: trio.abc.SendStream) -> None:
        await stream.send_all(head(content_type="text/plain", content_encoding="gzip"))
        await stream.send_all(gzip.compress(b"x" * (300 << 20), 9))

    async with an_internet() as internet:
        internet.pages |= {
            "/endless": endless,
            "/bomb": bomb,
            "/giant": page(b"x" * (LARGEST_BODY + 1), kind="text/plain"),
        }
        for name in internet.pages:
            fetched = internet.fetcher()
            with trio.fail_after(60):
                came = await fetched.page(f"http://example.org{name}")
            assert len(came.body) == LARGEST_BODY, name
            assert not came.is_whole
        internet.pages["/packed"] = page(gzip.compress(b"small"), kind="text/plain", content_encoding="gzip")
        assert (await fetch(internet, desk, "http://example.org/packed")).endswith("\nsmall")
        internet.pages["/brotli"] = page(b"?", kind="text/plain", content_encoding="br")
        with pytest.raises(ToolFailed, match="compressed as 'br'"):
            await fetch(internet, desk, "http://example.org/brotli")
        internet.pages["/broken"] = page(b"no gzip", kind="text/plain", content_encoding="gzip")
        assert "no text" in await fetch(internet, desk, "http://example.org/broken")


async def test_web_fetch_unpacks_a_zip_bomb_only_up_to_the_limit() -> None:
    packed = page(gzip.compress(bytes(200 << 20), 9), kind="text/plain", content_encoding="gzip")
    async with an_internet() as internet:
        internet.pages["/"] = packed
        tracemalloc.start()
        try:
            await internet.fetcher().page("http://example.org/")
            assert tracemalloc.get_traced_memory()[1] < 8 * LARGEST_BODY
        finally:
            tracemalloc.stop()


@pytest.mark.parametrize(
    "begins", [b"", head(content_type="text/plain"), head(content_type="text/plain") + b"slow"]
)
async def test_web_fetch_gives_up_on_a_slow_server(desk: Desk, begins: bytes) -> None:
    async def slow(stream: trio.abc.SendStream) -> None:
        await stream.send_all(begins)
        while b"slow" in begins:
            await trio.sleep(0.05)
            await stream.send_all(b"x")
        await trio.sleep_forever()

    async with an_internet() as internet:
        internet.pages["/"] = slow
        impatient = WebFetch(internet.fetcher, within=0.5).tool
        with pytest.raises(ToolFailed, match="did not answer in"), trio.fail_after(20):
            await desk.use(impatient, url="http://example.org/")


async def test_a_cancelled_web_fetch_leaves_no_connection(desk: Desk) -> None:
    async def hangs(stream: trio.abc.SendStream) -> None:
        await stream.send_all(head(content_type="text/plain") + b"a bit")
        scope.cancel()
        await trio.sleep_forever()

    async with an_internet() as internet:
        internet.pages["/"] = hangs

        with trio.CancelScope() as scope:
            await fetch(internet, desk, "http://example.org/")
        assert scope.cancelled_caught


async def test_web_fetch_returns_only_text_and_in_parts(desk: Desk) -> None:
    async with an_internet() as internet:
        internet.pages["/cat"] = page(b"\x89PNG", kind="image/png")
        with pytest.raises(ToolFailed, match="is not text but 'image/png'"):
            await fetch(internet, desk, "http://example.org/cat")
        internet.pages["/long"] = page(
            "0123456789" * (LONGEST_PAGE // 10 + 1), kind="application/json; charset=utf-8"
        )
        first = await fetch(internet, desk, "http://example.org/long")
        assert first.endswith(f"\n[There is more: next_offset={LONGEST_PAGE}]")
        second = await fetch(internet, desk, "http://example.org/long", offset=LONGEST_PAGE)
        assert second.split("\n") == ["[http://example.org/long, status 200]", "0123456789"]


@pytest.mark.parametrize(
    ("kind", "body", "text"),
    [
        ("text/plain; charset=iso-8859-1", b"caf\xe9", "café"),
        ("text/html", b"<meta charset=windows-1252>caf\xe9", "café"),
        ("text/plain; charset=punycode", b"abc", "abc"),
        ("text/plain; charset=iso-8859-12", b"caf\xc3\xa9", "café"),
        ("text/plain; charset=zip", b"caf\xc3\xa9", "café"),
        ("", b"<html><p>bare", "bare"),
    ],
)
async def test_web_fetch_decodes_a_page_with_its_charset(
    desk: Desk, kind: str, body: bytes, text: str
) -> None:
    async with an_internet() as internet:
        internet.pages["/"] = page(body, kind=kind)
        assert (await fetch(internet, desk, "http://example.org/")).endswith(f"\n{text}")


async def test_web_fetch_reports_an_error_status_as_an_error(desk: Desk) -> None:
    async with an_internet() as internet:
        tool = WebFetch(internet.fetcher).tool
        result = await desk.use(tool, url="http://example.org/missing")
        assert result.is_error
        assert "status 404]\nnothing here" in result.content
        assert tool.untrusted


@pytest.mark.parametrize(
    "url",
    [
        "http://example.org/?key=sk-0123456789abcdef", "http://example.org/?a=our-own-secret",
        "http://example.org/our%2Down%2Dsecret", "http://example.org/#our-own-secret", "http://kim@example.org/",
        "http://:secret@example.org/",
    ],
)  # fmt: skip
async def test_web_fetch_sends_no_secret_in_an_address(desk: Desk, url: str) -> None:
    desk.config = GatewayConfig(model=ModelConfig(api_key="our-own-secret"))
    async with an_internet() as internet:
        with pytest.raises(ToolFailed, match="not sent anywhere"):
            await fetch(internet, desk, url)
        assert internet.looked_up == []
        assert "404" in await fetch(internet, desk, "http://example.org/?page_token=abcdefgh")


@pytest.mark.parametrize(
    "url", ["example.org", "http://", "http://[bad", "gopher://example.org", "", "http://exa mple/"]
)
async def test_web_fetch_refuses_a_wrong_address(desk: Desk, url: str) -> None:
    async with an_internet() as internet:
        internet.names |= {"exa%20mple": [[]], "%5bbad": [[]]}
        with pytest.raises(ToolFailed):
            await fetch(internet, desk, url)
