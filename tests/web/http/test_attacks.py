"""Attacks on every route of the table, so that a new route is covered too."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from typing import Any

import psutil
import pytest
import trio

from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.host.loop.open_files import raise_open_files
from hermes_trio.web.http.connection import PIECE
from hermes_trio.web.http.http_errors import LONGEST_BODY
from hermes_trio.web.http.login_attempts import TRIES_WITHIN
from hermes_trio.web.http.route_spec import RouteSpec
from hermes_trio.web.http.server import MOST_CONNECTIONS
from hermes_trio.web.route_table import SPECS
from tests.web.conftest import KEY, PATIENCE, WebStage, client, log_in

OPEN = {
    ("GET", "/"),
    ("GET", "/page/{name}"),
    ("GET", "/health"),
    ("GET", "/ready"),
    ("GET", "/metrics"),
    ("GET", "/login"),
    ("POST", "/login"),
}
"""The open routes. A new open route needs a line here."""
MB = 1024 * 1024
WITH_KEY = f"Host: localhost\r\nAuthorization: Bearer {KEY}\r\n"


def closed() -> Iterator[tuple[str, str]]:
    for entry in SPECS:
        if (entry.method, entry.path) not in OPEN:
            yield entry.method, at(entry, "x")


def at(entry: RouteSpec[Any], name: str) -> str:
    """Return the path of this route with a name in place of each parameter."""
    return re.sub(r"{[^}]*}", lambda _: name, entry.path)


@asynccontextmanager
async def untouched(stage: WebStage) -> AsyncIterator[RunningGateway]:
    """A gateway that is unchanged at the end of the block."""
    async with stage.served() as (gateway, http):
        yield gateway
        assert gateway.control.current is None
        assert not gateway.control.held
        assert stage.agent.began == []
        assert (await http.get("/api/sessions")).json()["sessions"] == []
        assert (await http.get("/health")).status_code == 200


def port_of(stage: WebStage) -> int:
    assert stage.web is not None
    return int(stage.web.address.rpartition(":")[2])


async def raw(stage: WebStage, sent: bytes) -> bytes:
    """Send these bytes, and return everything that comes back."""
    async with await trio.open_tcp_stream("127.0.0.1", port_of(stage)) as stream:
        await stream.send_all(sent)
        await stream.send_eof()
        return b"".join([data async for data in stream])


# --- clients without the key -------------------------------------------------------------------------


async def test_without_the_key_every_route_is_closed(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        assert {(one.method, one.path) for one in SPECS if one.is_open} == OPEN
        assert web_stage.web is not None
        for key in (None, "wrong", KEY + "x", KEY[:-1], "", KEY.upper()):
            async with client(web_stage.web, key) as stranger:
                for method, path in closed():
                    web_stage.away += timedelta(seconds=TRIES_WITHIN)  # wrong keys are limited
                    refused = await stranger.request(method, path, json={})
                    assert refused.status_code == 401, (method, path)
                    assert refused.headers["www-authenticate"] == "Bearer"
                    error = refused.json()["error"]
                    assert error["code"] in ("no_key", "wrong_key")
                    assert "web.key" in error.get("remedy", error["message"])
                    assert ("type" in error) is path.startswith("/v1/"), "in OpenAI's form"


async def test_the_key_is_accepted_only_in_the_authorization_header(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as stranger:
            for method, path in closed():
                for headers, params in (
                    ({"Authorization": f"Basic {KEY}"}, {}),
                    ({"Authorization": KEY}, {}),
                    ({"X-Api-Key": KEY}, {}),
                    ({"Cookie": f"{web_stage.web.opened.auth.cookie}={KEY}"}, {}),
                    ({}, {"key": KEY, "token": KEY, "access_token": KEY}),
                ):
                    refused = await stranger.request(method, path, json={}, headers=headers, params=params)
                    assert refused.status_code in (401, 403), (method, path, headers)


async def test_a_page_of_another_origin_changes_nothing_with_a_cookie(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            await log_in(browser, web_stage.web.link())
            for entry in SPECS:
                for headers in (
                    {"Origin": "http://evil.example"},
                    {"Origin": "null"},
                    {"Host": "evil.example", "Origin": "http://evil.example"},
                    {"Sec-Fetch-Site": "cross-site", "Origin": web_stage.web.address},
                    {},
                ):
                    if entry.method != "GET":
                        refused = await browser.request(
                            entry.method, at(entry, "x"), content=b"{}", headers=headers
                        )
                        assert refused.status_code == 403, (entry.path, headers)


async def test_a_foreign_host_name_that_points_here_reads_nothing(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            await log_in(browser, web_stage.web.link())
            for entry in SPECS:
                headers = {"Host": "rebound.example"}
                refused = await browser.request(entry.method, at(entry, "x"), headers=headers)
                assert refused.status_code == 403, entry.path
                assert refused.json()["error"]["code"] == "foreign_host"


# --- names and headers -------------------------------------------------------------------------------

CRLF = ("x%0d%0aX-Injected:%20yes", "x%0aX-Injected:%20yes", "x%0d%0a%0d%0aX-Injected:%20yes", "x%e5%98%8a")
OUTSIDE = (
    "..%2f..%2f..%2fetc%2fpasswd",
    "%2e%2e",
    "..%5c..%5cweb.key",
    "%2fetc%2fpasswd",
    "..",
    "web.key",
    "x%00.js",
    "%c0%ae%c0%ae%2fweb.key",
    "....//web.key",
    "C:%5cwindows",
    "nul",
)


async def test_no_input_becomes_a_header_of_an_answer(web_stage: WebStage) -> None:
    async with untouched(web_stage):
        for entry in SPECS:
            if entry.path.startswith("/api/admin"):
                continue
            for name in CRLF:
                for query in (f"?token={name}&cursor={name}&after={name}&limit={name}&q={name}",):
                    target = at(entry, name) + query
                    body = b"" if entry.method == "GET" else b"{]"  # it passes the checks and is read
                    head = f"{entry.method} {target} HTTP/1.1\r\n{WITH_KEY}Content-Length: {len(body)}\r\n"
                    got = await _within(web_stage, head.encode() + b"Connection: close\r\n\r\n" + body)
                    top = got.partition(b"\r\n\r\n")[0].lower()
                    assert re.match(rb"http/1\.1 [234]\d\d ", top), (entry.path, top)
                    assert b"\nx-injected" not in top


async def _within(stage: WebStage, sent: bytes) -> bytes:
    """Return the answer up to the point where the server closes; of an endless stream its beginning."""
    got = b""
    async with await trio.open_tcp_stream("127.0.0.1", port_of(stage)) as stream:
        await stream.send_all(sent)
        with trio.fail_after(PATIENCE):
            while b"\r\n\r\n" not in got and (data := await stream.receive_some(PIECE)):
                got += data
    return got


@pytest.mark.parametrize(
    "header",
    [
        "X-Hermes-Session-Id: x\r\n X-Injected: yes",
        "X-Hermes-Session-Id: x\rX-Injected: yes",
        "X-Hermes-Session-Id: x%0d%0aX-Injected: yes",
        "X-Hermes-Session-Id: ../../etc",
        "X-Hermes-Session-Id: ",
        "X-Hermes-Session-Id: \xff\xfe",
        "Content-Length: 2\r\nTransfer-Encoding: chunked",
        "Content-Length: 2, 2",
        "Content-Length: -2",
        "Content-Length: 99999999999999999999999",
        "Transfer-Encoding: gzip, chunked",
    ],
)
async def test_malformed_headers_are_refused(web_stage: WebStage, header: str) -> None:
    body = '{"messages": [{"role": "user", "content": "hello"}]}'
    length = "" if header.startswith(("Content-Length", "Transfer")) else f"Content-Length: {len(body)}\r\n"
    async with untouched(web_stage):
        got = await _within(
            web_stage,
            f"POST /v1/chat/completions HTTP/1.1\r\n{WITH_KEY}{length}{header}\r\n\r\n{body}".encode(
                "latin-1"
            ),
        )
        assert re.match(rb"HTTP/1\.1 (400|413|501) ", got), got
        assert b"\nx-injected" not in got.lower()


async def test_no_name_in_a_path_leads_out_of_its_directory(web_stage: WebStage) -> None:
    async with untouched(web_stage) as gateway:
        secret = "what nobody may read"
        (gateway.home.path / "web.key").write_text(secret)
        for entry in SPECS:
            if "{" not in entry.path:
                continue
            for name in OUTSIDE:
                # It is refused for its name or its body, and nothing is made. A file is any body but none.
                body = b"" if entry.takes is None else b"{]"
                head = (
                    f"{entry.method} {at(entry, name)} HTTP/1.1\r\n{WITH_KEY}Content-Length: {len(body)}\r\n"
                )
                got = await raw(web_stage, head.encode() + b"Connection: close\r\n\r\n" + body)
                assert re.match(rb"HTTP/1\.1 4\d\d ", got), (entry.path, name, got[:200])
                assert secret.encode() not in got
        assert not list(gateway.home.path.parent.glob("*passwd*"))


# --- too large, and too many -------------------------------------------------------------------------


@asynccontextmanager
async def watched() -> AsyncIterator[list[int]]:
    """The largest growth of this process's memory during the block."""
    process, most = psutil.Process(), [0]
    before = process.memory_info().rss

    async def look() -> None:
        while True:
            most[0] = max(most[0], process.memory_info().rss - before)
            await trio.sleep(0.005)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(look)
        yield most
        nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/runs", "/api/sessions", "/api/sessions/x/messages"]
)
async def test_a_body_of_a_hundred_megabytes_is_refused_before_it_is_sent(
    web_stage: WebStage, path: str
) -> None:
    async with untouched(web_stage):
        got = await _within(
            web_stage, f"POST {path} HTTP/1.1\r\n{WITH_KEY}Content-Length: {100 * MB}\r\n\r\n".encode()
        )
        assert got.startswith(b"HTTP/1.1 413 ")
        assert b"connection: close" in got.lower()
        without = WITH_KEY.partition("Authorization")[0]
        got = await _within(
            web_stage, f"POST {path} HTTP/1.1\r\n{without}Content-Length: {100 * MB}\r\n\r\n".encode()
        )
        assert got.startswith(b"HTTP/1.1 401 "), "and a client without the key is told that first"


async def test_a_body_of_unknown_length_takes_no_more_memory_than_the_limit(
    web_stage: WebStage,
) -> None:
    async with untouched(web_stage), watched() as most:
        async with await trio.open_tcp_stream("127.0.0.1", port_of(web_stage)) as stream:
            head = f"POST /v1/runs HTTP/1.1\r\n{WITH_KEY}Transfer-Encoding: chunked\r\n\r\n"
            await stream.send_all(head.encode())
            got = b""

            async def flood(task: trio.CancelScope) -> None:
                chunk = f"{MB:x}\r\n".encode() + b"x" * MB + b"\r\n"
                for _ in range(100):
                    try:
                        await stream.send_all(chunk)
                    except trio.BrokenResourceError:
                        break  # the server has closed

            with trio.fail_after(PATIENCE):
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(flood, nursery.cancel_scope)
                    while b"\r\n\r\n" not in got:
                        got += await stream.receive_some(PIECE)
                    nursery.cancel_scope.cancel()
            assert got.startswith(b"HTTP/1.1 413 ")
        assert most[0] < 6 * LONGEST_BODY


async def _answers(stage: WebStage) -> None:
    """Check that another client is answered on a connection of its own."""
    got = await raw(stage, f"GET /api/sessions HTTP/1.1\r\n{WITH_KEY}Connection: close\r\n\r\n".encode())
    assert got.startswith(b"HTTP/1.1 200 "), got[:100]


async def test_two_thousand_idle_connections_do_not_shut_out_other_clients(web_stage: WebStage) -> None:
    _need_descriptors(2200 + MOST_CONNECTIONS)
    async with untouched(web_stage), watched() as most, AsyncExitStack() as held:
        with trio.fail_after(PATIENCE):
            for number in range(2000):
                await held.enter_async_context(await trio.open_tcp_stream("127.0.0.1", port_of(web_stage)))
                if number % 500 == 499:
                    await _answers(web_stage)
        ours = sum(
            one.laddr.port == port_of(web_stage) and one.status == psutil.CONN_ESTABLISHED
            for one in psutil.Process().net_connections("tcp")
            if one.laddr
        )
        assert ours <= MOST_CONNECTIONS + 20, "and the oldest connections were closed"
        assert most[0] < 200 * MB


async def test_a_thousand_unfinished_requests_do_not_shut_out_other_clients(web_stage: WebStage) -> None:
    _need_descriptors(700 + 2 * MOST_CONNECTIONS)
    async with untouched(web_stage), AsyncExitStack() as held:
        with trio.fail_after(PATIENCE):
            for number in range(MOST_CONNECTIONS + 500):
                stream = await trio.open_tcp_stream("127.0.0.1", port_of(web_stage))
                await held.enter_async_context(stream)
                await stream.send_all(b"POST /v1/runs HTTP/1.1\r\nHost: localhost\r\nX-Slow: x")
                if number % 200 == 199:
                    await _answers(web_stage)
            await _answers(web_stage)


def _need_descriptors(count: int) -> None:
    if sys.platform == "win32":
        return
    import resource

    raise_open_files()
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < count:
        pytest.skip(f"this needs {count} open files")
