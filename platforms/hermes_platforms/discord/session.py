"""Session of Discord's gateway: what is sent for each frame that comes. Pure, without a socket or a clock.

A session outlives its connection: a resumed one is sent every dispatch after the number that it names. A
session that Discord has forgotten begins anew, and its missed messages are read from the channels.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

DISPATCH, HEARTBEAT, IDENTIFY, RESUME, RECONNECT, INVALID, HELLO, BEATEN = 0, 1, 2, 6, 7, 9, 10, 11

GUILDS, GUILD_MESSAGES, DIRECT_MESSAGES, MESSAGE_CONTENT = 1 << 0, 1 << 9, 1 << 12, 1 << 15

TOKEN_REFUSED = 4004
INTENTS_REFUSED = 4014
FINAL = {
    TOKEN_REFUSED: "it does not accept the token",
    4010: "the bot is in too many servers for one connection",
    4011: "the bot is in too many servers for one connection",
    4012: "it no longer speaks this version of the gateway",
    4013: "it does not know an intent",
    INTENTS_REFUSED: "the bot may not read the content of messages",
}
"""Codes of a closed connection after which a retry changes nothing."""
FORGOTTEN = (1000, 1001, 4003, 4007, 4009)
"""Codes after which the session cannot be resumed."""


@dataclass(frozen=True, slots=True)
class Dispatch:
    """One event of Discord."""

    number: int
    kind: str
    data: Any
    session_id: str | None
    """None for a message that was read from its channel, after the session of its time was forgotten."""


@dataclass(frozen=True, slots=True)
class Reaction:
    """The reaction that a frame asks for."""

    send: str | None = None
    deliver: Dispatch | None = None
    lost: str | None = None
    """Why the connection is of no use any more."""


class BrokenFrame(Exception):
    """A frame is none of Discord's gateway."""


@dataclass(slots=True)
class Session:
    """The session of one account."""

    token: str = field(repr=False)
    intents: int
    id: str | None = None
    resume_url: str | None = None
    number: int | None = None
    """Number of the last dispatch that came."""
    stored: int | None = None
    """Number of the last dispatch whose event is stored. A heartbeat names no later one: Discord need not
    keep what it confirms."""
    is_beaten: bool = True
    """The last heartbeat was answered."""

    def forget(self) -> None:
        """Let the next connection begin a new session."""
        self.id = self.resume_url = self.number = self.stored = None

    def received(self, frame: str | bytes) -> Reaction:
        """Return what a frame asks for. Raises `BrokenFrame`."""
        try:
            content = json.loads(frame)
            operation, data = content["op"], content.get("d")
        except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
            raise BrokenFrame(f"{type(error).__name__} in a frame") from error
        match operation:
            case 0:
                return self._dispatched(content)
            case 1:
                return Reaction(send=self.heartbeat())
            case 7:
                return Reaction(lost="Discord asks for a new connection")
            case 9:
                if data is not True:
                    self.forget()
                return Reaction(lost="the session is invalid")
            case 10:
                return Reaction(send=self._greeting())
            case 11:
                self.is_beaten = True
        return Reaction()

    def heartbeat(self) -> str:
        """Return a heartbeat."""
        return json.dumps({"op": HEARTBEAT, "d": self.stored})

    def closed(self, code: int | None) -> str | None:
        """Note that the connection was closed. Return why there can be no other one; None if there can."""
        if code in FORGOTTEN:
            self.forget()
        return FINAL.get(code or 0)

    def _dispatched(self, content: dict[str, Any]) -> Reaction:
        number, kind, data = content.get("s"), content.get("t"), content.get("d")
        if not isinstance(number, int) or not isinstance(kind, str):
            raise BrokenFrame("a dispatch without a number or a kind")
        if kind == "READY" and isinstance(data, dict):
            self.id, self.resume_url = data.get("session_id"), data.get("resume_gateway_url")
            self.stored = number
        if self.number is not None and number <= self.number:
            return Reaction()  # sent again after a connection that broke
        self.number = number
        return Reaction(deliver=Dispatch(number, kind, data, self.id))

    def _greeting(self) -> str:
        self.is_beaten = True
        if self.id is not None:
            resume = {"token": self.token, "session_id": self.id, "seq": self.number}
            return json.dumps({"op": RESUME, "d": resume})
        about = {"os": "linux", "browser": "hermes-trio", "device": "hermes-trio"}
        identify = {"token": self.token, "intents": self.intents, "properties": about}
        return json.dumps({"op": IDENTIFY, "d": identify})


def interval_of(frame: str | bytes) -> float | None:
    """Return the seconds between heartbeats, if the frame is the greeting of the gateway."""
    try:
        content = json.loads(frame)
        return float(content["d"]["heartbeat_interval"]) / 1000 if content["op"] == HELLO else None
    except (ValueError, RecursionError, TypeError, KeyError):
        return None
