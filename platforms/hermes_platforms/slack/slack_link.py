"""The link to Slack: what the gateway sends and receives, in calls of the Web API.

An answer grows by edits (`chat.update`). Slack's own streams (`chat.startStream`) take what is added to a
text: a piece whose answer is lost could not be sent again, and in a channel a stream needs the id of the
person who asked, which no message of the gateway has. An edit says the whole text, so it may be repeated.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import urlsplit

from hermes_trio.platform import (
    Attachment,
    BaseLink,
    MessageEvent,
    Outgoing,
    Preformatted,
    Refused,
    Traits,
)

from ..attached_files import read_attached
from .api import SlackApi
from .calls import Calls
from .exact_blocks import exact_block
from .formatting import escaped, to_mrkdwn
from .incoming import Incoming, Threads
from .parsing import App
from .people import People
from .socket_mode import SocketMode

LONGEST = 4000
"""Characters of a message that can be edited."""
TRAITS = Traits(
    limit=3800,
    counting="utf-16",
    edits=True,
    deletes=True,
    threads=True,
    buttons=True,
    fetches=True,
    sends_files=True,
    finds=True,
    dialect="markdown",
    preformatted=True,
)

LONGEST_SECTION = 3000
MOST_FILES = 10
BUTTONS_IN_ROW = 5
LONGEST_LABEL = 75
PAGE, MOST_PAGES = 999, 3
"""Messages of a chat or a thread that are looked at for one that may have arrived: nearly 3,000."""
TAKEN_IN = "eyes"
FILE_HOST = "files.slack.com"
SENT = "hermes_trio_message"
"""Type of the metadata with the key of a message. Other apps of the workspace can read it."""


class SlackLink(BaseLink):
    """A link to Slack, until Socket Mode cannot be reached."""

    def __init__(
        self,
        api: SlackApi,
        socket_mode: SocketMode,
        app: App,
        threads: Threads,
        traits: Traits = TRAITS,
    ) -> None:
        super().__init__(traits)
        self._api, self._socket_mode, self._app, self._threads = api, socket_mode, app, threads
        self._people = People(api)
        self._calls = Calls(api, socket_mode.end, app.platform)

    # --- messages of people ---

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self._socket_mode, self._app, self._people, self._threads)

    async def _react(self, chat_id: str, message_id: str) -> None:
        await self._calls.once("reactions.add", channel=chat_id, timestamp=message_id, name=TAKEN_IN)

    async def _fetch(self, file_id: str, most: int) -> bytes:
        answer = await self._calls.once("files.info", file=file_id)
        file = answer.get("file")
        file = file if isinstance(file, dict) else {}
        if isinstance(file.get("size"), int) and file["size"] > most:
            raise Refused(f"The file has {file['size']} bytes.")
        url = str(file.get("url_private_download") or file.get("url_private"))
        parts = urlsplit(url)
        # The token goes with the request, so the address has to be one of Slack.
        if not self._api.is_ours(url) and not (parts.scheme == "https" and parts.hostname == FILE_HOST):
            raise Refused("The file is at no address of Slack.")
        return await self._calls.download(url, most)

    # --- messages of the gateway ---

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`. The key goes with the message, so that it can be found again."""
        if message.attachments:
            await self._send_files(message)
            return None
        sent = await self._calls.send(
            "chat.postMessage",
            channel=message.chat_id,
            thread_ts=message.thread_id,
            metadata={"event_type": SENT, "event_payload": {"key": message.key}},
            unfurl_links=False,
            unfurl_media=False,
            **_content(message.text, message.preformatted, _rows(message)),
        )
        return sent["ts"] if isinstance(sent.get("ts"), str) else None

    async def _send_files(self, message: Outgoing) -> None:
        """Upload files, and show them with their text in one call. Such a message has no metadata, and its id
        is not told: Slack shows it a moment later."""
        if len(message.attachments) > MOST_FILES:
            raise Refused(f"Slack takes {MOST_FILES} files with a message.")
        files = [await self._uploaded(file) for file in message.attachments]
        comment = _content(message.text, message.preformatted)["text"] if message.text else None
        await self._calls.send(
            "files.completeUploadExternal",
            files=files,
            channel_id=message.chat_id,
            thread_ts=message.thread_id,
            initial_comment=comment,
        )

    async def _uploaded(self, file: Attachment) -> dict[str, str]:
        name, data = await read_attached(file, "Slack")
        place = await self._calls.once("files.getUploadURLExternal", filename=name, length=len(data))
        await self._calls.upload(str(place.get("upload_url")), data)
        return {"id": str(place.get("file_id")), "title": name}

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        content = _content(text, preformatted)
        content.setdefault("blocks", [])
        await self._calls.once("chat.update", channel=chat_id, ts=message_id, **content)

    async def _delete(self, chat_id: str, message_id: str) -> None:
        await self._calls.once("chat.delete", channel=chat_id, ts=message_id)

    async def _find(self, chat_id: str, key: str, thread_id: str | None) -> str | None:
        method, where = "conversations.history", {"channel": chat_id}
        if thread_id is not None:
            method, where = "conversations.replies", {"channel": chat_id, "ts": thread_id}
        cursor: str | None = None
        for _ in range(MOST_PAGES):
            page = await self._calls.once(
                method, **where, limit=PAGE, cursor=cursor, include_all_metadata=True
            )
            for one in page.get("messages") or ():
                if _key_of(one) == key:
                    return str(one.get("ts"))
            cursor = (page.get("response_metadata") or {}).get("next_cursor")
            if not cursor:
                break
        return None


def _key_of(message: Any) -> object:
    metadata = message.get("metadata") if isinstance(message, dict) else None
    if not isinstance(metadata, dict) or metadata.get("event_type") != SENT:
        return None
    payload = metadata.get("event_payload")
    return payload.get("key") if isinstance(payload, dict) else None


def _content(
    text: str, preformatted: Preformatted, rows: list[dict[str, object]] | None = None
) -> dict[str, Any]:
    """Return the fields of a call for a text. Blocks are made only where a text alone cannot say it."""
    formed = escaped(text) if preformatted else to_mrkdwn(text)
    if len(formed) > LONGEST or not formed.strip():
        formed = escaped(text)
    if preformatted:
        return {"text": formed, "blocks": [exact_block(text, preformatted), *(rows or ())]}
    if rows:
        return {"text": formed, "blocks": [*_sections(formed), *rows]}
    return {"text": formed}


def _sections(text: str) -> list[dict[str, object]]:
    """Return a text as blocks, cut where a line ends if there is one."""
    sections: list[dict[str, object]] = []
    while text:
        end = len(text)
        if end > LONGEST_SECTION:
            end = text.rfind("\n", 1, LONGEST_SECTION) + 1 or LONGEST_SECTION
        sections.append({"type": "section", "text": {"type": "mrkdwn", "text": text[:end]}})
        text = text[end:]
    return sections


def _rows(message: Outgoing) -> list[dict[str, object]]:
    buttons = [
        {
            "type": "button",
            "action_id": f"press-{number}",
            "text": {"type": "plain_text", "text": one.label[:LONGEST_LABEL], "emoji": True},
            "value": one.value,
        }
        for number, one in enumerate(message.buttons)
    ]
    starts = range(0, len(buttons), BUTTONS_IN_ROW)
    return [{"type": "actions", "elements": buttons[start : start + BUTTONS_IN_ROW]} for start in starts]
