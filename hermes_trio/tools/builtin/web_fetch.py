"""Fetching pages, as a tool: what an address may hold, and how a page is read and handed out."""

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
from ..output import redaction
from ..tool import Result, Tool, ToolFailed, Workplace
from .html_to_text import readable

if TYPE_CHECKING:
    from .http_fetch import FetchedPage, Fetcher

LONGEST_FETCH = 40.0
LONGEST_PAGE = 30_000
"""Characters that are handed out at a time."""

_CHARSETS = re.compile(
    r"utf-?8|utf-?16(le|be)?|us-ascii|ascii|iso-?8859-?\d+|latin-?1|windows-125\d|cp125\d|koi8-[ru]|shift_jis"
    r"|euc-(jp|kr)|gb2312|gbk|gb18030|big5"
)


class FetchArguments(msgspec.Struct, frozen=True):
    url: Annotated[str, Meta(max_length=4000, description="An address with http:// or https://")]
    offset: Annotated[int, Meta(ge=0, description="Characters to pass over, for what is long.")] = 0


class WebFetch:
    """The tool. What it is made with is for tests; no configuration reaches that."""

    def __init__(self, fetcher: Callable[[], Fetcher] | None = None, within: float = LONGEST_FETCH) -> None:
        self._make, self._within = fetcher, within

    @property
    def tool(self) -> Tool:
        return Tool(
            "web_fetch",
            "Fetches a page of the internet as text, with its links.",
            FetchArguments,
            self._fetch,
            reads_only=True,
            untrusted=True,
        )

    @cached_property
    def _fetcher(self) -> Fetcher:
        if self._make is not None:
            return self._make()
        from .http_fetch import Fetcher  # with an HTTP client, which nobody may need

        return Fetcher()

    async def _fetch(self, arguments: FetchArguments, place: Workplace) -> Result:
        redact = redaction(place)
        if any(redact(part) != part for part in _parts(arguments.url)):
            raise ToolFailed("The address holds what looks like a secret. It is not sent anywhere.")
        with trio.move_on_after(self._within):
            page = await self._fetcher.page(arguments.url)
            text = await trio.to_thread.run_sync(partial(_text, page, redact), abandon_on_cancel=True)
            return _result(page, text, arguments.offset)
        raise ToolFailed(f"Nothing came of {arguments.url} in {self._within:.0f} s.")


def _parts(address: str) -> Iterator[str]:
    """Where in an address a secret could be."""
    head, _, query = address.partition("?")
    yield from (
        head,
        unquote(head),
        *(value for pair in parse_qsl(query.replace("#", "&")) for value in pair),
    )


def _text(page: FetchedPage, redact: Redact) -> str:
    """The text of a page, without secrets: it is handed out in parts, and half a secret looks like none.
    Takes a while."""
    charset = page.charset
    if not charset and (found := re.search(rb"""<meta[^>]{0,200}?charset=["']?([\w-]+)""", page.body[:2048])):
        charset = found[1].decode("ascii", "replace")
    charset = charset.lower() if _CHARSETS.fullmatch(charset.lower()) else "utf-8"
    try:
        text = page.body.decode(charset, "replace").replace("\0", "")
    except LookupError:  # it only looks like the name of one
        text = page.body.decode("utf-8", "replace").replace("\0", "")
    is_html = page.kind in ("text/html", "application/xhtml+xml") or (
        not page.kind and text.lstrip()[:15].lower().startswith(("<!doctype html", "<html"))
    )
    return redact(readable(text, page.url, trio.from_thread.check_cancelled) if is_html else text)


def _result(page: FetchedPage, text: str, offset: int) -> Result:
    part = text[offset : offset + LONGEST_PAGE]
    notes = [f"[{page.url}, status {page.status}]", part or "[There is no text.]"]
    if offset + LONGEST_PAGE < len(text):
        notes.append(f"[There is more: next_offset={offset + LONGEST_PAGE}]")
    elif not page.is_whole:
        notes.append("[The page is longer than what is fetched of one.]")
    return Result("\n".join(notes), is_error=page.status >= 400)
