"""The proxy of one command, as its programs meet it: over an address that they have handed over."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass

import h11
import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st
from trio.testing import MockClock, wait_all_tasks_blocked

from hermes_trio.gateway.processes.egress_proxy import (
    CONNECT_SECONDS,
    HEAD_SECONDS,
    IDLE_SECONDS,
    LONGEST_HEAD,
    MOST_CONNECTIONS,
    open_proxy,
    reach,
)
from hermes_trio.gateway.processes.proxy_requests import proxy_request
from hermes_trio.tools.sandbox.granted_hosts import Host, host_of
from hermes_trio.tools.web.addresses import AddressRefused, HostUnknown

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")

CONNECT = b"CONNECT example.org:443 HTTP/1.1\r\nHost: example.org\r\n\r\n"
CONNECTED = b"HTTP/1.1 200 Connection established\r\n\r\n"


@dataclass
class Command:
    """A command with a proxy, and the host that it was granted."""

    address: tuple[str, int]
    connected: trio.MemoryReceiveChannel[trio.SocketStream]
    """The host's end of each connection."""
    ends: AsyncExitStack
    """Closes the ends of connections that the test leaves open."""

    async def connects(self) -> trio.SocketStream:
        return await self.ends.enter_async_context(await trio.open_tcp_stream(*self.address))

    async def tunnel(self) -> tuple[trio.SocketStream, trio.SocketStream]:
        """Return both ends of a tunnel."""
        client = await self.connects()
        await client.send_all(CONNECT)
        server = await self.connected.receive()
        assert await client.receive_some() == CONNECTED
        return client, server


@asynccontextmanager
async def open_command(*hosts: str) -> AsyncIterator[Command]:
    """Run the proxy of a command, with a host that accepts every connection."""
    granted = [host for text in hosts or ("example.org",) if (host := host_of(text))]
    send, connected = trio.open_memory_channel[trio.SocketStream](MOST_CONNECTIONS + 10)

    async def stand_in(host: Host) -> trio.SocketStream:
        if host.name == "unknown.org":
            raise HostUnknown(host.name, "cannot be found: no such name.")
        if host.name == "inside.org":
            raise AddressRefused(host.name, "leads to a private network, which tools may not reach.")
        if host.name == "silent.org":
            raise OSError(f"{host} does not answer")
        ours, theirs = trio.socket.socketpair()
        await send.send(await ends.enter_async_context(trio.SocketStream(theirs)))
        return trio.SocketStream(ours)

    async with AsyncExitStack() as ends, open_proxy("command", granted, stand_in) as channel:
        assert channel is not None
        with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket(fileno=os.dup(channel)) as one:
            socket.send_fds(one, [b"."], [listener.fileno()])
            address = listener.getsockname()
        yield Command(address, connected, ends)


async def everything(stream: trio.abc.ReceiveStream) -> bytes:
    return b"".join([part async for part in stream])


async def test_a_tunnel_passes_every_byte_on_in_both_directions() -> None:
    async with open_command() as command:
        client, server = await command.tunnel()
        data = os.urandom(300_000)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, data)
            got = b""
            while len(got) < len(data):
                got += await server.receive_some()
            assert got == data
        await client.send_eof()
        assert await server.receive_some() == b""
        await server.send_all(data[:1000])
        await server.aclose()
        assert await everything(client) == data[:1000], "a closed direction does not close the other one"


async def test_what_follows_a_request_at_once_is_passed_on() -> None:
    async with open_command() as command:
        client = await command.connects()
        await client.send_all(CONNECT + b"first words")
        server = await command.connected.receive()
        assert await server.receive_some() == b"first words"


async def test_a_plain_request_arrives_without_what_was_meant_for_the_proxy() -> None:
    async with open_command() as command:
        client = await command.connects()
        await client.send_all(
            b"POST http://Example.org?a=1 HTTP/1.1\r\nHost: elsewhere.org\r\n"
            b"Proxy-Authorization: Basic eDp5\r\n"
            b"Proxy-Connection: Keep-Alive\r\nConnection: keep-alive\r\nContent-Length: 4\r\n\r\nbody"
        )
        server = await command.connected.receive()
        assert await server.receive_some() == (
            b"POST /?a=1 HTTP/1.1\r\nHost: example.org\r\ncontent-length: 4\r\nConnection: close\r\n\r\nbody"
        )


@pytest.mark.parametrize(
    ("asked", "status", "told"),
    [
        (b"CONNECT other.org:443", 403, b"Put `network other.org` into its `needs`"),
        (b"CONNECT example.org:22", 403, b"Put `network example.org:22` into its `needs`"),
        (b"CONNECT example.org.evil.org:443", 403, b"example.org.evil.org:443 was not granted"),
        (b"CONNECT 93.184.216.34:443", 403, b"93.184.216.34:443 was not granted"),
        (b"GET http://other.org/", 403, b"Put `network other.org` into its `needs`"),
        (b"GET http://example.org@other.org/", 400, b"This proxy takes CONNECT"),
        (b"GET ftp://example.org/", 400, b"This proxy takes CONNECT"),
        (b"GET /page", 400, b"This proxy takes CONNECT"),
        (b"CONNECT example.org", 400, b"This proxy takes CONNECT"),
        (b"CONNECT example.org:0", 400, b"This proxy takes CONNECT"),
        (b"CONNECT inside.org:443", 403, b"leads to a private network"),
        (b"CONNECT unknown.org:443", 502, b"cannot be found"),
        (b"CONNECT silent.org:443", 502, b"does not answer"),
    ],
)
async def test_a_refusal_says_what_to_do(asked: bytes, status: int, told: bytes) -> None:
    async with open_command("example.org", "inside.org", "unknown.org", "silent.org") as command:
        client = await command.connects()
        await client.send_all(asked + b" HTTP/1.1\r\nHost: example.org\r\n\r\n")
        answer = await everything(client)
        assert answer.startswith(b"HTTP/1.1 %d " % status), answer
        assert told in answer


async def test_a_refusal_is_read_although_the_request_is_not() -> None:
    async with open_command() as command:
        client = await command.connects()
        head = b"POST http://other.org/ HTTP/1.1\r\nHost: other.org\r\nContent-Length: 1000000\r\n\r\n"
        await client.send_all(head + bytes(1_000_000))
        assert (await everything(client)).startswith(b"HTTP/1.1 403 ")


@pytest.mark.parametrize(
    "sent", [b"", b"CONNECT exam", b"\x16\x03\x01", b"GET http://" + bytes([97]) * 2 * LONGEST_HEAD]
)
async def test_what_is_no_whole_request_ends_in_time(autojump_clock: MockClock, sent: bytes) -> None:
    async with open_command() as command:
        client = await command.connects()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.send_all, sent)
            assert (await everything(client)).startswith(b"HTTP/1.1 400 ")
        assert trio.current_time() <= HEAD_SECONDS + 1


async def test_a_connection_in_which_nothing_moves_is_closed(autojump_clock: MockClock) -> None:
    async with open_command() as command:
        client, server = await command.tunnel()
        await trio.sleep(IDLE_SECONDS - 1)
        await server.send_all(b"a")
        assert await client.receive_some() == b"a"
        await trio.sleep(IDLE_SECONDS - 1)
        with trio.fail_after(2):
            assert await server.receive_some() == b""


async def test_more_connections_than_there_are_places_wait_for_one() -> None:
    async with open_command() as command:
        ends = [await command.tunnel() for _ in range(MOST_CONNECTIONS)]
        late = await command.connects()
        await late.send_all(CONNECT)
        await wait_all_tasks_blocked(0.05)
        assert command.connected.statistics().current_buffer_used == 0
        for end in ends[0]:
            await end.aclose()
        await command.connected.receive()
        assert await late.receive_some() == CONNECTED


async def test_the_end_of_the_command_closes_its_connections() -> None:
    async with open_command() as command:
        _, server = await command.tunnel()
        end = trio.SocketStream(server.socket.dup())
    async with end:
        assert await end.receive_some() == b"", "the proxy has closed the other end"
    with pytest.raises(OSError, match="all attempts"):
        await trio.open_tcp_stream(*command.address)


def looking_up(*addresses: str) -> Callable[[str, int], Awaitable[list[str]]]:
    async def lookup(host: str, port: int) -> list[str]:
        await trio.lowlevel.checkpoint()
        return list(addresses)

    return lookup


@pytest.mark.parametrize(
    ("granted", "addresses"),
    [
        ("example.org", ["10.0.0.1"]),
        ("example.org", ["169.254.169.254"]),
        ("example.org", ["93.184.216.34", "192.168.1.1"]),
        ("example.org", ["127.0.0.1"]),
        ("example.org", ["::ffff:127.0.0.1"]),
        ("localhost", ["127.0.0.1"]),
        ("printer.lan", ["127.0.0.1"]),
        ("127.0.0.2", []),
        ("[::1]", []),
        ("0.0.0.0", []),  # noqa: S104
    ],
)
async def test_a_granted_name_leads_neither_into_a_private_network_nor_to_this_machine(
    granted: str, addresses: Sequence[str]
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = host_of(f"{granted}:{listener.getsockname()[1]}")
        assert host is not None
        with pytest.raises(AddressRefused, match=r"private network|this machine"):
            await reach(host, looking_up(*addresses))


@pytest.mark.parametrize("granted", ["192.0.2.7:80", "printer.lan:80"])
async def test_a_host_of_a_private_network_is_tried_if_it_was_granted_as_one(
    autojump_clock: MockClock, granted: str
) -> None:
    host = host_of(granted)
    assert host is not None
    with pytest.raises(OSError, match="does not answer"):
        await reach(host, looking_up("192.0.2.7"))
    assert trio.current_time() <= CONNECT_SECONDS


NAMES = st.from_regex(r"[a-zA-Z0-9._:\[\]@-]{1,30}", fullmatch=True)
HEADERS = st.lists(
    st.tuples(
        st.from_regex(r"[A-Za-z-]{1,20}", fullmatch=True), st.from_regex(r"[!-~]{0,20}", fullmatch=True)
    )
)


@given(NAMES, st.sampled_from(["GET", "POST"]), HEADERS)
def test_a_request_is_passed_on_to_the_host_that_it_names_and_to_no_other(
    name: str, method: str, headers: list[tuple[str, str]]
) -> None:
    lines = [
        f"{method} http://{name}/page HTTP/1.1",
        "Host: x",
        *(f"X-{one}: {value}" for one, value in headers),
    ]
    http = h11.Connection(h11.SERVER)
    http.receive_data("\r\n".join([*lines, "", ""]).encode())
    request = http.next_event()
    assert isinstance(request, h11.Request)
    found = proxy_request(request)
    host = host_of(name)
    if found is None:
        assert host is None or "@" in name
        return
    assert host is not None
    assert found.host == Host(host.name, host.port or 80)
    head = h11.Connection(h11.SERVER)
    head.receive_data(found.head)
    passed = head.next_event()
    assert isinstance(passed, h11.Request)
    assert (passed.method, passed.target) == (method.encode(), b"/page")
    assert [value for key, value in passed.headers if key == b"host"] == [str(host).encode()]
    assert [pair for pair in passed.headers if pair[0].startswith(b"x-")] == list(request.headers)[1:]


@pytest.mark.parametrize(
    ("text", "host"),
    [
        ("example.org", Host("example.org")),
        ("Example.ORG.", Host("example.org")),
        ("example.org:8443", Host("example.org", 8443)),
        ("xn--bcher-kva.example", Host("xn--bcher-kva.example")),
        ("93.184.216.34", Host("93.184.216.34")),
        ("[2001:DB8::1]:443", Host("2001:db8::1", 443)),
        ("2001:db8::1", None),
        ("[fe80::1%eth0]", None),
        ("[127.0.0.1]", None),
        ("127.1", None),
        ("0x7f000001", None),
        ("2130706433", None),
        ("bücher.example", None),
        ("еxample.org", None),  # noqa: RUF001 - its first letter is Cyrillic
        ("example.org:0", None),
        ("example.org:65536", None),
        ("example.org:", None),
        ("*.example.org", None),
        ("https://example.org", None),
        ("example.org/page", None),
        ("example.org other.org", None),
        ("a@example.org", None),
        ("example..org", None),
        ("-example.org", None),
        ("", None),
        ("a." * 127 + "org", None),
    ],
)
def test_a_host_is_written_in_one_way(text: str, host: Host | None) -> None:
    assert host_of(text) == host
    assert host is None or host_of(str(host)) == host
