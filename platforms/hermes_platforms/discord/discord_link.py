"""The link to Discord: what the gateway sends and receives, in calls of Discord's API."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Mapping
from typing import Any
from urllib.parse import quote, urlsplit

from hermes_trio.platform import (
    BaseLink,
    ChatGone,
    Log,
    Memory,
    MessageEvent,
    Outgoing,
    Preformatted,
    Refused,
    Traits,
)

from ..attached_files import read_attached
from .api import Denied, DiscordApi, NoAnswer, NotReached
from .calls import Calls
from .formatting import to_discord
from .gateway import Gateway
from .incoming import Incoming
from .parsing import Bot, place_of
from .payload import COMMAND, Interaction
from .place import Place

TRAITS = Traits(
    limit=2000,
    counting="utf-16",
    edits=True,
    deletes=True,
    typing=True,
    threads=True,
    buttons=True,
    fetches=True,
    sends_files=True,
    takes_keys_for=60.0,
    remembers=True,
    dialect="markdown",
    preformatted=True,
)

LONGEST_NONCE = 25
MOST_FILES = 10
BUTTONS_IN_ROW = 5
LONGEST_LABEL = 80
ACKNOWLEDGE_WITHIN = 3.0
TAKEN_IN = "👀"
FILE_HOSTS = ("cdn.discordapp.com", "media.discordapp.net")

NO_PREVIEWS, SILENT, ONLY_FOR_THEM = 1 << 2, 1 << 12, 1 << 6
"""Flags of messages. A preview would ask the server of a link before any person opens it, and a manipulated
model could write secrets into the link."""
NOBODY: Mapping[str, object] = {"parse": [], "replied_user": False}
"""People and roles that a message may call: none, whatever a model writes."""

UPDATE_LATER, ANSWER = 6, 4

log = Log(__name__)


class DiscordLink(BaseLink):
    """A link to Discord, until its gateway cannot be reached."""

    def __init__(
        self, api: DiscordApi, gateway: Gateway, bot: Bot, place: Place, memory: Memory, traits: Traits
    ) -> None:
        super().__init__(traits)
        self._api, self._gateway, self._bot, self._place, self._memory = api, gateway, bot, place, memory
        self._calls = Calls(api, gateway)

    # --- messages of people ---

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self._gateway, self._api, self._bot, self._place, self._memory, self._acknowledge)

    async def _acknowledge(self, interaction: Interaction) -> None:
        """Answer a press or a command. Discord shows that it failed unless this comes within three
        seconds."""
        answer: dict[str, object] = {"type": UPDATE_LATER}
        if interaction.type == COMMAND:
            answer = {"type": ANSWER, "data": {"content": TAKEN_IN, "flags": ONLY_FOR_THEM}}
        path = f"/interactions/{interaction.id}/{interaction.token}/callback"
        try:
            await self._api.call("POST", path, answer, within=ACKNOWLEDGE_WITHIN)
        except (Denied, NotReached, NoAnswer) as error:
            log.info("interaction not acknowledged", platform=self._bot.platform, error=str(error))

    async def _react(self, chat_id: str, message_id: str) -> None:
        channel, number = place_of(chat_id, message_id)
        path = f"/channels/{channel}/messages/{number}/reactions/{quote(TAKEN_IN)}/@me"
        await self._calls.once("PUT", path)

    async def _fetch(self, file_id: str, most: int) -> bytes:
        parts = file_id.split("/")
        if len(parts) != 3:
            raise Refused("This is no id of a file of Discord.")
        channel, message, number = parts
        found = await self._calls.once("GET", f"/channels/{channel}/messages/{message}")
        files = found.get("attachments", []) if isinstance(found, dict) else []
        for file in files:
            if isinstance(file, dict) and file.get("id") == number:
                if isinstance(file.get("size"), int) and file["size"] > most:
                    raise Refused(f"The file has {file['size']} bytes.")
                return await self._calls.download(self._checked(str(file.get("url"))), most)
        raise Refused("The file is not there any more.")

    def _checked(self, url: str) -> str:
        parts = urlsplit(url)
        if not self._api.is_ours(url) and not (parts.scheme == "https" and parts.hostname in FILE_HOSTS):
            raise Refused("The file is at no address of Discord.")
        return url

    # --- messages of the gateway ---

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`. The nonce makes a repeat of the last minutes show nothing."""
        content: dict[str, object] = {
            "content": fitting(message.text, message.preformatted),
            "nonce": nonce_of(message.key),
            "enforce_nonce": True,
            "allowed_mentions": NOBODY,
            "flags": NO_PREVIEWS | (SILENT if message.silent else 0),
        }
        if message.reply_to is not None:
            _, number = place_of(message.chat_id, message.reply_to)
            content["message_reference"] = {"message_id": number, "fail_if_not_exists": False}
        if message.buttons:
            content["components"] = _rows(message)
        if len(message.attachments) > MOST_FILES:
            raise Refused(f"Discord takes {MOST_FILES} files with a message.")
        files = [await read_attached(file, "Discord") for file in message.attachments]
        try:
            sent = await self._calls.send(
                f"/channels/{message.thread_id or message.chat_id}/messages", content, files
            )
        except ChatGone:
            if message.thread_id is None:
                raise
            # The thread is gone; its channel may be there.
            sent = await self._calls.send(f"/channels/{message.chat_id}/messages", content, files)
        return _id_of(sent, message.chat_id)

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        channel, number = place_of(chat_id, message_id)
        content = {
            "content": fitting(text, preformatted),
            "components": [],
            "allowed_mentions": NOBODY,
            "flags": NO_PREVIEWS,
        }
        await self._calls.once("PATCH", f"/channels/{channel}/messages/{number}", content)

    async def _delete(self, chat_id: str, message_id: str) -> None:
        channel, number = place_of(chat_id, message_id)
        await self._calls.once("DELETE", f"/channels/{channel}/messages/{number}")

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        await self._calls.once("POST", f"/channels/{thread_id or chat_id}/typing")


def nonce_of(key: str) -> str:
    """Return the nonce of a key: as long as Discord takes it."""
    return hashlib.sha256(key.encode()).hexdigest()[:LONGEST_NONCE]


def fitting(text: str, preformatted: Preformatted = ()) -> str:
    """Return a text as Discord's Markdown; as it is if its form would be too long. Raises `Refused` for
    preformatted parts that do not fit: they have no other form."""
    formed = to_discord(text, preformatted)
    if len(formed.encode("utf-16-le", "surrogatepass")) // 2 <= TRAITS.limit:
        return formed
    if preformatted:
        raise Refused("Its exact form is longer than Discord takes.")
    return text


def _rows(message: Outgoing) -> list[dict[str, object]]:
    buttons = [
        {"type": 2, "style": 2, "label": one.label[:LONGEST_LABEL], "custom_id": one.value}
        for one in message.buttons
    ]
    starts = range(0, len(buttons), BUTTONS_IN_ROW)
    return [{"type": 1, "components": buttons[start : start + BUTTONS_IN_ROW]} for start in starts]


def _id_of(sent: Any, chat_id: str) -> str | None:
    """Return the id of a sent message, with its thread. A message without an id has arrived too."""
    if not isinstance(sent, dict) or not isinstance(sent.get("id"), str):
        return None
    channel = sent.get("channel_id", chat_id)
    return sent["id"] if channel == chat_id else f"{channel}/{sent['id']}"
