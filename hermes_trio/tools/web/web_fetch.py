"""The tool `web_fetch`: check the address, fetch the page, and return its text in parts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import cached_property, partial
from typing import TYPE_CHECKING, Annotated
from urllib.parse import parse_qsl, unquote

import msgspec
import trio
from msgspec import Meta

from ...masking.redaction import Redact
from ..tool import Result, Tool, ToolFailed, Workplace
from .html_to_text import readable

if TYPE_CHECKING:
    from .http_fetch import FetchedPage, Fetcher

LONGEST_FETCH = 40.0
LONGEST_PAGE = 30_000
"""Characters that one call returns."""

_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|iso-?8859-?\d+|latin-?1|windows-125\d|cp125\d|koi8-[ru]|shift_jis"
    r"|euc-(jp|kr)|gb2312|gbk|gb18030|big5"
)


class FetchArguments(msgspec.Struct, frozen=True):
    url: Annotated[str, Meta(max_length=4000, description="An address with http:// or https://")]
    offset: Annotated[int, Meta(ge=0, description="Characters to skip, to read on in a long page.")] = 0


class WebFetch:
    """The tool. Only tests hand in a fetcher or a time limit; no configuration does."""

    def __init__(self, fetcher: Callable[[], Fetcher] | None = None, within: float = LONGEST_FETCH) -> None:
        self._make, self._within = fetcher, within

    @property
    def tool(self) -> Tool:
        return Tool(
            "web_fetch",
            "Fetches a page from the internet as text, with its links.",
            FetchArguments,
            self._fetch,
            reads_only=True,
            untrusted=True,
        )

    @cached_property
    def _fetcher(self) -> Fetcher:
        if self._make is not None:
            return self._make()
        from .http_fetch import Fetcher  # loads an HTTP client, which is often not needed

        return Fetcher()

    async def _fetch(self, arguments: FetchArguments, place: Workplace) -> Result:
        redact = place.masking
        if any(redact(part) != part for part in _parts(arguments.url)):
            raise ToolFailed("The address holds a text that looks like a secret. It is not sent anywhere.")
        with trio.move_on_after(self._within):
            page = await self._fetcher.page(arguments.url)
            text = await trio.to_thread.run_sync(partial(_text, page, redact), abandon_on_cancel=True)
            return _result(page, text, arguments.offset)
        raise ToolFailed(f"{arguments.url} did not answer in {self._within:.0f} s.")


def _parts(address: str) -> Iterator[str]:
    """Yield the parts of an address in which a secret could be."""
    head, _, query = address.partition("?")
    yield from (
        head,
        unquote(head),
        *(value for pair in parse_qsl(query.replace("#", "&")) for value in pair),
    )


def _text(page: FetchedPage, redact: Redact) -> str:
    """Return the text of a page without secrets, which are masked before the text is cut into parts: half a
    secret is not recognised. Takes a while, so it runs in a thread."""
    charset = page.charset
    if not charset and (found := re.search(rb"""<meta[^>]{0,200}?charset=["']?([\w-]+)""", page.body[:2048])):
        charset = found[1].decode("ascii", "replace")
    charset = charset.lower() if _CHARSETS.fullmatch(charset.lower()) else "utf-8"
    try:
        text = page.body.decode(charset, "replace").replace("\0", "")
    except LookupError:  # there is no charset of this name
        text = page.body.decode("utf-8", "replace").replace("\0", "")
    is_html = page.kind in ("text/html", "application/xhtml+xml") or (
        not page.kind and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))
    )
    return redact(readable(text, page.url, trio.from_thread.check_cancelled) if is_html else text)


def _result(page: FetchedPage, text: str, offset: int) -> Result:
    part = text[offset : offset + LONGEST_PAGE]
    notes = [f"[{page.url}, status {page.status}]", part or "[The page has no text.]"]
    if offset + LONGEST_PAGE < len(text):
        notes.append(f"[There is more: next_offset={offset + LONGEST_PAGE}]")
    elif not page.is_whole:
        notes.append("[The page is longer; the rest was not fetched.]")
    return Result("\n".join(notes), is_error=page.status >= 400)
