"""Chats as the people in them see them: messages sent, edited and deleted, and times when typing was shown.

A chat refuses the same calls as a real platform: a text that is too long or blank, an edit of a message that
does not exist. A key that was seen in the last `takes_keys_for` seconds adds no second message.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ..base.messages import Attachment
from ..platform.contract import Button, Counting, Draft, Outgoing, Preformatted, Refused, Traits


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """A message from the gateway, as it looks now."""

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
        """The preformatted parts of the text."""
        return tuple(self.text[start:end] for start, end in self.preformatted)


@dataclass(slots=True)
class ShownChat:
    """A chat as a person in it sees it."""

    chat_id: str
    messages: list[Shown] = field(default_factory=list)
    typing_at: list[float] = field(default_factory=list)
    """Times at which typing was shown."""
    draft: Draft | None = None
    """The draft that is shown; a message removes it."""
    taken_in: list[str] = field(default_factory=list)
    """Ids of the person's messages that are marked as taken in."""

    @property
    def texts(self) -> list[str]:
        """Texts of the gateway's messages, oldest first."""
        return [message.text for message in self.messages]

    @property
    def last(self) -> str | None:
        """Text of the newest message; None without one."""
        return self.messages[-1].text if self.messages else None

    def button(self, label: str) -> tuple[Shown, Button]:
        """Return the newest button with this label and its message. Raises KeyError if there is none."""
        for message in reversed(self.messages):
            for button in message.buttons:
                if button.label == label:
                    return message, button
        raise KeyError(f"No button in chat {self.chat_id} has the label {label!r}.")

    def position(self, message_id: str) -> int:
        """Return the position of a message. Raises `Refused` if it does not exist or was deleted."""
        for place, message in enumerate(self.messages):
            if message.message_id == message_id:
                return place
        raise Refused(f"There is no message {message_id} in chat {self.chat_id}.")


class ShownChats:
    """All chats of a platform."""

    def __init__(self, traits: Traits, new_id: Callable[[], str]) -> None:
        self._traits, self._new_id = traits, new_id
        self._chats: dict[str, ShownChat] = {}
        self._keys: dict[tuple[str, str], tuple[str, float]] = {}
        """The message that was first sent with each key, and the time."""

    def __getitem__(self, chat_id: str) -> ShownChat:
        return self._chats.setdefault(chat_id, ShownChat(chat_id))

    def show(self, message: Outgoing, at: float) -> str:
        """Add a message and return its id."""
        key = message.chat_id, message.key
        if key in self._keys and at - self._keys[key][1] < self._traits.takes_keys_for:
            return self._keys[key][0]
        if not message.attachments:
            self._check(message.text)
        message_id = self._new_id()
        self._keys[key] = message_id, at
        self[message.chat_id].draft = None
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
        """Replace the text of a message."""
        self._check(text)
        messages, place = self[chat_id].messages, self[chat_id].position(message_id)
        messages[place] = replace(
            messages[place], text=text, buttons=(), edited_at=at, preformatted=preformatted
        )

    def show_draft(self, draft: Draft) -> None:
        """Show a draft in place of the last one."""
        if draft.text:
            self._check(draft.text)
        self[draft.chat_id].draft = draft

    def delete(self, chat_id: str, message_id: str) -> None:
        """Remove a message."""
        del self[chat_id].messages[self[chat_id].position(message_id)]

    def find(self, chat_id: str, key: str) -> str | None:
        """Return the id of the message that was sent with this key; None if there is none."""
        message_id, _ = self._keys.get((chat_id, key), (None, 0.0))
        return message_id

    def _check(self, text: str) -> None:
        width, traits = _width(text, self._traits.counting), self._traits
        if not text.strip():
            raise Refused("The message has no text.")
        if width > traits.limit:
            raise Refused(f"The message has {width} {traits.counting}; the limit is {traits.limit}.")


def _width(text: str, counting: Counting) -> int:
    match counting:
        case "characters":
            return len(text)
        case "utf-16":
            return len(text.encode("utf-16-le")) // 2
        case "bytes":
            return len(text.encode())
