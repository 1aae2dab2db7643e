"""The HTTP server: whatever a client sends harms at most its own connection."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio
import trio.lowlevel
import trio.testing
from trio.testing import MockClock

from hermes_trio.base.errors import EXIT_CONFIG, ConfigInvalid
from hermes_trio.config.schema import WebConfig
from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.web.http import connection as limits
from hermes_trio.web.http.connection import Message, vouch
from hermes_trio.web.http.server import MOST_CONNECTIONS, CannotListen, listen, serve_connections
from tests.web.conftest import PATIENCE

GET = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"
POST = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: %d\r\n\r\n%s"


async def echo(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
    """Answer with the body of the request."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message["body"], message["more_body"]
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"said: " + body})


@asynccontextmanager
async def serving(app=echo) -> AsyncIterator[tuple[int, trio.Event]]:  # type: ignore[no-untyped-def]
    """A server, its port, and the event that closes it. It has ended when the block is left."""
    listeners = await listen(WebConfig(port=0))
    closed = trio.Event()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(serve_connections, listeners, app, closed)
        yield listeners[0].socket.getsockname()[1], closed
        closed.set()


async def exchange(port: int, sent: bytes, *, eof: bool = True) -> bytes:
    """Send this, and return everything that comes back."""
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all(sent)
        if eof:
            await stream.send_eof()
        return b"".join([data async for data in stream])


async def test_pipelined_requests_are_answered_in_order() -> None:
    async with serving() as (port, _):
        got = await exchange(port, POST % (3, b"one") + POST % (3, b"two") + GET)
    assert got.count(b"HTTP/1.1 200") == 3
    assert got.index(b"said: one") < got.index(b"said: two")


async def test_an_answer_to_an_incomplete_request_closes_the_connection() -> None:
    async def refuse(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 404, "headers": []})
        await send({"type": "http.response.body", "body": b"no"})

    with trio.fail_after(PATIENCE):
        async with serving(refuse) as (port, _), await trio.open_tcp_stream("127.0.0.1", port) as stream:
            head, _, body = (POST % (200_000, b"x" * 200_000)).partition(b"\r\n\r\n")
            await stream.send_all(head + b"\r\n\r\n")
            assert b"connection: close" in (await stream.receive_some(1000)).lower()
            await stream.send_all(body)  # nobody reads it, and nobody is reset for it
            assert await stream.receive_some(1) == b""


async def test_a_connection_is_reused_after_an_unread_body() -> None:
    async def plain(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"."})

    async with serving(plain) as (port, _):
        assert (await exchange(port, GET + POST % (3, b"one") + GET)).count(b"HTTP/1.1 200") == 3


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"CONNECT other:443 HTTP/1.1\r\nHost: other\r\n\r\n", b"405"),
        (b"OPTIONS * HTTP/1.1\r\nHost: here\r\n\r\n", b"400"),
        (b"nonsense\r\n\r\n", b"400"),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\n\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: here\r\nX: " + b"x" * 2 * limits.LONGEST_HEAD + b"\r\n\r\n", b"431"),
        (GET.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n"), b"200"),
        (GET.replace(b"\r\n\r\n", b"\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n\x00"), b"200"),
        (GET.replace(b"GET / ", b"GET http://here/there?q=1 "), b"200"),
        (GET.replace(b"GET", b"HEAD"), b"200"),
    ],
)
async def test_only_http_1_is_spoken(sent: bytes, status: bytes) -> None:
    with trio.fail_after(PATIENCE):
        async with serving() as (port, _):
            got = await exchange(port, sent)
            assert got.startswith(b"HTTP/1.1 " + status)
            assert got.count(b"HTTP/1.1 101") == 0
            assert b"said" in await exchange(port, GET)


async def test_a_client_that_expects_100_continue_gets_it() -> None:
    async with serving() as (port, _), await trio.open_tcp_stream("127.0.0.1", port) as stream:
        head, body = (POST % (3, b"one")).replace(b"Host", b"Expect: 100-continue\r\nHost").split(b"one")
        await stream.send_all(head)
        assert (await stream.receive_some(100)).startswith(b"HTTP/1.1 100")
        await stream.send_all(b"one" + body)
        assert b"said: one" in await stream.receive_some(1000)


async def test_a_bug_in_one_answer_is_a_500_and_harms_no_other_request() -> None:
    async def broken(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        raise ZeroDivisionError

    async with serving(broken) as (port, _):
        assert (await exchange(port, GET)).startswith(b"HTTP/1.1 500")
        assert (await exchange(port, GET)).startswith(b"HTTP/1.1 500")


async def test_a_client_that_reads_nothing_does_not_keep_the_server_from_closing(
    autojump_clock: MockClock,
) -> None:
    async def endless(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})

    async with serving(endless) as (port, _):
        stream = await trio.open_tcp_stream("127.0.0.1", port)
        await stream.send_all(GET)
        began = trio.current_time()
    assert limits.TAKEN_WITHIN <= trio.current_time() - began <= limits.TAKEN_WITHIN + 1
    await stream.aclose()


async def test_a_client_that_reads_late_gets_everything_once_and_in_order() -> None:
    body = os.urandom(16_000_000)  # more than the system keeps for who does not read

    async def whole(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        length = (b"content-length", b"%d" % (2 * len(body)))
        await send({"type": "http.response.start", "status": 200, "headers": [length]})
        for _ in range(2):
            await send({"type": "http.response.body", "body": body, "more_body": True})
        await send({"type": "http.response.body"})

    with trio.fail_after(PATIENCE):
        async with serving(whole) as (port, _), await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(GET)
            await trio.testing.wait_all_tasks_blocked()
            await stream.send_eof()
            got = b"".join([data async for data in stream])
    assert got.partition(b"\r\n\r\n")[2] == body + body


async def test_cancelling_a_write_to_a_client_that_reads_nothing_ends_it_at_once() -> None:
    async def endless(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        while True:
            await send({"type": "http.response.body", "body": b"x" * 1_000_000, "more_body": True})

    with trio.fail_after(PATIENCE), trio.CancelScope() as scope:
        async with serving(endless) as (port, _), await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(GET)
            await stream.receive_some(1)
            scope.cancel()


@pytest.mark.parametrize(
    ("sent", "seconds"),
    [
        (b"", limits.IDLE),
        (GET, limits.IDLE),
        (b"GET / HT", limits.HEAD_WITHIN),
        (POST % (5, b"ab"), limits.PROGRESS_WITHIN),
    ],
)
async def test_a_client_that_sends_too_slowly_is_disconnected(
    sent: bytes, seconds: float, autojump_clock: MockClock
) -> None:
    async with serving() as (port, _):
        began = trio.current_time()
        await exchange(port, sent, eof=False)
        assert trio.current_time() - began == pytest.approx(seconds, abs=0.1)


async def test_a_client_that_sends_single_bytes_is_disconnected(autojump_clock: MockClock) -> None:
    async def drip(stream: trio.SocketStream) -> None:
        for byte in b"GET / HTTP/1.1\r\nHost: here\r\nX-Long: " + b"x" * 1000:
            try:
                await stream.send_all(bytes([byte]))
            except trio.BrokenResourceError:
                return
            await trio.sleep(1)

    async with serving() as (port, _):
        began = trio.current_time()
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream, trio.open_nursery() as nursery:
            nursery.start_soon(drip, stream)
            assert await limits.read(stream) == b""
            assert trio.current_time() - began <= limits.HEAD_WITHIN + 1
            nursery.cancel_scope.cancel()


async def test_closing_completes_begun_answers_and_closes_idle_connections() -> None:
    begun, go_on = trio.Event(), trio.Event()

    async def slow(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first ", "more_body": True})
        begun.set()
        await go_on.wait()
        await send({"type": "http.response.body", "body": b"last"})

    with trio.fail_after(PATIENCE):
        async with serving(slow) as (port, closed):
            idle = await trio.open_tcp_stream("127.0.0.1", port)
            busy = await trio.open_tcp_stream("127.0.0.1", port)
            await busy.send_all(GET)
            await begun.wait()
            closed.set()
            assert await idle.receive_some(1) == b"", "an idle connection is closed"
            with pytest.raises(OSError, match="all attempts"):
                await trio.open_tcp_stream("127.0.0.1", port)
            go_on.set()
            got = b"".join([data async for data in busy])
    assert got.endswith(b"0\r\n\r\n"), "the answer is complete"
    assert b"last" in got
    await idle.aclose()
    await busy.aclose()


async def test_a_connection_that_has_just_begun_may_send_its_request_while_the_server_closes(
    mock_clock: MockClock,
) -> None:
    """A restart would otherwise look like a failure to the clients that connected in the last moment."""
    async with serving() as (port, closed):
        quick, silent = [await trio.open_tcp_stream("127.0.0.1", port) for _ in range(2)]
        await exchange(port, GET)  # the connections before it have been accepted
        closed.set()
        await trio.testing.wait_all_tasks_blocked()
        mock_clock.jump(limits.FIRST_WITHIN / 2)
        await quick.send_all(GET)
        assert b"connection: close" in (await quick.receive_some(1000)).lower()
        mock_clock.jump(limits.FIRST_WITHIN)
        assert await silent.receive_some(1) == b""
        await quick.aclose()
        await silent.aclose()


async def test_a_client_beyond_the_connection_limit_is_told_that_the_server_is_full() -> None:
    raise_open_files()
    asked, go_on = 0, trio.Event()

    async def counting(scope: Message, receive, send) -> None:  # type: ignore[no-untyped-def]
        nonlocal asked
        vouch(scope)
        asked += 1
        await go_on.wait()
        await echo(scope, receive, send)

    with trio.fail_after(PATIENCE):
        async with serving(counting) as (port, _):
            held = []
            for number in range(MOST_CONNECTIONS):  # each of them was let in, and is being answered
                held.append(await trio.open_tcp_stream("127.0.0.1", port))
                await held[-1].send_all(GET)
                while asked <= number:  # noqa: ASYNC110
                    await trio.lowlevel.checkpoint()
            assert (await exchange(port, b"", eof=False)).startswith(b"HTTP/1.1 503")
            go_on.set()
            await held.pop().aclose()
            while b"said" not in await exchange(port, GET):  # noqa: ASYNC110
                await trio.sleep(0.01)
            for stream in held:
                await stream.aclose()


# --- addresses ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])  # noqa: S104
@pytest.mark.parametrize("key", [None, "short"])
async def test_listening_beyond_this_machine_needs_a_key(host: str, key: str | None) -> None:
    with pytest.raises(ConfigInvalid, match="to a long random text") as refused:
        await listen(WebConfig(host=host, port=0, key=key))
    assert refused.value.exit_code == EXIT_CONFIG


async def test_a_port_in_use_is_reported_with_a_remedy() -> None:
    async with serving() as (port, _):
        with pytest.raises(CannotListen, match=rf"127\.0\.0\.1:{port} .*Set web\.port") as refused:
            await listen(WebConfig(port=port))
    assert refused.value.exit_code == EXIT_CONFIG


# --- hostile clients ---------------------------------------------------------------------------------

WELL_MEANT = (
    GET,
    POST % (11, b"hello there"),
    b"POST / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\n"
    b"HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA\r\n\r\nPRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04",
    b"GET / HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n\x81",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT here:1 HTTP/1.1\r\nHost: here\r\n\r\n",
    b"GET /" + b"%00%ff" * 200 + b" HTTP/1.1\r\nHost: here\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 99999999999999999999\r\n\r\nx",
    b"GET / HTTP/1.1\r\nHost: here\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
)


def hostile(dice: random.Random) -> bytes:
    """Return what a hostile or broken client might send."""
    sent = bytearray(b"".join(dice.choices(WELL_MEANT, k=dice.choice((1, 1, 1, 2, 5)))))
    for _ in range(dice.choice((0, 0, 1, 3, 20))):
        place = dice.randrange(len(sent))
        match dice.randrange(4):
            case 0:
                sent[place] = dice.randrange(256)
            case 1:
                del sent[place : place + dice.randrange(1, 9)]
            case 2:
                sent[place:place] = dice.randbytes(dice.randrange(1, 9))
            case 3:
                sent[place:place] = sent[: dice.randrange(1, 40)] * dice.randrange(1, 9)
        sent = sent or bytearray(b"\r")
    if dice.random() < 0.1:
        return dice.randbytes(dice.choice((1, 100, 50_000)))
    return bytes(sent)


async def attack(port: int, dice: random.Random) -> None:
    sent = hostile(dice)
    stream = await trio.open_tcp_stream("127.0.0.1", port)
    async with stream:
        with trio.move_on_after(0.02 if dice.random() < 0.5 else 0.2):
            try:
                if dice.random() < 0.3:  # in two pieces, with the end anywhere
                    place = dice.randrange(len(sent))
                    await stream.send_all(sent[:place])
                    await trio.lowlevel.checkpoint()
                    sent = sent[place:] if dice.random() < 0.5 else b""
                if sent:
                    await stream.send_all(sent)
                match dice.randrange(3):
                    case 0:
                        await stream.send_eof()
                        while await stream.receive_some(10_000):
                            pass
                    case 1:
                        await stream.receive_some(dice.randrange(1, 100))
            except trio.BrokenResourceError:
                return


def descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason=f"no list of descriptors on {sys.platform}")
async def test_thousands_of_hostile_clients_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    dice = random.Random(20260520)  # noqa: S311
    async with serving() as (port, _):
        assert b"said: hello" in await exchange(port, POST % (5, b"hello"))
        before, tasks = descriptors(), trio.lowlevel.current_statistics().tasks_living
        with trio.move_on_after(25):
            for _ in range(60):
                async with trio.open_nursery() as crowd:
                    for _ in range(70):
                        crowd.start_soon(attack, port, random.Random(dice.random()))  # noqa: S311
        with trio.fail_after(PATIENCE):
            assert b"said: hello" in await exchange(port, POST % (5, b"hello"))
            while descriptors() > before or trio.lowlevel.current_statistics().tasks_living > tasks:  # noqa: ASYNC110
                await trio.sleep(0.05)
    assert [r for r in caplog.records if "connection failed" in r.getMessage()] == []
