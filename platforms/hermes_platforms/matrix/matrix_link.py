"""The link to Matrix: what the gateway sends and receives, in calls of the Client-Server API."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

import trio

from hermes_trio.platform import (
    Attachment,
    BaseLink,
    Memory,
    MessageEvent,
    Outgoing,
    Preformatted,
    Refused,
    Traits,
)

from ..attached_files import read_attached
from .calls import CLIENT, MatrixCalls
from .formatting import content_of
from .incoming import Incoming
from .parsing import Account
from .rooms import Rooms

TRAITS = Traits(
    limit=12_000,
    counting="bytes",
    edits=True,
    deletes=True,
    typing=True,
    threads=True,
    fetches=True,
    sends_files=True,
    takes_keys_for=1200.0,
    remembers=True,
    dialect="markdown",
    preformatted=True,
)

TYPING_SECONDS = 20
MOST_SHOWN = 10_000
TAKEN_IN = "👀"
_TYPES = {"photo": "m.image", "voice": "m.audio", "audio": "m.audio", "video": "m.video"}


class MatrixLink(BaseLink):
    """A link to a home server."""

    def __init__(
        self,
        calls: MatrixCalls,
        account: Account,
        rooms: Rooms,
        memory: Memory,
        stored: set[object],
        traits: Traits,
    ) -> None:
        super().__init__(traits)
        self._calls, self._account, self._rooms, self._memory = calls, account, rooms, memory
        self._stored = stored
        """Events after the token that are stored: another link of this process skips them."""
        self._shown: set[str] = set()
        """Messages that were there when somebody last deleted one."""

    # --- messages of people ---

    def receive(self) -> AsyncIterator[MessageEvent]:
        """As `Link.receive`."""
        return Incoming(self._calls, self._account, self._rooms, self._memory, self._shown, self._stored)

    async def _react(self, chat_id: str, message_id: str) -> None:
        relation = {"rel_type": "m.annotation", "event_id": message_id, "key": TAKEN_IN}
        path = _send_path(chat_id, "m.reaction", f"react:{message_id}")
        await self._calls.once("PUT", path, {"m.relates_to": relation})

    async def _fetch(self, file_id: str, most: int) -> bytes:
        server, _, media = file_id.removeprefix("mxc://").partition("/")
        if not file_id.startswith("mxc://") or not media or "/" in media:
            raise Refused("This is no address of a file of Matrix.")
        path = f"/_matrix/client/v1/media/download/{quote(server, safe=':')}/{quote(media, safe='')}"
        return await self._calls.download(path, most)

    # --- messages of the gateway ---

    async def send(self, message: Outgoing) -> str | None:
        """As `Link.send`. The transaction id makes a repeat show nothing."""
        kind = "m.notice" if message.silent else "m.text"
        parts: list[dict[str, object]] = []
        if message.text:
            parts.append({"msgtype": kind, **content_of(message.text, message.preformatted)})
        parts += [await self._uploaded(file) for file in message.attachments]
        sent: Any = None
        for number, part in enumerate(parts):
            content = {**part, "m.mentions": {}}
            if relation := _relation(message):
                content["m.relates_to"] = relation
            key = message.key if number == 0 else f"{message.key}:part-{number}"
            # Each part has a key of its own, so the whole may be repeated after any of them.
            sent = await self._calls.send("PUT", _send_path(message.chat_id, "m.room.message", key), content)
        event_id = sent.get("event_id") if isinstance(sent, dict) else None
        if not isinstance(event_id, str):
            return None
        self._shown.add(event_id)
        return event_id

    async def _uploaded(self, file: Attachment) -> dict[str, object]:
        name, data = await read_attached(file, "Matrix")
        answer = await self._calls.once("POST", "/_matrix/media/v3/upload", data, params={"filename": name})
        if not isinstance(answer, dict) or not isinstance(answer.get("content_uri"), str):
            raise Refused("The server has not stored the file.")
        info = {"size": len(data), **({"mimetype": file.mime_type} if file.mime_type else {})}
        kind = _TYPES.get(file.kind, "m.file")
        return {"msgtype": kind, "body": name, "filename": name, "url": answer["content_uri"], "info": info}

    async def _edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted) -> None:
        await self._check_shown(chat_id, message_id)
        new = {"msgtype": "m.text", **content_of(text, preformatted), "m.mentions": {}}
        content = {
            **new,
            "body": f"* {text}",
            "m.new_content": new,
            "m.relates_to": {"rel_type": "m.replace", "event_id": message_id},
        }
        # Two edits with one text may have another one between them, so the key is of the moment.
        key = f"edit:{message_id}:{trio.current_time()}:{text}"
        await self._calls.once("PUT", _send_path(chat_id, "m.room.message", key), content)

    async def _check_shown(self, chat_id: str, message_id: str) -> None:
        """Raise `Refused` for a message that is gone. A server takes edits of it, and nobody sees them."""
        if message_id not in self._shown:
            path = f"{CLIENT}/rooms/{quote(chat_id, safe='')}/event/{quote(message_id, safe='')}"
            found = await self._calls.once("GET", path)
            if not isinstance(found, dict) or not found.get("content"):
                raise Refused("The message was deleted.")
            if len(self._shown) >= MOST_SHOWN:
                self._shown.clear()
            self._shown.add(message_id)

    async def _delete(self, chat_id: str, message_id: str) -> None:
        self._shown.discard(message_id)
        path = f"{CLIENT}/rooms/{quote(chat_id, safe='')}/redact/{quote(message_id, safe='')}"
        await self._calls.once("PUT", f"{path}/{_transaction(f'redact:{message_id}')}", {})

    async def _typing(self, chat_id: str, thread_id: str | None) -> None:
        path = f"{CLIENT}/rooms/{quote(chat_id, safe='')}/typing/{quote(self._account.user_id, safe='')}"
        await self._calls.once("PUT", path, {"typing": True, "timeout": TYPING_SECONDS * 1000})


def _send_path(room_id: str, kind: str, key: str) -> str:
    return f"{CLIENT}/rooms/{quote(room_id, safe='')}/send/{kind}/{_transaction(key)}"


def _transaction(key: str) -> str:
    """Return the transaction id of a key."""
    return "ht-" + hashlib.sha256(key.encode()).hexdigest()[:32]


def _relation(message: Outgoing) -> dict[str, object]:
    """Return the thread and the message replied to. Clients without threads see a reply."""
    reply = {"m.in_reply_to": {"event_id": message.reply_to}} if message.reply_to else {}
    if message.thread_id is None:
        return dict(reply)
    falls_back = reply or {"m.in_reply_to": {"event_id": message.thread_id}}
    thread = {"rel_type": "m.thread", "event_id": message.thread_id, "is_falling_back": not reply}
    return {**thread, **falls_back}
