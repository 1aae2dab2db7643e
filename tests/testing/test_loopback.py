"""The loopback platform: over a real connection nothing is lost, whatever byte it breaks at, and a peer
that says what it should not is refused without harm."""

from __future__ import annotations

import itertools
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TypeVar

import psutil
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import wait_all_tasks_blocked

from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.platform.contract import (
    Adapter,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    Link,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Outgoing,
    PlatformError,
    Refused,
    Traits,
)
from hermes_trio.testing import LoopbackAdapter, LoopbackServer, in_background, open_loopback
from hermes_trio.testing.checkpoints import cancelled_at
from hermes_trio.testing.wire import (
    LONGEST_LINE,
    Answer,
    Edit,
    Failure,
    FromGateway,
    FromPlatform,
    Reader,
    Said,
    Send,
    WireError,
    decode_from_gateway,
    decode_from_platform,
    encode,
)

EVERYTHING = Traits(edits=True, deletes=True, typing=True, threads=True, takes_keys=True, finds=True)
HELLO = b'{"type":"hello","id":1,"account":"main"}\n'
ROOT = Path(__file__).parents[2]

T = TypeVar("T")


@pytest.fixture
async def platform() -> AsyncIterator[LoopbackServer]:
    async with open_loopback(traits=EVERYTHING) as server:
        with trio.fail_after(20):
            yield server


@pytest.fixture
def adapter(platform: LoopbackServer) -> LoopbackAdapter:
    return LoopbackAdapter(platform.port, traits=EVERYTHING)


@pytest.fixture
async def link(adapter: LoopbackAdapter) -> AsyncIterator[Link]:
    async with adapter.connect() as link:
        yield link


@dataclass
class Gateway:
    """The least that a gateway does: it stores what people say, answers each message once, repeats by
    key what may not have arrived, and connects again."""

    adapter: Adapter
    stored: dict[str, str] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)
    lives: int = 0

    async def run(self) -> None:
        while True:
            try:
                await self.live()
            except LinkLost:
                await trio.lowlevel.checkpoint()

    async def live(self) -> None:
        async with self.adapter.connect() as link:
            self.lives += 1
            await self.answer(link)
            async for event in link.receive():
                assert event.message_id is not None
                self.stored.setdefault(event.message_id, event.text)
                await self.answer(link)

    async def answer(self, link: Link) -> None:
        for message_id, text in self.stored.items():
            if message_id not in self.answered:
                try:
                    await link.send(message(f"You said: {text}", key=f"answer-{message_id}"))
                except (NotSent, OutcomeUnknown) as error:
                    raise LinkLost("Try again.") from error
                self.answered.add(message_id)


def message(text: str = "Hi.", *, chat: str = "42", key: str = "key-1") -> Outgoing:
    return Outgoing(chat_id=chat, text=text, key=key)


def open_files() -> int:
    process = psutil.Process()
    if sys.platform == "win32":
        return process.num_handles()
    return process.num_fds()


def living_tasks() -> int:
    return trio.lowlevel.current_statistics().tasks_living


# --- what people say ---


async def test_what_is_said_is_accepted_when_the_next_message_is_asked_for(
    platform: LoopbackServer, link: Link
) -> None:
    event = platform.event("hello", chat="7", user="8", thread_id="9", chat_type="group", reply_to="1")
    accepted = platform.deliver(event)
    incoming = link.receive()
    assert await anext(incoming) == event
    await link.typing("42", None)  # whatever was on its way has arrived
    assert not accepted.is_set()
    with trio.move_on_after(0.02):
        await anext(incoming)
    await accepted.wait()
    another = platform.post("And this.")
    await link.typing("42", None)
    assert await anext(incoming) == another


async def test_what_was_not_accepted_comes_again_and_first(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    said = [platform.post(text) for text in ("one", "two", "three")]
    for start in range(3):
        async with adapter.connect() as link:
            incoming = link.receive()
            assert await anext(incoming) == said[start]
            if start < 2:
                assert await anext(incoming) == said[start + 1]


async def test_messages_come_in_the_order_in_which_they_were_said(
    platform: LoopbackServer, link: Link
) -> None:
    said = [platform.post(f"{i}", chat=str(i % 3)) for i in range(200)]
    incoming = link.receive()
    assert [await anext(incoming) for _ in said] == said


# --- connecting, and losing the connection ---


async def test_where_nobody_listens_there_is_no_link() -> None:
    async with open_loopback() as platform:
        port = platform.port
    with pytest.raises(LinkLost, match="No program listens"):
        async with LoopbackAdapter(port).connect():
            pass


@pytest.mark.parametrize("error", [LinkLost("No network."), CredentialsRefused("loopback")])
async def test_connecting_fails_as_often_as_was_asked_for(
    platform: LoopbackServer, adapter: Adapter, error: PlatformError
) -> None:
    platform.fails("connect", error, times=2)
    for _ in range(2):
        with pytest.raises(type(error), match=str(error)):
            async with adapter.connect():
                pass
    async with adapter.connect():
        assert platform.connected
    await platform.until(lambda: not platform.connected)


async def test_another_account_is_refused(platform: LoopbackServer) -> None:
    with pytest.raises(CredentialsRefused):
        async with LoopbackAdapter(platform.port, account="second").connect():
            pass


async def test_connecting_can_hang(platform: LoopbackServer, adapter: Adapter) -> None:
    platform.hangs("connect")
    with trio.move_on_after(0.05) as patience:
        async with adapter.connect():
            pass
    assert patience.cancelled_caught
    assert not platform.connected


async def test_a_link_that_is_lost_ends_the_waiting_for_messages(
    platform: LoopbackServer, link: Link
) -> None:
    platform.drop()
    with pytest.raises(LinkLost):
        await anext(link.receive())
    with pytest.raises(NotSent):
        await link.send(message())
    for call in (
        link.edit("42", "1", "Hi!"),
        link.delete("42", "1"),
        link.typing("42", None),
        link.find("42", "key-1"),
    ):
        with pytest.raises(LinkLost):
            await call
    assert platform.chat("42").texts == []


@pytest.mark.parametrize("arrives", [True, False])
async def test_a_link_that_is_lost_during_a_send_leaves_its_outcome_unknown(
    platform: LoopbackServer, link: Link, nursery: trio.Nursery, *, arrives: bool
) -> None:
    platform.hangs("send", arrives=arrives)
    nursery.start_soon(_drop_during_a_send, platform, arrives)
    with pytest.raises(OutcomeUnknown):
        await link.send(message())
    assert platform.chat("42").texts == (["Hi."] if arrives else [])


async def _drop_during_a_send(platform: LoopbackServer, arrives: bool) -> None:
    await platform.until(lambda: platform.history[-1].what == "send")
    await platform.until(lambda: bool(platform.chat("42").texts) or not arrives)
    platform.drop()


async def test_a_second_link_ends_the_first(link: Link, adapter: Adapter) -> None:
    async with adapter.connect() as second:
        with pytest.raises(LinkLost):
            await anext(link.receive())
        await second.typing("42", None)


async def test_the_body_of_a_link_raises_what_it_raised(adapter: Adapter) -> None:
    cause = OSError()
    with pytest.raises(LinkLost) as caught:
        async with adapter.connect():
            raise LinkLost("Enough.") from cause
    assert caught.value.__cause__ is cause
    assert not isinstance(caught.value.__context__, BaseExceptionGroup)
    with pytest.raises(ExceptionGroup):
        async with adapter.connect():
            raise ExceptionGroup("two", [ValueError(), TypeError()])


async def test_when_two_things_go_wrong_both_are_raised() -> None:
    async def task() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError

    async def both() -> None:
        async with in_background(task):
            await wait_all_tasks_blocked()
            raise TypeError

    with pytest.raises(ExceptionGroup) as caught:
        await both()
    assert {type(error) for error in caught.value.exceptions} == {TypeError, ValueError}


# --- what the gateway sends ---


async def test_a_chat_shows_what_was_sent(platform: LoopbackServer, link: Link) -> None:
    first = await link.send(Outgoing(chat_id="42", text="One.", key="k1", thread_id="7", reply_to="m-1"))
    second = await link.send(message("Two.", key="k2"))
    assert first is not None
    assert second is not None
    await link.edit("42", first, "One! ☃")
    await link.delete("42", second)
    await link.typing("42", None)
    chat = platform.chat("42")
    assert [(shown.message_id, shown.text, shown.thread_id) for shown in chat.messages] == [
        (first, "One! ☃", "7")
    ]
    assert len(chat.typing_at) == 1
    assert await link.find("42", "k1") == first
    assert await link.find("42", "k3") is None
    assert await link.send(message(key="k1")) == first


@pytest.mark.parametrize(
    "error",
    [
        LinkLost("Down."),
        NotSent("Busy."),
        FloodWait(7.5),
        OutcomeUnknown("?"),
        Refused("No."),
        ChatGone("They left."),
        PlatformError("Something else."),
    ],
    ids=lambda error: type(error).__name__,
)
async def test_an_error_arrives_as_it_was(platform: LoopbackServer, link: Link, error: PlatformError) -> None:
    platform.fails("send", error)
    with pytest.raises(type(error)) as caught:
        await link.send(message())
    assert str(caught.value) == str(error)
    assert getattr(caught.value, "seconds", None) == getattr(error, "seconds", None)
    await link.send(message())
    assert platform.chat("42").texts == ["Hi."]


async def test_an_answer_can_be_lost_when_the_work_is_done(platform: LoopbackServer, link: Link) -> None:
    platform.loses_answer()
    with pytest.raises(OutcomeUnknown):
        await link.send(message())
    assert await link.find("42", "key-1") == platform.chat("42").messages[0].message_id


async def test_many_calls_at_once_get_each_its_own_answer(platform: LoopbackServer, link: Link) -> None:
    platform.hangs("send", chat="0")
    ids: dict[int, str | None] = {}

    async def send(number: int) -> None:
        ids[number] = await link.send(message(f"{number}", chat=str(number), key=f"k{number}"))

    async with trio.open_nursery() as nursery:
        for number in range(50):
            nursery.start_soon(send, number)
        await platform.until(lambda: sum(bool(platform.chat(f"{i}").texts) for i in range(50)) == 49)
        while len(ids) < 49:
            await link.typing("42", None)  # the answers are on their way
        nursery.cancel_scope.cancel()
    assert 0 not in ids  # it hangs, and kept nobody waiting
    for number, message_id in ids.items():
        assert [shown.message_id for shown in platform.chat(str(number)).messages] == [message_id]


async def test_a_message_can_come_while_its_receiver_sends(platform: LoopbackServer, link: Link) -> None:
    for i in range(20):
        platform.post(f"{i}")
    incoming = link.receive()
    for i in range(20):
        event = await anext(incoming)
        await link.send(message(event.text, key=f"k{i}"))
    assert platform.chat("42").texts == [f"{i}" for i in range(20)]


async def test_what_fits_no_line_is_refused_and_the_link_lives(platform: LoopbackServer, link: Link) -> None:
    for text in ("x" * LONGEST_LINE, "\ud800"):
        with pytest.raises(Refused):
            await link.send(message(text))
    await link.send(message())
    assert platform.chat("42").texts == ["Hi."]


# --- a connection that breaks ---


@pytest.mark.parametrize("direction", ["sent", "received"])
async def test_at_whatever_byte_the_connection_breaks_each_message_is_answered_once(
    platform: LoopbackServer, adapter: LoopbackAdapter, nursery: trio.Nursery, direction: str
) -> None:
    gateway = Gateway(adapter)
    nursery.start_soon(gateway.run)
    said = [await platform.says("hello")]
    for place in range(500):
        lives = gateway.lives
        platform.cuts_after(**{direction: place})
        said.append(await platform.says(f"{place}"))
        while gateway.lives == lives:  # until it is cut, which takes one message or some
            said.append(await platform.says(f"{place}, and more"))
    nursery.cancel_scope.cancel()
    assert gateway.lives > 500
    assert list(gateway.stored) == [event.message_id for event in said]
    assert platform.chat("42").texts == [f"You said: {event.text}" for event in said]


@pytest.mark.parametrize(
    ("direction", "line"), [("received", HELLO), ("sent", encode(Answer(1)))], ids=["hello", "its answer"]
)
async def test_at_whatever_byte_a_greeting_breaks_there_is_no_link(
    platform: LoopbackServer, adapter: Adapter, direction: str, line: bytes
) -> None:
    for place in range(len(line)):
        platform.cuts_after(**{direction: place})
        with pytest.raises(LinkLost):
            async with adapter.connect():
                pass
    async with adapter.connect() as link:
        await link.typing("42", None)
    assert platform.refused == []


async def test_a_thousand_reconnects_leave_nothing_behind(platform: LoopbackServer, adapter: Adapter) -> None:
    async def reconnect(count: int) -> None:
        for i in range(count):
            platform.post("hello")
            async with adapter.connect() as link:
                await anext(link.receive())
                if i % 2:
                    platform.drop()
        await platform.until(lambda: not platform.connected)
        await wait_all_tasks_blocked()

    await reconnect(1)
    tasks, files = living_tasks(), open_files()
    await reconnect(1000)
    assert (living_tasks(), open_files()) == (tasks, files)


# --- cancelling ---


async def assert_nothing_leaks(
    platform: LoopbackServer, action: Callable[[], Awaitable[object]], *, at_least: int
) -> None:
    """Do it, cancelled at each of its checkpoints in turn."""
    await platform.until(lambda: not platform.connected)
    await wait_all_tasks_blocked()
    tasks, files = living_tasks(), open_files()
    for halt in itertools.count(1):
        cancelled = await cancelled_at(halt, action)
        await platform.until(lambda: not platform.connected)
        await wait_all_tasks_blocked(0.002)
        assert (living_tasks(), open_files()) == (tasks, files)
        if not cancelled:
            break
    assert halt > at_least


async def test_a_connect_that_is_cancelled_anywhere_leaks_nothing(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    async def connect() -> None:
        async with adapter.connect():
            await trio.lowlevel.checkpoint()

    await assert_nothing_leaks(platform, connect, at_least=4)


async def test_a_receive_that_is_cancelled_anywhere_loses_nothing(
    platform: LoopbackServer, adapter: Adapter
) -> None:
    stored: list[str] = []
    said: list[str] = []

    async def life() -> None:
        said.append(platform.post(f"{len(said)}").text)
        async with adapter.connect() as link:
            async for event in link.receive():
                await trio.lowlevel.checkpoint()
                stored.append(event.text)
                if event.text == said[-1]:
                    break

    await assert_nothing_leaks(platform, life, at_least=8)
    assert list(dict.fromkeys(stored)) == said


async def test_a_send_that_is_cancelled_anywhere_leaves_the_link_alone(
    platform: LoopbackServer, link: Link
) -> None:
    for halt in itertools.count(1):
        key = f"key-{halt}"
        cancelled = await cancelled_at(halt, partial(link.send, message(key=key)))
        assert await link.send(message(key=key)) == await link.find("42", key)
        assert len(platform.chat("42").texts) == halt
        if not cancelled:
            break
    assert halt > 2


async def test_a_cancelled_wait_for_a_message_misses_none(platform: LoopbackServer, link: Link) -> None:
    incoming = link.receive()
    for halt in itertools.count(1):
        said = platform.post(f"{halt}")
        got: list[MessageEvent] = []

        async def take(got: list[MessageEvent] = got) -> None:
            got.append(await anext(incoming))

        cancelled = await cancelled_at(halt, take)
        if cancelled:
            await take()
        assert got == [said]
        if not cancelled:
            break
    assert halt > 1


# --- hostile peers ---

HOSTILE = {
    "no json": b"GET / HTTP/1.1\r\n\r\n",
    "no text": b"\xff\xfe\x00\n",
    "no object": b"[1, 2]\n",
    "an empty line": b"\n",
    "an unknown type": b'{"type":"shutdown","id":1}\n',
    "a field of another type": b'{"type":"hello","id":"one","account":"main"}\n',
    "a number without end": b'{"type":"hello","id":' + b"9" * 5000 + b',"account":"main"}\n',
    "brackets without end": b'{"type":"hello","x":' + b"[" * 200_000 + b"\n",
    "half a character": b'{"type":"hello","id":1,"account":"\\ud800"}\n',
    "no utf-8": b'{"type":"hello","id":1,"account":"\xff"}\n',
    "a line without end": b"x" * (LONGEST_LINE + 70_000),
    "no hello": b'{"type":"accept","number":1}\n',
    "a second hello": HELLO + HELLO,
    "no patience": HELLO + b'{"type":"typing","id":2,"chat_id":"42"}\n',
}


@pytest.mark.parametrize("data", HOSTILE.values(), ids=list(HOSTILE))
async def test_a_hostile_gateway_is_refused_and_the_next_one_served(
    platform: LoopbackServer, adapter: Adapter, data: bytes
) -> None:
    if data.startswith(HELLO):
        platform.hangs("connect")
    async with await trio.open_tcp_stream("127.0.0.1", platform.port) as stream:
        with suppress(trio.BrokenResourceError):  # as when it is closed with something unread
            await stream.send_all(data)
            assert await stream.receive_some() == b""
    await platform.until(lambda: len(platform.refused) == 1)
    async with adapter.connect() as link:
        await link.typing("42", None)


@pytest.mark.parametrize("data", [b"", HELLO[:10], HELLO], ids=["nothing", "half a line", "hello"])
async def test_a_gateway_that_goes_away_is_no_trouble(
    platform: LoopbackServer, adapter: Adapter, data: bytes
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", platform.port) as stream:
        await stream.send_all(data)
    async with adapter.connect() as link:
        await link.typing("42", None)
    assert platform.refused == []


async def test_what_was_not_given_cannot_be_accepted(platform: LoopbackServer) -> None:
    accepted = platform.deliver(platform.event("hello"))
    async with await trio.open_tcp_stream("127.0.0.1", platform.port) as stream:
        await stream.send_all(HELLO)
        await platform.until(lambda: platform.connected)
        await stream.send_all(b'{"type":"accept","number":77}\n')
        await platform.until(lambda: not platform.connected)
    assert platform.refused == ["Event 77 was accepted but not delivered."]
    assert not accepted.is_set()


async def _receive_slowly(adapter: Adapter) -> None:
    async with adapter.connect() as link:
        async for _ in link.receive():
            await trio.sleep(0.02)


SAID = b'{"type":"said","number":1,"event":{"source":{"platform":"x","chat_id":"1"},"text":"hi"}}\n'


@pytest.mark.parametrize(
    "data",
    [
        b"220 mail.example ESMTP\r\n",
        b"\xff\n",
        b'{"type":"said","number":1}\n',
        b'{"type":"answer","id":"one"}\n',
        b'{"type":"said","number":1,"event":' + b"[" * 200_000 + b"\n",
        b"x" * (LONGEST_LINE + 70_000),
        SAID * 3,
        SAID[:20],
        b"",
    ],
)
async def test_a_hostile_platform_is_a_lost_link(data: bytes) -> None:
    @asynccontextmanager
    async def hostile_platform() -> AsyncIterator[int]:
        async def serve(stream: trio.SocketStream) -> None:
            async with stream:
                await stream.receive_some()
                await stream.send_all(b'{"type":"answer","id":1}\n{"type":"answer","id":99}\n')
                with suppress(trio.BrokenResourceError):
                    await stream.send_all(data)

        listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.serve_listeners, serve, listeners)
            yield listeners[0].socket.getsockname()[1]
            nursery.cancel_scope.cancel()

    with trio.fail_after(10):
        async with hostile_platform() as port:
            with pytest.raises(LinkLost):
                await _receive_slowly(LoopbackAdapter(port))


# --- the wire ---

ids = st.integers(0, 2**53)
text = st.text(st.characters(exclude_categories=["Cs"]), max_size=50)
events = st.builds(
    MessageEvent, source=st.builds(SessionSource, platform=text, chat_id=text), text=text, message_id=text
)
frames_from_gateway = st.one_of(
    st.builds(Send, ids, st.builds(Outgoing, chat_id=text, text=text, key=text, reply_to=text)),
    st.builds(Edit, ids, text, text, text),
)
frames_from_platform = st.one_of(
    st.builds(Answer, ids, st.none() | text),
    st.builds(Failure, ids, text, text, st.floats(0, 100)),
    st.builds(Said, ids, events),
)


async def read_all(reader: Reader[T]) -> list[T]:
    found: list[T] = []
    while frame := await reader.read():
        found.append(frame)
    return found


def in_parts(data: bytes, sizes: list[int]) -> Callable[[int], Awaitable[bytes]]:
    """A stream that gives these bytes, so many at a time."""
    rest = [data[start:end] for start, end in itertools.pairwise([0, *itertools.accumulate(sizes), None])]
    parts = iter([part for part in rest if part])

    async def receive_some(most: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return next(parts, b"")

    return receive_some


@given(st.lists(frames_from_gateway), st.lists(frames_from_platform), st.lists(st.integers(1, 200)))
async def test_frames_are_read_as_they_were_written_however_the_bytes_come(
    asked: list[FromGateway], answered: list[FromPlatform], sizes: list[int]
) -> None:
    data = b"".join(map(encode, asked))
    assert await read_all(Reader(in_parts(data, sizes), decode_from_gateway)) == asked
    data = b"".join(map(encode, answered))
    assert await read_all(Reader(in_parts(data, sizes), decode_from_platform)) == answered


@given(st.lists(st.binary() | st.sampled_from([SAID, HELLO, b"\n", b'{"type":', b"{}"])).map(b"".join))
async def test_any_bytes_are_frames_or_refused(data: bytes) -> None:
    with suppress(WireError):
        await read_all(Reader(in_parts(data, []), decode_from_gateway))
    with suppress(WireError):
        await read_all(Reader(in_parts(data, []), decode_from_platform))


# --- a gateway in a process of its own ---

ECHO = """
import sys, trio
from hermes_trio.platform.contract import Outgoing
from hermes_trio.testing import LoopbackAdapter

async def main():
    async with LoopbackAdapter(int(sys.argv[1])).connect() as link:
        async for event in link.receive():
            await link.send(Outgoing(chat_id="42", text=event.text, key=event.message_id))
            if event.text == "die":
                await trio.sleep_forever()

trio.run(main)
"""


async def test_what_a_killed_gateway_had_in_hand_goes_to_the_next_one(platform: LoopbackServer) -> None:
    @asynccontextmanager
    async def gateway() -> AsyncIterator[None]:
        async with trio.open_nursery() as nursery:
            command = [sys.executable, "-c", ECHO, str(platform.port)]
            process = await nursery.start(partial(trio.run_process, command, cwd=ROOT, check=False))
            yield
            process.kill()

    def keys() -> list[str | None]:
        return [done.key for done in platform.history if done.what == "send"]

    async with gateway():
        await platform.says("hello", message_id="m-1")
        accepted = platform.deliver(platform.event("die", message_id="m-2"))
        await platform.until(lambda: platform.chat("42").last == "die")
    await platform.until(lambda: not platform.connected)
    assert not accepted.is_set()
    async with gateway():
        await platform.until(lambda: keys() == ["m-1", "m-2", "m-2"])
    assert platform.chat("42").texts == ["hello", "die"]
