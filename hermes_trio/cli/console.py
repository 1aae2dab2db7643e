"""The terminal as a platform: what is typed is said, and answers grow on the screen."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import trio

from ..base.errors import GatewayError
from ..base.messages import MessageEvent, SessionSource
from ..platform.contract import Link, LinkLost, Outgoing, Preformatted, Traits
from .terminal_output import visible

GROWING = "\x00"
"""The cursor of this platform: a text that ends with it is not finished. It is never printed."""

PERSON = "me"
"""The id of the person at the terminal."""

PROMPT = "> "
ME = SessionSource("console", PERSON, user_id=PERSON)
"""The person at the terminal."""
LONGEST_QUESTION = 10_000_000
"""Bytes that are read from a pipe."""


class Keyboard(Protocol):
    """Where the messages of a person come from."""

    async def read(self) -> str | None:
        """Return the next message, to the letter; None when there is no more."""


class Screen(Protocol):
    """Where the answers are shown."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class PipedQuestion:
    """What came through a pipe, as the only message."""

    def __init__(self, text: str) -> None:
        self._left = [text]

    async def read(self) -> str | None:
        await trio.lowlevel.checkpoint()
        return self._left.pop() if self._left else None


def read_question(fd: int) -> str:
    """Read a question from a pipe to its end. Raises GatewayError for one that is empty or too long."""
    data = bytearray()
    while len(data) <= LONGEST_QUESTION and (more := os.read(fd, 1 << 16)):
        data += more
    if len(data) > LONGEST_QUESTION:
        raise GatewayError(f"The question is longer than {LONGEST_QUESTION:,} bytes. Send a part of it.")
    if not data.strip():
        raise GatewayError("There is no question: standard input is empty, and no terminal.")
    return data.decode("utf-8", "replace").removesuffix("\n").removesuffix("\r")


class Console:
    """One person at one terminal, or one question in a pipe. `on_end` is called when there is no further
    message, `on_gone` when nobody sees the screen any more; each message is named by `new_id`. `prompt` is
    shown where the next message can be typed, unless the keyboard does so."""

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
        self._said: MessageEvent | None = None
        """What was typed last, until it is stored."""
        self._numbers = itertools.count(1)
        self._shown: dict[str, str] = {}
        self._column = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        self._print(self._prompt)
        try:
            yield self
        except LinkLost as lost:
            if self._said is not None:
                self._print(f"\n{visible(str(lost))} What you typed waits, and is tried again.\n")
            raise

    async def receive(self) -> AsyncIterator[MessageEvent]:
        while True:
            if self._said is None:
                text = await self._keyboard.read()
                if text is None:
                    break
                self._column = 0
                if not text.strip():
                    self._print(self._prompt)
                    continue
                self._said = MessageEvent(ME, text, idempotency_key=self._new_id())
            yield self._said
            self._said = None
        self._on_end()
        await trio.sleep_forever()

    async def send(self, message: Outgoing) -> str:
        message_id = str(next(self._numbers))
        await self.edit(message.chat_id, message_id, message.text + (GROWING if message.grows else ""))
        return message_id

    async def edit(self, chat_id: str, message_id: str, text: str, preformatted: Preformatted = ()) -> None:
        await trio.lowlevel.checkpoint()
        if message_id not in self._shown and self._column:  # a new one, or one of a life before this
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
        except OSError as error:  # nobody reads it any more; what is owed is shown the next time
            self._on_gone()
            raise LinkLost("the terminal is gone") from error
        self._column = len(text.rpartition("\n")[2])
