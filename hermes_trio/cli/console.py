"""The terminal as a platform: each typed line is a message, and answers grow on the screen."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import trio

from ..base.errors import GatewayError
from ..base.messages import MessageEvent, SessionSource
from ..platform.contract import Draft, Link, LinkLost, Outgoing, Preformatted, Traits
from .terminal_output import visible

GROWING = "\x00"
"""The cursor of this platform: a text that ends with it still grows. It is never printed."""

PERSON = "me"
"""The id of the person at the terminal."""

PROMPT = "> "
ME = SessionSource("console", PERSON, user_id=PERSON)
"""The person at the terminal."""
LONGEST_QUESTION = 10_000_000
"""Maximum bytes of a question from a pipe."""


class Keyboard(Protocol):
    """The source of a person's messages."""

    async def read(self) -> str | None:
        """Return the next message unchanged, or None after the last one."""


class Screen(Protocol):
    """The output for the answers."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class PipedQuestion:
    """A question from a pipe, as the only message."""

    def __init__(self, text: str) -> None:
        self._left = [text]

    async def read(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return self._left.pop() if self._left else None


def read_question(fd: int) -> str:
    """Read a question from a pipe to its end. Raise `GatewayError` if it is empty or too long."""
    data = bytearray()
    while len(data) <= LONGEST_QUESTION and (more := os.read(fd, 1 << 16)):
        data += more
    if len(data) > LONGEST_QUESTION:
        raise GatewayError(f"The question is longer than {LONGEST_QUESTION:,} bytes. Send a part of it.")
    if not data.strip():
        raise GatewayError(
            "There is no question: standard input is empty. Write one to it, or start the chat in a terminal."
        )
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


class Console:
    """One person at one terminal, or one question in a pipe.

    `on_end` is called after the last message, and `on_gone` when the output is closed. `new_id` makes an id
    for each message. `prompt` is printed before each message; it is empty if the keyboard prints one itself.
    """

    name = "console"
    account = "main"
    traits = Traits(limit=1_000_000, edits=True)

    def __init__(
        self,
        on_end: Callable[[], object],
        on_gone: Callable[[], object],
        new_id: Callable[[], str],
        *,
        keyboard: Keyboard,
        screen: Screen,
        prompt: str = PROMPT,
    ) -> None:
        self._on_end, self._on_gone, self._new_id = on_end, on_gone, new_id
        self._keyboard, self._screen, self._prompt = keyboard, screen, prompt
        self._unstored: MessageEvent | None = None
        """The last message, until it is stored."""
        self._numbers = itertools.count(1)
        self._shown: dict[str, str] = {}
        self._column = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        self._print(self._prompt)
        try:
            yield self
        except LinkLost as lost:
            if self._unstored is not None:
                self._print(f"\n{visible(str(lost))} Your message is kept and sent again.\n")
            raise

    async def receive(self) -> AsyncIterator[MessageEvent]:
        while True:
            if self._unstored is None:
                text = await self._keyboard.read()
                if text is None:
                    break
                self._column = 0
                if not text.strip():
                    self._print(self._prompt)
                    continue
                self._unstored = MessageEvent(ME, text, idempotency_key=self._new_id())
            yield self._unstored
            self._unstored = None
        self._on_end()
        await trio.sleep_forever()

    async def send(self, message: Outgoing) -> str:
        message_id = str(next(self._numbers))
        await self.edit(message.chat_id, message_id, message.text + (GROWING if message.grows else ""))
        return message_id

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        await trio.lowlevel.checkpoint()
        if message_id not in self._shown and self._column:  # a new message, or one of an earlier life
            self._print("\n")
        growing, text = text.endswith(GROWING), visible(text.removesuffix(GROWING))
        before = self._shown.pop(message_id, "")
        if text.startswith(before):
            self._print(text[len(before) :])
        else:
            self._print(f"\n{text}")
        if growing:
            self._shown[message_id] = text
        else:
            self._print(f"\n{self._prompt}")

    async def delete(self, chat_id: str, message_id: str) -> None:
        await trio.lowlevel.checkpoint()

    async def typing(self, chat_id: str, thread_id: str | None) -> None:
        await trio.lowlevel.checkpoint()

    async def draft(self, draft: Draft) -> None:
        raise NotImplementedError("the traits deny it")

    async def react(self, chat_id: str, message_id: str) -> None:
        raise NotImplementedError("the traits deny it")

    async def find(self, chat_id: str, key: str) -> str | None:
        await trio.lowlevel.checkpoint()
        return None

    async def fetch(self, file_id: str, most: int) -> bytes:
        raise NotImplementedError("the traits deny it")

    def _print(self, text: str) -> None:
        if not text:
            return
        try:
            self._screen.write(text)
            self._screen.flush()
        except OSError as error:  # the output is closed; unsent answers are shown in the next chat
            self._on_gone()
            raise LinkLost("the terminal is gone") from error
        self._column = len(text.rpartition("\n")[2])
