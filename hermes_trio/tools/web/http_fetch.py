"""Fetching of pages from public addresses only.

The author of a page can make an agent ask for any address, and the gateway runs within a private network. So
a name is looked up once and its addresses are checked, the connection goes to a checked address (TLS and the
server still get the name), and each redirect is checked as a new address. No proxy is used, because it would
look the name up again. The response is limited in size and time, before and after unpacking.
"""

from __future__ import annotations

import re
import ssl
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial

import trio

from ...base.tls import httpx, tls_context
from ..tool import ToolFailed
from .addresses import Address, AddressRefused, Lookup, look_up, public_addresses

MOST_REDIRECTS = 5
MOST_ADDRESSES = 4
LARGEST_BODY = 2 << 20
CONNECT_SECONDS = 10.0

_HEADERS = {"user-agent": "hermes-trio", "accept": "text/html, text/*, application/json, */*;q=0.5",
            "accept-encoding": "gzip"}  # fmt: skip
_TEXT = re.compile(
    r"text/.*|application/(.*\+)?(json|xml|javascript|yaml|x-ndjson|toml|x-sh)|application/rss.*|"
)


@dataclass(frozen=True, slots=True)
class FetchedPage:
    """The response to a request: a page, or an error page."""

    url: str
    status: int
    kind: str
    charset: str
    body: bytes
    is_whole: bool


class Fetcher:
    """Fetches pages. Only tests hand in a lookup or a transport; no configuration does."""

    def __init__(
        self, lookup: Lookup = look_up, transport: Callable[[], httpx.AsyncBaseTransport] | None = None
    ) -> None:
        self._lookup, self._transport = lookup, transport

    async def page(self, address: str) -> FetchedPage:
        """Return the page at this address, or at the one that it redirects to. Raises `ToolFailed`."""
        url = _url(address)
        for _ in range(MOST_REDIRECTS + 1):
            try:
                page, location = await self._ask(url)
            except AddressRefused as error:
                raise ToolFailed(str(error)) from error
            except (httpx.HTTPError, httpx.InvalidURL, UnicodeError) as error:
                # Also for a wrong address in a redirect: httpx parses it before we do.
                raise ToolFailed(f"{url.host} cannot be reached: {_why(error)}.") from error
            if location is None:
                return page
            url = _url(location, url)
        raise ToolFailed(f"{address} redirects more than {MOST_REDIRECTS} times.")

    async def _ask(self, url: httpx.URL) -> tuple[FetchedPage, str | None]:
        """Send one request; return the page, and the address of a redirect if it is one."""
        port = url.port or (443 if url.scheme == "https" else 80)
        host = url.raw_host.decode("ascii")
        addresses = (await public_addresses(host, port, self._lookup))[:MOST_ADDRESSES]
        timeout = httpx.Timeout(None, connect=CONNECT_SECONDS)
        transport = self._transport or partial(httpx.AsyncHTTPTransport, verify=self._tls, trust_env=False)
        async with httpx.AsyncClient(transport=transport(), timeout=timeout, trust_env=False) as client:
            for number, one in enumerate(addresses, start=1):
                try:
                    response = await client.send(_request(client, url, one), stream=True)
                    break
                except (httpx.ConnectError, httpx.ConnectTimeout):
                    if number == len(addresses):
                        raise
            try:
                if response.is_redirect and "location" in response.headers:
                    return _page(url, response, b"", is_whole=True), response.headers["location"]
                _must_be_text(url, response)
                body, is_whole = await _body(response)
                return _page(url, response, body, is_whole=is_whole), None
            finally:
                await response.aclose()  # noqa: ASYNC102 - it closes without waiting for the peer

    @cached_property
    def _tls(self) -> ssl.SSLContext:
        return tls_context()


def _why(error: BaseException) -> str:
    """Return the text of an error, or of its cause: httpx's own errors are often empty."""
    seen: BaseException | None = error
    while seen is not None and not str(seen):
        seen = seen.__cause__ or seen.__context__
    return str(seen) if seen is not None else type(error).__name__


def _url(text: str, base: httpx.URL | None = None) -> httpx.URL:
    """Return an address of a web page; its host is checked later. Raises `ToolFailed`."""
    try:
        url = httpx.URL(text.strip())
        url = base.join(url) if base is not None else url
        is_of_a_page = url.scheme in ("http", "https") and url.host
    except (httpx.InvalidURL, ValueError, UnicodeError) as error:
        raise ToolFailed(f"{text[:200]!r} is not an address: {error}.") from error
    if not is_of_a_page:
        raise ToolFailed(
            f"{text[:200]!r} is not the address of a page: it has to begin with http:// or https://."
        )
    if url.userinfo:
        raise ToolFailed("The address holds a user name or a password. It is not sent anywhere.")
    return url


def _request(client: httpx.AsyncClient, url: httpx.URL, address: Address) -> httpx.Request:
    """Return a request to exactly this IP address, with the name for the server and its certificate."""
    name = url.raw_host.decode("ascii")
    sni = {} if str(address) == name else {"sni_hostname": name}
    host = {"host": url.netloc.decode("ascii")}
    there = url.copy_with(host=str(address), fragment=None)
    return client.build_request("GET", there, headers=_HEADERS | host, extensions=sni)


def _page(url: httpx.URL, response: httpx.Response, body: bytes, *, is_whole: bool) -> FetchedPage:
    return FetchedPage(
        str(url), response.status_code, _kind(response), response.charset_encoding or "", body, is_whole
    )


def _kind(response: httpx.Response) -> str:
    kind: str = response.headers.get("content-type", "")
    return kind.partition(";")[0].strip().lower()


def _must_be_text(url: httpx.URL, response: httpx.Response) -> None:
    if not _TEXT.fullmatch(_kind(response)):
        raise ToolFailed(f"{url} is not text but {_kind(response)[:80]!r}.")
    encoding = response.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip", "x-gzip", ""):
        raise ToolFailed(f"{url} is compressed as {encoding[:80]!r}, which was not requested.")


async def _body(response: httpx.Response) -> tuple[bytes, bool]:
    """Return the unpacked body, and whether it is complete."""
    packed = "gzip" in response.headers.get("content-encoding", "")
    inflate = zlib.decompressobj(wbits=31) if packed else None
    body = bytearray()
    received = 0
    with trio.CancelScope() as enough:
        # The loop ends by cancelling: an iterator of httpx that is left with `break` is not closed.
        async for chunk in response.aiter_raw():
            if enough.cancel_called:
                continue
            received += len(chunk)
            room = LARGEST_BODY + 1 - len(body)
            try:
                body += inflate.decompress(chunk, room) if inflate else chunk[:room]
            except zlib.error:
                enough.cancel(reason="body cannot be unpacked")
            if len(body) > LARGEST_BODY or received > LARGEST_BODY:
                enough.cancel(reason="size limit reached")
    return bytes(body[:LARGEST_BODY]), not enough.cancel_called
