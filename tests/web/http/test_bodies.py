"""Bodies of requests: their size, their speed, and which of them are read."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.web.http import auth
from hermes_trio.web.http import connection as limits
from hermes_trio.web.http.connection import Message, vouch
from hermes_trio.web.http.server import MOST_CONNECTIONS, MOST_STRANGERS
from tests.web.conftest import PATIENCE, WebStage
from tests.web.http.test_attacks import (
    MB,
    WITH_KEY,
    _answers,
    _need_descriptors,
    _within,
    closed,
    port_of,
    raw,
    untouched,
    watched,
)
from tests.web.http.test_server import GET, POST, echo, exchange, serving

CHUNKED = b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n"
LOGIN = "POST /login HTTP/1.1\r\nHost: localhost\r\n"


async def said_to(stage: WebStage, sent: bytes) -> bytes:
    """Send this, perhaps incomplete, request, and return the status line and the headers of the answer."""
    return (await _within(stage, sent)).partition(b"\r\n\r\n")[0]


# --- size --------------------------------------------------------------------------------------------


async def test_a_log_in_body_has_at_most_four_kilobytes(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        refused = await said_to(
            web_stage, f"{LOGIN}Content-Length: {auth.LONGEST_LOGIN + 1}\r\n\r\n".encode()
        )
        assert refused.startswith(b"HTTP/1.1 413 "), "it is refused before it is sent"
        chunk = b"200\r\n" + b" " * 512 + b"\r\n"
        head = f"{LOGIN}Transfer-Encoding: chunked\r\n\r\n".encode()
        for chunks, status in ((7, b"401"), (9, b"413")):
            body = chunk * chunks + b'c\r\n{"key": "x"}\r\n0\r\n\r\n'
            assert (await raw(web_stage, head + body)).startswith(b"HTTP/1.1 " + status), chunks


async def test_forty_large_log_in_bodies_take_no_memory(web_stage: WebStage) -> None:
    async with untouched(web_stage), watched() as most:
        answers: list[bytes] = []

        async def log_in() -> None:
            async with await trio.open_tcp_stream("127.0.0.1", port_of(web_stage)) as stream:
                await stream.send_all(f"{LOGIN}Content-Length: {8 * MB}\r\n\r\n".encode())
                try:
                    for _ in range(8 * 16 - 1):
                        await stream.send_all(b" " * (MB // 16))
                except trio.BrokenResourceError:
                    pass
                answers.append(await limits.read(stream))

        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for _ in range(40):
                    nursery.start_soon(log_in)
        assert sum(one.startswith(b"HTTP/1.1 413 ") for one in answers) == 40
        assert most[0] < 64 * MB


# --- unread bodies -----------------------------------------------------------------------------------


async def test_without_the_key_no_route_reads_a_body(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        for method, path in closed():
            for head in (
                "Content-Length: 1000\r\n",
                "Transfer-Encoding: chunked\r\n",
                "Content-Length: 1000\r\nExpect: 100-continue\r\n",
            ):
                got = await said_to(
                    web_stage, f"{method} {path} HTTP/1.1\r\nHost: localhost\r\n{head}\r\n".encode()
                )
                assert got.startswith((b"HTTP/1.1 401 ", b"HTTP/1.1 403 ")), (method, path, got)
                assert b"connection: close" in got.lower()


# --- chunks ------------------------------------------------------------------------------------------


@asynccontextmanager
async def counting() -> AsyncIterator[tuple[int, list[int]]]:
    """A server, and the sizes of the pieces in which its application got bodies."""
    pieces: list[int] = []

    async def count(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        async def counted() -> Message:
            message = await receive()
            pieces.append(len(message.get("body", b"")))
            return message  # type: ignore[no-any-return]

        await echo(scope, counted, send)

    async with serving(count) as (port, _):
        yield port, pieces


async def test_a_body_in_chunks_of_one_byte_is_refused_early() -> None:
    with trio.fail_after(PATIENCE):
        async with counting() as (port, pieces):
            got = await exchange(port, CHUNKED + b"1\r\nx\r\n" * 400_000 + b"0\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 400 ")
    assert len(pieces) < 1.01 * limits.MOST_CHUNKS


async def test_a_body_in_many_chunks_of_normal_size_is_accepted() -> None:
    with trio.fail_after(PATIENCE):
        async with counting() as (port, _):
            many = b"%x\r\n%s\r\n" % (limits.CHUNK_BYTES, b"y" * limits.CHUNK_BYTES) * 3 * limits.MOST_CHUNKS
            got = await exchange(port, CHUNKED + many + b"0\r\n\r\n")
            assert got.count(b"y") == 3 * limits.MOST_CHUNKS * limits.CHUNK_BYTES
            few = await exchange(port, CHUNKED + b"1\r\nz\r\n" * limits.MOST_CHUNKS + b"0\r\n\r\n")
            assert few.count(b"z") == limits.MOST_CHUNKS


async def test_a_malformed_body_gets_an_answer() -> None:
    async with serving() as (port, _):
        assert (await exchange(port, CHUNKED + b"zz\r\nx")).startswith(b"HTTP/1.1 400 ")


async def test_a_request_with_hundreds_of_headers_is_refused() -> None:
    async with serving() as (port, _):
        many = GET.replace(b"\r\n\r\n", b"\r\n" + b"a: b\r\n" * limits.MOST_HEADERS + b"\r\n")
        assert (await exchange(port, many)).startswith(b"HTTP/1.1 431 ")


# --- speed -------------------------------------------------------------------------------------------


async def test_a_body_that_hardly_grows_is_refused(autojump_clock: MockClock) -> None:
    async with serving() as (port, _), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        began = trio.current_time()
        await stream.send_all(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 100000\r\n\r\n")
        with trio.move_on_after(limits.PROGRESS_WITHIN + 1):
            while True:
                await stream.send_all(b"x")
                await trio.sleep(0.5)
        assert (await limits.read(stream)).startswith(b"HTTP/1.1 408 ")
        assert trio.current_time() - began == pytest.approx(limits.PROGRESS_WITHIN + 1, abs=0.1)


async def test_a_body_that_grows_slowly_and_steadily_is_accepted(autojump_clock: MockClock) -> None:
    async with serving() as (port, _), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 5500\r\n\r\n")
        for _ in range(5):
            await trio.sleep(limits.PROGRESS_WITHIN - 1)
            await stream.send_all(b"x" * 1100)
        got = b""
        while got.count(b"x") < 5500:
            got += await limits.read(stream)


# --- strangers ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "stuck",
    [
        f"{LOGIN}Content-Length: 100\r\n\r\nx".encode(),
        f"{LOGIN}Transfer-Encoding: chunked\r\n\r\n5\r\nx".encode(),
        f"POST /v1/runs HTTP/1.1\r\n{WITH_KEY}Content-Length: 100\r\n\r\nx".encode(),
        b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\nx",
        b"GET /page/style.css HTTP/1.1\r\nHost: localhost\r\n\r\n" * 400,
    ],
    ids=["log-ins", "chunked log-ins", "with the key", "without the key", "takes no answer"],
)
async def test_unfinished_requests_do_not_shut_out_other_clients(web_stage: WebStage, stuck: bytes) -> None:
    _need_descriptors(900 + 2 * MOST_CONNECTIONS)
    async with untouched(web_stage), AsyncExitStack() as held:
        with trio.fail_after(PATIENCE):
            for number in range(1400):
                stream = await trio.open_tcp_stream("127.0.0.1", port_of(web_stage))
                await held.enter_async_context(stream)
                with suppress(trio.BrokenResourceError):  # it was closed meanwhile
                    await stream.send_all(stuck)
                if number % 350 == 349:
                    await _answers(web_stage)


async def test_strangers_leave_room_for_authenticated_clients() -> None:
    raise_open_files()
    go_on = trio.Event()

    async def app(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        if scope["path"] == "/known":
            vouch(scope)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"first", "more_body": True})
            await go_on.wait()
            await send({"type": "http.response.body", "body": b"last"})
        else:
            await echo(scope, receive, send)

    with trio.fail_after(PATIENCE):
        async with serving(app) as (port, _), AsyncExitStack() as held:
            known = await held.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port))
            await known.send_all(GET.replace(b" / ", b" /known "))
            assert b"first" in await known.receive_some(1000)
            streams = []
            for _ in range(MOST_STRANGERS + 100):
                streams.append(await held.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port)))
                await streams[-1].send_all(POST % (5, b"ab"))
            for first in streams[:100]:
                assert await limits.read(first) == b"", "the oldest stranger is closed"
            await streams[-1].send_all(b"cde")
            assert b"said: abcde" in await limits.read(streams[-1])
            go_on.set()
            assert b"last" in await limits.read(known), "and no authenticated client"


async def test_a_stranger_with_an_unfinished_body_does_not_delay_the_closing() -> None:
    begun = trio.Event()

    async def app(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        begun.set()
        await echo(scope, receive, send)

    with trio.fail_after(limits.PROGRESS_WITHIN / 2):
        async with serving(app) as (port, _):
            stream = await trio.open_tcp_stream("127.0.0.1", port)
            await stream.send_all(POST % (5, b"ab"))
            await begun.wait()
    await stream.aclose()


# --- random bodies -----------------------------------------------------------------------------------


def some_body(dice: random.Random) -> bytes:
    """Return a request with a body, complete or not, in pieces of any size, with or without the key."""
    path = dice.choice(("/login", "/v1/runs", "/api/sessions", "/api/sessions/x/messages", "/health", "/"))
    who = WITH_KEY if dice.random() < 0.3 else "Host: localhost\r\n"
    if dice.random() < 0.2:
        who += "Expect: 100-continue\r\n"
    size = dice.choice((0, 1, 100, 4096, 4097, 70_000))
    body = dice.choice((b"x", b" ", b"[", b"\xff")) * size
    if dice.random() < 0.4:
        told = dice.choice((size, size, size + 1, 10**9, max(0, size - 1)))
        return f"POST {path} HTTP/1.1\r\n{who}Content-Length: {told}\r\n\r\n".encode() + body
    sent = f"POST {path} HTTP/1.1\r\n{who}Transfer-Encoding: chunked\r\n\r\n".encode()
    length = dice.choice((1, 1, 7, 300, 60_000))
    for start in range(0, size, length):
        piece = body[start : start + length]
        sent += b"%x%s\r\n%s\r\n" % (len(piece), dice.choice((b"", b"", b";" + b"e" * 50)), piece)
    sent += dice.choice((b"0\r\n\r\n", b"", b"0\r\nTrailer: x\r\n\r\n", b"zz\r\n", b"ffffffffffffffff\r\n"))
    return sent[: dice.randrange(len(sent))] if dice.random() < 0.2 else sent


async def test_random_bodies_leave_the_server_unchanged(web_stage: WebStage) -> None:
    seed = random.randrange(2**32)  # noqa: S311
    print(f"seed {seed}")
    dice = random.Random(seed)  # noqa: S311

    async def send(sent: bytes, patience: float) -> None:
        async with await trio.open_tcp_stream("127.0.0.1", port_of(web_stage)) as stream:
            with trio.move_on_after(patience):
                try:
                    await stream.send_all(sent)
                    while await stream.receive_some(10_000):
                        pass
                except trio.BrokenResourceError:
                    return

    async with web_stage.served() as (_, http), watched() as most:
        tasks = trio.lowlevel.current_statistics().tasks_living
        with trio.move_on_after(5):
            for _ in range(30):
                async with trio.open_nursery() as crowd:
                    for _ in range(30):
                        crowd.start_soon(send, some_body(dice), dice.choice((0.01, 0.2)))
                await _answers(web_stage)
        assert (await http.get("/health")).status_code == 200
        await _answers(web_stage)
        assert most[0] < 100 * MB
        with trio.fail_after(PATIENCE):
            while trio.lowlevel.current_statistics().tasks_living > tasks + 2:  # noqa: ASYNC110
                await trio.sleep(0.05)
