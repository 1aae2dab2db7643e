"""The protocol of the loopback platform: frames, and peers that break the protocol."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.messages import MessageEvent, SessionSource
from hermes_trio.platform.contract import (
    Adapter,
    LinkLost,
    Outgoing,
)
from hermes_trio.testing import LoopbackAdapter, LoopbackServer
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
from tests.testing.loopback.conftest import HELLO

T = TypeVar("T")


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
        with suppress(trio.BrokenResourceError):  # the peer closes with unread bytes
            await stream.send_all(data)
            assert await stream.receive_some() == b""
    await platform.until(lambda: len(platform.refused) == 1)
    async with adapter.connect() as link:
        await link.typing("42", None)


@pytest.mark.parametrize("data", [b"", HELLO[:10], HELLO], ids=["nothing", "half a line", "hello"])
async def test_a_gateway_that_hangs_up_disturbs_no_later_one(
    platform: LoopbackServer, adapter: Adapter, data: bytes
) -> None:
    async with await trio.open_tcp_stream("127.0.0.1", platform.port) as stream:
        await stream.send_all(data)
    async with adapter.connect() as link:
        await link.typing("42", None)
    assert platform.refused == []


async def test_an_event_that_was_not_delivered_cannot_be_accepted(platform: LoopbackServer) -> None:
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
    """Return a stream of these bytes in parts of the given sizes."""
    rest = [data[start:end] for start, end in itertools.pairwise([0, *itertools.accumulate(sizes), None])]
    parts = iter([part for part in rest if part])

    async def receive_some(most: int) -> bytes:
        await trio.lowlevel.checkpoint()
        return next(parts, b"")

    return receive_some


@given(st.lists(frames_from_gateway), st.lists(frames_from_platform), st.lists(st.integers(1, 200)))
async def test_frames_are_read_as_they_were_written_however_the_bytes_are_split(
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
