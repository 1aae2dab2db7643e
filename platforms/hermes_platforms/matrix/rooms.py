"""Known rooms, and invitations. An invitation is accepted from people who may talk."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Literal
from urllib.parse import quote

from hermes_trio.platform import CredentialsRefused, FloodWait, LinkLost, Log, PlatformError

from .calls import CLIENT, MatrixCalls
from .parsing import Account, Room

MOST_ROOMS = 1000

log = Log(__name__)


class Rooms:
    """The rooms of an account."""

    def __init__(
        self, calls: MatrixCalls, account: Account, allow_from: Collection[str] | Literal["all"]
    ) -> None:
        self._calls, self._account, self._allow_from = calls, account, allow_from
        self._known: dict[str, Room] = {}

    async def of(self, room_id: str) -> Room:
        """Return a room. One with two people is a direct chat."""
        if room_id not in self._known:
            path = f"{CLIENT}/rooms/{quote(room_id, safe='')}"
            try:
                members = await self._calls.once("GET", f"{path}/joined_members")
            except (LinkLost, FloodWait, CredentialsRefused):
                raise
            except PlatformError as error:
                log.info("room not known", platform=self._account.platform, error=str(error))
                return Room(room_id)
            if len(self._known) >= MOST_ROOMS:
                self._known.clear()
            self._known[room_id] = _room(room_id, members)
        return self._known[room_id]

    def changed(self, room_id: str) -> None:
        """Note that somebody has joined or left."""
        self._known.pop(room_id, None)

    async def invited(self, room_id: str, state: object) -> None:
        """Join a room if its invitation is from a person who may talk. Another one is left as it is: the
        owner may add the person later."""
        inviter = _inviter(state, self._account.user_id)
        if self._allow_from != "all" and inviter not in self._allow_from:
            log.info("invitation not accepted", platform=self._account.platform, room=room_id)
            return
        try:
            await self._calls.once("POST", f"{CLIENT}/join/{quote(room_id, safe='')}", {})
        except (LinkLost, FloodWait, CredentialsRefused):
            raise
        except PlatformError as error:
            log.warning("room not joined", platform=self._account.platform, room=room_id, error=str(error))


def _room(room_id: str, members: Any) -> Room:
    joined = members.get("joined") if isinstance(members, dict) else None
    people = tuple(
        (str(user), str(about.get("display_name") or "") if isinstance(about, dict) else "")
        for user, about in (joined.items() if isinstance(joined, dict) else ())
    )
    return Room(room_id, is_direct=0 < len(people) <= 2, people=people)


def _inviter(state: object, me: str) -> str | None:
    events = state.get("events") if isinstance(state, dict) else None
    for event in events if isinstance(events, list) else ():
        if isinstance(event, dict) and event.get("type") == "m.room.member" and event.get("state_key") == me:
            return str(event.get("sender"))
    return None
