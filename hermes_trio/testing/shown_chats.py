"""Chats as the people in them see them: what was sent, edited, deleted, and when typing was shown.

A chat refuses what a real platform refuses: a text that is too long or blank, an edit of what is not
there. With `takes_keys` a key that was seen shows nothing again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..base.messages import Attachment
from ..platform.contract import Button, Counting, Outgoing, Preformatted, Refused, Traits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message of the gateway's in a chat, as it looks now."""

    message_id: str
    text: str
    at: float
    edited_at: float | None = None
    thread_id: str | None = None
    reply_to: str | None = None
    attachments: tuple[Attachment, ...] = ()
    buttons: tuple[Button, ...] = ()
    silent: bool = False
    preformatted: Preformatted = ()

    @property
    def exact(self) -> tuple[str, ...]:
        """The stretches of the text that are preformatted."""
        return tuple(self.text[start:end] for start, end in self.preformatted)


@dataclass(slots=True)
class ShownChat:
    """A chat as the person in it sees it."""

    chat_id: str
    messages: list[Shown] = field(default_factory=list)
    typing_at: list[float] = field(default_factory=list)
    """When typing was shown."""

    @property
    def texts(self) -> list[str]:
        """What the gateway's messages say, oldest first."""
        return [message.text for message in self.messages]

    @property
    def last(self) -> str | None:
        """What the newest of them says."""
        return self.messages[-1].text if self.messages else None

    def button(self, label: str) -> tuple[Shown, Button]:
        """The newest button with this label, and the message that has it. KeyError if there is none."""
        for message in reversed(self.messages):
            for button in message.buttons:
                if button.label == label:
                    return message, button
        raise KeyError(f"Nothing to press says {label!r} in chat {self.chat_id}.")

    def place(self, message_id: str) -> int:
        """Where this message stands; `Refused` if it is not there, or not any more."""
        for place, message in enumerate(self.messages):
            if message.message_id == message_id:
                return place
        raise Refused(f"There is no message {message_id} in chat {self.chat_id}.")


class Chats:
    """All the chats of a platform."""

    def __init__(self, traits: Traits, new_id: Callable[[], str]) -> None:
        self._traits, self._new_id = traits, new_id
        self._chats: dict[str, ShownChat] = {}
        self._ids_of_keys: dict[tuple[str, str], str] = {}

    def __getitem__(self, chat_id: str) -> ShownChat:
        return self._chats.setdefault(chat_id, ShownChat(chat_id))

    def show(self, message: Outgoing, at: float) -> str:
        """A new message; its id."""
        key = message.chat_id, message.key
        if self._traits.takes_keys and key in self._ids_of_keys:
            return self._ids_of_keys[key]
        if not message.attachments:
            self._check(message.text)
        message_id = self._ids_of_keys[key] = self._new_id()
        self[message.chat_id].messages.append(
            Shown(
                message_id=message_id,
                text=message.text,
                at=at,
                thread_id=message.thread_id,
                reply_to=message.reply_to,
                attachments=message.attachments,
                buttons=message.buttons if self._traits.buttons else (),
                silent=message.silent,
                preformatted=message.preformatted,
            )
        )
        return message_id

    def edit(
        self, chat_id: str, message_id: str, text: str, at: float, preformatted: Preformatted = ()
    ) -> None:
        """A message says something else."""
        self._check(text)
        messages, place = self[chat_id].messages, self[chat_id].place(message_id)
        messages[place] = replace(
            messages[place], text=text, buttons=(), edited_at=at, preformatted=preformatted
        )

    def delete(self, chat_id: str, message_id: str) -> None:
        """A message is gone."""
        del self[chat_id].messages[self[chat_id].place(message_id)]

    def find(self, chat_id: str, key: str) -> str | None:
        """The id of the message that came with this key."""
        return self._ids_of_keys.get((chat_id, key))

    def _check(self, text: str) -> None:
        width, traits = _width(text, self._traits.counting), self._traits
        if not text.strip():
            raise Refused("A message without text.")
        if width > traits.limit:
            raise Refused(f"A message of {width} {traits.counting}; the limit is {traits.limit}.")


def _width(text: str, counting: Counting) -> int:
    match counting:
        case "characters":
            return len(text)
        case "utf-16":
            return len(text.encode("utf-16-le")) // 2
        case "bytes":
            return len(text.encode())
