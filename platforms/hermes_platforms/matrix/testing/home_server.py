"""A home server of Matrix on this machine, as an adapter sees it, with people that are driven by a test.

    async with open_home_server() as matrix:
        ...                                            # an adapter with matrix.token and matrix.base_url
        await matrix.says("hello")                     # returns once a sync names a token after it
        matrix.invite("!new:localhost", "42")          # an invitation by a person
        matrix.batch = 2                               # timelines with a gap

It speaks HTTP on 127.0.0.1. The token of a sync confirms the events before it, and a transaction id is good
for as long as the real server keeps it. Tests with a real one are beside it.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from html import unescape
from typing import Any

import trio

from hermes_trio.platform import (
    Attachment,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    MessageEvent,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Preformatted,
    Refused,
    Traits,
)
from hermes_trio.testing import WaitingEvent

from ...testing import HttpRequest, HttpStage, HungUp, response

TRAITS = Traits(
    limit=60_000,
    counting="bytes",
    edits=True,
    deletes=True,
    typing=True,
    reacts=True,
    threads=True,
    takes_keys_for=1800.0,
)
TYPES = {"photo": "m.image", "voice": "m.audio", "audio": "m.audio", "video": "m.video"}
KINDS = {"m.image": "photo", "m.audio": "audio", "m.video": "video", "m.file": "document"}

_CODE = re.compile(r"<code>(.*?)</code>", re.DOTALL)

Handler = Callable[["HomeServer", HttpRequest, re.Match[str]], Awaitable[Any]]


class ApiError(Exception):
    """An error answer."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status, self.body = status, {"errcode": code, "error": message}


@asynccontextmanager
async def open_home_server(name: str = "matrix", *, account: str = "main") -> AsyncIterator[HomeServer]:
    """Run the server while inside."""
    server = HomeServer(name, account)
    async with server.listening():
        yield server


class HomeServer(HttpStage):
    """A home server that listens on a port."""

    def __init__(self, name: str, account: str) -> None:
        super().__init__(name, account, TRAITS)
        self.user_id = "@hermes_bot:localhost"
        self.token = "syt_simulated-of-nobody"  # noqa: S105
        self.lets_in = True
        """The token is valid."""
        self.asked: list[str] = []
        """Paths of the calls in their order."""
        self.batch = 50
        """Events of a room in one sync."""
        self.invitations: dict[str, str] = {}
        """Rooms of invitations that wait, and who invites."""
        self.joined: list[str] = []
        """Rooms that the adapter has joined."""
        self.redacted: set[str] = set()
        """Messages that somebody has deleted."""
        self._groups: set[str] = set()

    # --- for tests ---

    def invite(self, room_id: str, by: str) -> None:
        """Invite the account into a room."""
        self.invitations[room_id] = by
        self.changed.set()

    def refuses(self) -> None:
        """Make the token invalid from now on."""
        self.lets_in = False
        self.drop()

    @property
    def waiting(self) -> Sequence[WaitingEvent]:
        """Events that are not confirmed."""
        return self._waiting

    # --- requests ---

    async def answer(self, request: HttpRequest) -> bytes:
        """As `HttpStage.answer`."""
        self.asked.append(f"{request.method} {request.path}")
        try:
            act_afterwards = self.count()
            if not self.lets_in or request.headers.get("authorization") != f"Bearer {self.token}":
                raise CredentialsRefused(self.name)
            for method, pattern, handler in ROUTES:
                if method == request.method and (found := re.fullmatch(pattern, request.path)):
                    result = await handler(self, request, found)
                    act_afterwards()
                    return response(200, result)
            raise ApiError(404, "M_UNRECOGNIZED", "Unrecognized request")
        except PlatformError as error:
            return _answer_of(error)
        except ApiError as error:
            return response(error.status, error.body)

    async def sync(self, since: str | None, seconds: float) -> dict[str, Any]:
        """Return the events after a token; wait for some if there are none."""
        if since is None:
            first = self._waiting[0].number if self._waiting else next(self._numbers)
            return {"next_batch": f"s{first - 1}", "rooms": {"invite": self._invite()}}
        position = int(since.removeprefix("s"))
        for one in list(self._waiting):
            if one.number <= position:
                self.accept(one)
        with trio.move_on_after(seconds):
            await self.until(lambda: bool(self._waiting or self.invitations))
        rooms: dict[str, dict[str, Any]] = {}
        for one in self._waiting:
            room = rooms.setdefault(one.event.source.chat_id, {"timeline": {"events": []}})
            room["timeline"]["events"].append(self._event(one))
            position = max(position, one.number)
        for room in rooms.values():
            self._limit(room["timeline"], since)
        return {"next_batch": f"s{position}", "rooms": {"join": rooms, "invite": self._invite()}}

    def gap(self, room_id: str, before: int, after: int, limit: int) -> dict[str, Any]:
        """Return events of a room between two positions, newest first."""
        events = [
            one
            for one in self._waiting
            if one.event.source.chat_id == room_id and after < one.number < before
        ]
        chunk = [self._event(one) for one in reversed(events)][:limit]
        end = {"end": f"s{events[-len(chunk)].number}"} if len(chunk) < len(events) else {}
        return {"chunk": chunk, "start": f"s{before}", **end}

    def people(self, room_id: str) -> dict[str, Any]:
        """Return the people in a room."""
        others = [room_id] if room_id not in self._groups else ["7", "42", "43"]
        joined = {one: {"display_name": f"person-{one}"} for one in others}
        return {"joined": {**joined, self.user_id: {"display_name": "Hermes"}}}

    def _invite(self) -> dict[str, Any]:
        return {
            room_id: {"invite_state": {"events": [_invitation(self.user_id, by)]}}
            for room_id, by in self.invitations.items()
        }

    def _limit(self, timeline: dict[str, Any], since: str) -> None:
        events = timeline["events"]
        if len(events) > self.batch:
            timeline["events"] = events[-self.batch :]
            timeline["limited"] = True
            timeline["prev_batch"] = f"s{timeline['events'][0]['unsigned']['position']}"

    def _event(self, waiting: WaitingEvent) -> dict[str, Any]:
        event = waiting.event
        if event.source.chat_type != "dm":
            self._groups.add(event.source.chat_id)
        return {
            "event_id": event.message_id,
            "type": "m.room.message",
            "sender": event.source.user_id,
            "origin_server_ts": 1_700_000_000_000 + waiting.number,
            "unsigned": {"position": waiting.number},
            "content": self._content(event),
        }

    def _content(self, event: MessageEvent) -> dict[str, Any]:
        named = "@hermes_bot" in event.text
        content: dict[str, Any] = {
            "msgtype": "m.text",
            "body": event.text,
            "m.mentions": {"user_ids": [self.user_id] if named else []},
        }
        for file in event.attachments:
            info = {"size": file.size, "mimetype": file.mime_type}
            content |= {"msgtype": TYPES.get(file.kind, "m.file"), "info": info}
            content |= {"filename": file.name or "file", "url": f"mxc://localhost/{file.file_id}"}
        relation: dict[str, Any] = {}
        if event.reply_to is not None:
            relation["m.in_reply_to"] = {"event_id": event.reply_to}
        if event.source.thread_id is not None:
            relation |= {"rel_type": "m.thread", "event_id": event.source.thread_id}
        return {**content, **({"m.relates_to": relation} if relation else {})}


async def _whoami(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    await server.connecting()
    return {"user_id": server.user_id, "device_id": "DEVICE"}


async def _sync(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    return await server.sync(request.params.get("since"), int(request.params.get("timeout", 0)) / 1000)


async def _messages(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    before, after = (int(request.params[one].removeprefix("s")) for one in ("from", "to"))
    return server.gap(found[1], before, after, int(request.params["limit"]))


async def _joined(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    return {"joined_rooms": server.joined}


async def _members(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    return server.people(found[1])


async def _join(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    server.invitations.pop(found[1], None)
    server.joined.append(found[1])
    server.changed.set()
    return {"room_id": found[1]}


async def _send(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    room_id, kind, key, content = found[1], found[2], found[3], request.params
    relation = content.get("m.relates_to") or {}
    if kind == "m.reaction":
        await server.react(room_id, relation["event_id"])
        return {"event_id": f"reaction-{key}"}
    if relation.get("rel_type") == "m.replace":
        text, exact = _read(content["m.new_content"])
        await server.edit(room_id, relation["event_id"], text, exact)
        return {"event_id": f"edit-{key}"}
    text, exact = _read(content)
    files: tuple[Attachment, ...] = ()
    if "url" in content:
        of: Any = KINDS[content["msgtype"]]
        files, text, exact = (Attachment(of, name=content["filename"]),), "", ()
    message_id = await server.send(
        Outgoing(
            chat_id=room_id,
            text=text,
            preformatted=exact,
            key=key,
            thread_id=relation.get("event_id") if relation.get("rel_type") == "m.thread" else None,
            reply_to=(relation.get("m.in_reply_to") or {}).get("event_id"),
            attachments=files,
            silent=content.get("msgtype") == "m.notice",
        )
    )
    return {"event_id": message_id}


async def _event(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    if found[2] in server.redacted:
        return {"event_id": found[2], "type": "m.room.message", "content": {}}
    try:
        server.chat(found[1]).position(found[2])
    except Refused:
        raise ApiError(404, "M_NOT_FOUND", "Event not found") from None
    return {"event_id": found[2], "type": "m.room.message", "content": {"body": "shown"}}


async def _redact(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    await server.delete(found[1], found[2])
    return {"event_id": f"redaction-{found[3]}"}


async def _typing(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    await server.typing(found[1], None)
    return {}


async def _upload(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    media = f"uploaded-{len(server.files)}"
    server.files[media] = request.body
    return {"content_uri": f"mxc://localhost/{media}"}


async def _download(server: HomeServer, request: HttpRequest, found: re.Match[str]) -> Any:
    if found[1] not in server.files:
        raise ApiError(404, "M_NOT_FOUND", "Not found")
    return server.files[found[1]]


_ROOM = r"/_matrix/client/v3/rooms/([^/]+)"
ROUTES: list[tuple[str, str, Handler]] = [
    ("GET", r"/_matrix/client/v3/account/whoami", _whoami),
    ("GET", r"/_matrix/client/v3/sync", _sync),
    ("GET", r"/_matrix/client/v3/joined_rooms", _joined),
    ("POST", r"/_matrix/client/v3/join/([^/]+)", _join),
    ("GET", _ROOM + r"/joined_members", _members),
    ("GET", _ROOM + r"/messages", _messages),
    ("GET", _ROOM + r"/event/([^/]+)", _event),
    ("PUT", _ROOM + r"/send/([^/]+)/([^/]+)", _send),
    ("PUT", _ROOM + r"/redact/([^/]+)/([^/]+)", _redact),
    ("PUT", _ROOM + r"/typing/([^/]+)", _typing),
    ("POST", r"/_matrix/media/v3/upload", _upload),
    ("GET", r"/_matrix/client/v1/media/download/localhost/([^/]+)", _download),
]


def _answer_of(error: PlatformError) -> bytes:
    """Return the answer by which a home server tells its clients of an error."""
    match error:
        case CredentialsRefused() | NotSent() if not isinstance(error, FloodWait):
            return response(401, {"errcode": "M_UNKNOWN_TOKEN", "error": "Invalid access token"})
        case ChatGone():
            return response(403, {"errcode": "M_FORBIDDEN", "error": "not in the room"})
        case FloodWait(seconds=seconds):
            body = {"errcode": "M_LIMIT_EXCEEDED", "error": "", "retry_after_ms": seconds * 1000}
            return response(429, body)
        case OutcomeUnknown():
            raise HungUp
        case _:
            return response(400, {"errcode": "M_UNKNOWN", "error": str(error)})


def _invitation(user_id: str, by: str) -> Mapping[str, Any]:
    content = {"membership": "invite"}
    return {"type": "m.room.member", "state_key": user_id, "sender": by, "content": content}


def _read(content: Mapping[str, Any]) -> tuple[str, Preformatted]:
    """Return a text, and its parts that are shown as code."""
    if len(json.dumps(content)) > 65_000:
        raise ApiError(413, "M_TOO_LARGE", "event too large")
    text, spans, at = str(content["body"]), list[tuple[int, int]](), 0
    for code in _CODE.findall(str(content.get("formatted_body", ""))):
        start = text.find(unescape(code), at)
        if start >= 0:
            at = start + len(unescape(code))
            spans.append((start, at))
    return text, tuple(spans)
