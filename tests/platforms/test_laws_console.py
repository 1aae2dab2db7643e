"""Laws of adapters for the terminal. It has one person, one chat, no network, and a screen on which printed
text stays."""

from __future__ import annotations

import gc
import io
import itertools
from contextlib import suppress
from functools import partial

import pytest
import trio

from hermes_trio.cli.console import GROWING, PROMPT, Console
from hermes_trio.platform.contract import LinkLost, Outgoing
from hermes_trio.testing.checkpoints import cancelled_at


class Keyboard:
    """A keyboard with prepared lines, and a list of those that were read."""

    def __init__(self, typed: str) -> None:
        self._left = typed.splitlines()
        self.read_lines: list[str] = []

    async def read(self) -> str | None:
        await trio.lowlevel.checkpoint()
        if not self._left:
            return None
        self.read_lines.append(self._left.pop(0))
        return self.read_lines[-1]


@pytest.fixture
def screen() -> io.StringIO:
    return io.StringIO()


def console(screen: io.StringIO, typed: str = "") -> tuple[Console, Keyboard]:
    keyboard = Keyboard(typed)
    numbers = map(str, itertools.count(1))
    return Console(
        lambda: None, lambda: None, lambda: next(numbers), keyboard=keyboard, screen=screen
    ), keyboard


def message(text: str, *, grows: bool = False) -> Outgoing:
    return Outgoing(chat_id="me", text=text, key="key-1", grows=grows)


async def test_lines_are_read_once_and_in_order_each_after_the_previous_one_is_stored(
    screen: io.StringIO,
) -> None:
    adapter, keyboard = console(screen, "one\n\ntwo\nthree\n")
    async with adapter.connect() as link:
        events = link.receive()
        assert (await anext(events)).text == "one"
        assert keyboard.read_lines == ["one"]
        assert [(await anext(events)).text, (await anext(events)).text] == ["two", "three"]
        await events.aclose()  # type: ignore[attr-defined]


async def test_a_line_that_could_not_be_stored_comes_again_and_the_person_is_told(
    screen: io.StringIO,
) -> None:
    adapter, keyboard = console(screen, "one\ntwo\n")
    before = None
    with suppress(LinkLost):
        async with adapter.connect() as link:
            events = link.receive()
            before = await anext(events)
            await events.aclose()  # type: ignore[attr-defined]
            raise LinkLost("The disk is full. Free some space.")
    notice = "The disk is full. Free some space. Your message is kept and sent again.\n"
    assert screen.getvalue() == f"{PROMPT}\n{notice}"
    async with adapter.connect() as link:
        events = link.receive()
        assert await anext(events) == before, "an event with the same key is stored once"
        assert before is not None
        assert before.message_key is not None
        assert keyboard.read_lines == ["one"]
        assert (await anext(events)).text == "two"
        await events.aclose()  # type: ignore[attr-defined]


async def test_a_message_is_printed_once_with_its_exact_text(screen: io.StringIO) -> None:
    adapter, _ = console(screen)
    async with adapter.connect() as link:
        await link.send(message("Hi."))
        await link.send(message("Bye."))
    assert screen.getvalue() == f"{PROMPT}\nHi.\n{PROMPT}\nBye.\n{PROMPT}"


async def test_a_message_that_grows_has_its_exact_text_in_the_end(screen: io.StringIO) -> None:
    adapter, _ = console(screen)
    words = "It grows word by word, and is whole in the end."
    async with adapter.connect() as link:
        message_id = await link.send(message(words[:2], grows=True))
        assert message_id is not None
        for end in range(3, len(words)):
            await link.edit("me", message_id, words[:end] + GROWING)
        await link.edit("me", message_id, words)
    assert screen.getvalue() == f"{PROMPT}\n{words}\n{PROMPT}"


@pytest.mark.parametrize("halt", range(1, 4))
async def test_a_send_that_is_cancelled_at_any_checkpoint_is_printed_once_or_not_at_all(
    screen: io.StringIO, halt: int
) -> None:
    adapter, _ = console(screen)
    async with adapter.connect() as link:
        cancelled = await cancelled_at(halt, partial(link.send, message("Hi.")))
        assert screen.getvalue().count("Hi.") == (0 if cancelled else 1)
        await link.send(message("Bye."))
        assert screen.getvalue().count("Bye.") == 1


async def test_many_connections_leave_no_task_and_no_object_behind(screen: io.StringIO) -> None:
    adapter, _ = console(screen)

    async def connect() -> None:
        async with adapter.connect() as link:
            await link.send(message("Hi."))

    await connect()
    gc.collect()
    tasks, objects = trio.lowlevel.current_statistics().tasks_living, len(gc.get_objects())
    for _ in range(1000):
        await connect()
    gc.collect()
    assert trio.lowlevel.current_statistics().tasks_living == tasks
    assert len(gc.get_objects()) < objects + 100
