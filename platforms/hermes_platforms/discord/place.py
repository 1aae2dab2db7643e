"""How far a bot has read: what its adapter remembers across restarts.

Discord keeps a session for some minutes after its connection was lost. Later, missed messages are read from
the channels in which somebody has talked to the bot. A new channel of that time cannot be known.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from .payload import Channel

MOST_CHANNELS = 100


class KnownChannel(msgspec.Struct):
    """A channel in which somebody has talked to the bot."""

    last: str
    """Id of the last message that was read there."""
    channel: Channel
    guild_id: str | None = None


class Place(msgspec.Struct):
    """How far a bot has read."""

    session_id: str | None = None
    resume_url: str | None = None
    number: int | None = None
    channels: dict[str, KnownChannel] = {}
    """By their ids, the one that was used last at the end."""

    def resumes(self, session_id: str | None, resume_url: str | None, number: int | None) -> None:
        """Set the session and the number of its last stored dispatch."""
        self.session_id, self.resume_url, self.number = session_id, resume_url, number

    def talked(self, channel: Channel, guild_id: str | None, message_id: str) -> None:
        """Note that a message to the bot is stored."""
        known = self.channels.pop(channel.id, None)
        last = message_id if known is None else later(known.last, message_id)
        self.channels[channel.id] = KnownChannel(last, channel, guild_id)
        while len(self.channels) > MOST_CHANNELS:
            del self.channels[next(iter(self.channels))]

    def passed(self, channel_id: str, message_id: str) -> None:
        """Note that a message to somebody else was read."""
        if (known := self.channels.get(channel_id)) is not None:
            known.last = later(known.last, message_id)

    def known(self) -> Iterator[KnownChannel]:
        """Return the channels to read after an outage."""
        return iter(tuple(self.channels.values()))

    def to_text(self) -> str:
        """Return the text to remember."""
        return msgspec.json.encode(self).decode()


def place_in(text: str | None) -> Place:
    """Read a remembered text. One of another version is as good as none."""
    try:
        return Place() if text is None else msgspec.json.decode(text, type=Place)
    except msgspec.DecodeError:
        return Place()


def later(one: str, other: str) -> str:
    """Return the later one of two message ids, which are numbers that grow."""
    try:
        return max(one, other, key=int)
    except ValueError:
        return other
