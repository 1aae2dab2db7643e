"""Events of people, from the sync of the server.

The token of a sync confirms everything before it. So the next one is asked for, and remembered, only after
the last event of a batch is stored. An account that syncs for the first time begins with the present.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from heapq import merge
from typing import Any
from urllib.parse import quote

import trio
import trio.lowlevel

from hermes_trio.platform import CredentialsRefused, LinkLost, Log, Memory, MessageEvent

from ..http_calls import NoAnswer, NotReached
from .calls import CLIENT, Denied, MatrixCalls
from .parsing import ENCRYPTED, Account, RoomEvent, event_of, read_event
from .rooms import Rooms

SYNC_SECONDS = 50
SYNC_AGAIN_AFTER = (1.0, 2.0, 5.0, 10.0, 20.0)
PAGE = 100
MOST_MISSED = 500
"""Events of one room that are read after a gap."""
FILTER = json.dumps(
    {
        "presence": {"types": []},
        "account_data": {"types": []},
        "room": {
            "ephemeral": {"types": []},
            "account_data": {"types": []},
            "state": {"types": ["m.room.member"], "lazy_load_members": True},
            "timeline": {
                "types": ["m.room.message", "m.room.member", "m.room.redaction", ENCRYPTED],
                "limit": 50,
            },
        },
    }
)

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class _Come:
    """An event in the timeline of a room."""

    room_id: str
    payload: Any


class Incoming:
    """Iterator of events. A cancelled call loses nothing."""

    def __init__(
        self,
        calls: MatrixCalls,
        account: Account,
        rooms: Rooms,
        memory: Memory,
        shown: set[str],
        stored: set[object],
    ) -> None:
        self._calls, self._account, self._rooms, self._memory = calls, account, rooms, memory
        self._shown, self._stored = shown, stored
        self._read: deque[_Come] = deque()
        """Events that came and are not stored. The first one is in work, or was handed out."""
        self._is_out = False
        self._token: str | None = None
        self._next: str | None = None
        """Token after the events that were read."""
        self._encrypted: set[str] = set()

    def __aiter__(self) -> Incoming:
        return self

    async def __anext__(self) -> MessageEvent:
        if self._is_out:
            self._stored.add(_id_of(self._read.popleft()))
            self._is_out = False
        while True:
            await trio.lowlevel.checkpoint()
            if not self._read:
                await self._sync()
                continue
            event = await self._event(self._read[0])
            if event is not None:
                self._is_out = True
                return event
            self._read.popleft()

    async def _event(self, come: _Come) -> MessageEvent | None:
        kind = come.payload.get("type") if isinstance(come.payload, dict) else None
        if kind == "m.room.redaction":
            self._shown.clear()
        if kind == "m.room.member":
            self._rooms.changed(come.room_id)
        if kind == ENCRYPTED and come.room_id not in self._encrypted:
            self._encrypted.add(come.room_id)
            log.warning("encrypted room cannot be read", platform=self._account.platform, room=come.room_id)
        read = read_event(come.payload, self._account)
        if not isinstance(read, RoomEvent):
            return read
        return event_of(read, self._account, await self._rooms.of(come.room_id))

    # --- sync ---

    async def _sync(self) -> None:
        """Confirm what was read, and wait for more."""
        if self._next is not None and self._next != self._token:
            await self._memory.keep(self._next)
            self._token = self._next
            self._stored.clear()
        if self._token is None:
            self._token = await self._memory.recall()
        answer = await self._answer()
        rooms, token = answer.get("rooms") or {}, answer.get("next_batch")
        if not isinstance(token, str) or not isinstance(rooms, dict):
            raise LinkLost("The server sends no token: is it a home server of Matrix?")
        for room_id, invitation in _items(rooms.get("invite")):
            await self._rooms.invited(room_id, invitation.get("invite_state"))
        if self._token is not None:
            come = [await self._of(room_id, room) for room_id, room in _items(rooms.get("join"))]
            new = (one for one in merge(*come, key=_sent_at) if _id_of(one) not in self._stored)
            self._read.extend(new)  # in each room the order stays
        self._next = token

    async def _answer(self) -> dict[str, Any]:
        params = {"timeout": str(SYNC_SECONDS * 1000), "filter": FILTER}
        if self._token is not None:
            params["since"] = self._token
        else:
            params["timeout"] = "0"
        for pause in (*SYNC_AGAIN_AFTER, None):
            try:
                answer = await self._calls.ask(
                    "GET", f"{CLIENT}/sync", params=params, within=SYNC_SECONDS + 15
                )
                return answer if isinstance(answer, dict) else {}
            except Denied as no:
                refusal = self._calls.refusal(no)
                if isinstance(refusal, CredentialsRefused):
                    raise refusal from no
                trouble, pause = str(no), pause and max(pause, no.retry_after)
            except (NotReached, NoAnswer) as error:
                trouble = str(error)
            if pause is None or self._calls.closed:
                raise LinkLost(f"Matrix cannot be reached: {trouble}.")
            log.info(
                "sync failed; retrying", platform=self._account.platform, error=trouble, again_after=pause
            )
            await trio.sleep(pause)
        raise AssertionError("The last pause is none.")

    async def _of(self, room_id: str, room: dict[str, Any]) -> list[_Come]:
        """Return the events of a room in their order, with those of a gap."""
        timeline = room.get("timeline") or {}
        events = timeline.get("events") or []
        if timeline.get("limited") and isinstance(timeline.get("prev_batch"), str):
            events = [*await self._gap(room_id, timeline["prev_batch"]), *events]
        return [_Come(room_id, one) for one in events[_invited_at(events, self._account.user_id) :]]

    async def _gap(self, room_id: str, before: str) -> list[Any]:
        """Return the events between our token and the beginning of a timeline."""
        found: list[Any] = []
        path = f"{CLIENT}/rooms/{quote(room_id, safe='')}/messages"
        while len(found) < MOST_MISSED:
            params = {"dir": "b", "from": before, "to": str(self._token), "limit": str(PAGE)}
            try:
                page = await self._calls.ask("GET", path, params=params)
            except (NotReached, NoAnswer) as error:
                raise LinkLost(f"Matrix did not answer: {error}.") from error
            except Denied as no:
                if no.status == 429:
                    raise LinkLost(f"Matrix lets us read no more for now: {no}.") from no
                log.info("room not readable", platform=self._account.platform, error=str(no))
                break
            chunk, end = page.get("chunk") or [], page.get("end")
            found += chunk
            if not chunk or not isinstance(end, str) or end == before:
                break
            before = end
        else:
            log.warning("messages of a gap left out", platform=self._account.platform, limit=MOST_MISSED)
        return found[::-1]


def _items(rooms: object) -> list[tuple[str, dict[str, Any]]]:
    items = rooms.items() if isinstance(rooms, dict) else ()
    return [(room_id, room) for room_id, room in items if isinstance(room, dict)]


def _invited_at(events: list[Any], me: str) -> int:
    """Return the place of our invitation, or else of our joining: what was written before is for nobody."""
    for place, event in enumerate(events):
        if not isinstance(event, dict) or event.get("type") != "m.room.member":
            continue
        if event.get("state_key") == me and _membership(event.get("content")) in ("invite", "join"):
            before = event.get("unsigned")
            before = before.get("prev_content") if isinstance(before, dict) else None
            if _membership(before) not in ("invite", "join"):
                return place
    return 0


def _membership(content: object) -> object:
    return content.get("membership") if isinstance(content, dict) else None


def _id_of(come: _Come) -> object:
    return come.payload.get("event_id") if isinstance(come.payload, dict) else None


def _sent_at(come: _Come) -> float:
    at = come.payload.get("origin_server_ts") if isinstance(come.payload, dict) else None
    return at if isinstance(at, int | float) else 0.0
