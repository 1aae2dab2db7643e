"""The terminal as a platform: what is typed is said, and answers grow on the screen."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import TextIO

import trio

from ..messages import MessageEvent, SessionSource
from ..platform import Link, LinkLost, Outgoing, Traits

GROWING = "\x00"
"""The cursor of this platform: a text that ends with it is not finished. It is never printed."""

PROMPT = "> "


class Console:
    """One person at one terminal. `on_end` is called when nothing is typed any more, or nobody reads; each
    line is named by `new_id`."""

    name = "console"
    account = "main"
    traits = Traits(limit=1_000_000, edits=True)

    def __init__(
        self, on_end: Callable[[], None], new_id: Callable[[], str], *, stdin: TextIO, stdout: TextIO
    ) -> None:
        self._on_end, self._new_id, self._stdin, self._stdout = on_end, new_id, stdin, stdout
        self._said: MessageEvent | None = None
        """What was typed last, until it is stored."""
        self._numbers = itertools.count(1)
        self._shown: dict[str, str] = {}
        self._column = 0

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Link]:
        self._print(PROMPT)
        try:
            yield self
        except LinkLost as lost:
            if self._said is not None:
                self._print(f"\n{lost} What you typed waits, and is tried again.\n")
            raise

    async def receive(self) -> AsyncIterator[MessageEvent]:
        while True:
            if self._said is None:
                # A thread that reads from a terminal cannot be called back; it is left to its line.
                line = await trio.to_thread.run_sync(self._stdin.readline, abandon_on_cancel=True)
                if not line:
                    break
                self._column = 0
                if not line.strip():
                    self._print(PROMPT)
                    continue
                source = SessionSource(self.name, "me", user_id="me")
                self._said = MessageEvent(source, line.strip(), idempotency_key=self._new_id())
            yield self._said
            self._said = None
        self._on_end()
        await trio.sleep_forever()

    async def send(self, message: Outgoing) -> str:
        message_id = str(next(self._numbers))
        await self.edit(message.chat_id, message_id, message.text + (GROWING if message.grows else ""))
        return message_id

    async def edit(self, chat_id: str, message_id: str, text: str) -> None:
        await trio.lowlevel.checkpoint()
        if message_id not in self._shown and self._column:  # a new one, or one of a life before this
            self._print("\n")
        growing, text = text.endswith(GROWING), text.removesuffix(GROWING)
        before = self._shown.pop(message_id, "")
        if text.startswith(before):
            self._print(text[len(before) :])
        else:
            self._print(f"\n{text}")
        if growing:
            self._shown[message_id] = text
        else:
            self._print(f"\n{PROMPT}")

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
            self._stdout.write(text)
            self._stdout.flush()
        except OSError as error:  # nobody reads it any more; what is owed is shown the next time
            self._on_end()
            raise LinkLost("the terminal is gone") from error
        self._column = len(text.rpartition("\n")[2])


def terminal(on_end: Callable[[], None], new_id: Callable[[], str]) -> Console:
    """The terminal this program runs in."""
    return Console(on_end, new_id, stdin=sys.stdin, stdout=sys.stdout)
