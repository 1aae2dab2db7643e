"""The archive of the server, as the link uses it: the missed messages, and whether one of ours is in it."""

from __future__ import annotations

from dataclasses import dataclass
from secrets import token_hex
from xml.etree.ElementTree import Element

from hermes_trio.platform import Log

from .archive import Archived, Page, archived_of, can_archive, has_id, page_of, question
from .library import XmppStream, is_error
from .stanzas import bare, disco

MOST_MISSED = 20
"""Pages that are read after a gap."""
MOST_SEARCHED = 5
"""Pages that are searched for a message of ours."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Found:
    """A message of the archive, and the number of the stanza that has brought it."""

    number: int
    archived: Archived


class History:
    """The archive of our account, and those of rooms."""

    def __init__(self, stream: XmppStream, address: str, platform: str) -> None:
        self._stream, self._address, self._platform = stream, bare(address), platform
        self._open: dict[str, list[Found]] = {}

    def take(self, stanza: Element, number: int) -> bool:
        """Take a stanza that answers one of our questions. Others are left alone, whoever sends them."""
        archived = archived_of(stanza)
        if archived is None:
            return False
        if archived.query in self._open:  # nobody else knows the name of the question
            self._open[archived.query].append(Found(number, archived))
        return True

    async def is_there(self) -> bool:
        """Return True if our account has an archive."""
        answer = await self._stream.ask(disco(self._address))
        return not is_error(answer) and can_archive(answer)

    async def end(self) -> str:
        """Return the id of the newest message; empty if there is none."""
        _, page = await self._page(before="", most=1)
        return page.last

    async def since(self, after: str) -> list[Found]:
        """Return the messages after one, oldest first."""
        missed: list[Found] = []
        for _ in range(MOST_MISSED):
            found, page = await self._page(after=after)
            missed += found
            if page.is_last:
                return missed
            after = page.last
        log.warning("messages of a gap left out", platform=self._platform, read=len(missed))
        return missed

    async def has(self, chat_id: str, stanza_id: str, *, is_room: bool) -> bool:
        """Return True if a message of ours is among the newest ones of a chat."""
        before = ""
        for _ in range(MOST_SEARCHED):
            found, page = await self._page(
                to=bare(chat_id) if is_room else "", with_person="" if is_room else chat_id, before=before
            )
            if has_id((one.archived for one in found), stanza_id):
                return True
            if page.is_last:
                break
            before = page.first
        return False

    async def _page(
        self,
        *,
        to: str = "",
        with_person: str = "",
        after: str | None = None,
        before: str | None = None,
        most: int | None = None,
    ) -> tuple[list[Found], Page]:
        query = token_hex(8)
        self._open[query] = found = list[Found]()
        ask = question(query, to=to, with_person=with_person, after=after, before=before, most=most)
        try:
            answer = await self._stream.ask(ask)
        finally:
            del self._open[query]
        if is_error(answer):
            return [], Page(True, "", "")
        return found, page_of(answer)
