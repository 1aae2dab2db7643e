"""Limits for guesses of the key and of links: who is limited, and who is not."""

from __future__ import annotations

from contextlib import AsyncExitStack
from datetime import timedelta

import httpx
import pytest
import trio

from hermes_trio.web.app import Web
from hermes_trio.web.http import login_attempts as limits
from tests.web.conftest import KEY, PATIENCE, WebStage, client
from tests.web.http.test_attacks import port_of

SESSIONS = "/api/sessions"


def bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def client_at(web: Web, address: str) -> httpx.AsyncClient:
    """Return a client whose connections come from this address."""
    transport = httpx.ASGITransport(app=web.opened.application, client=(address, 50000))
    return httpx.AsyncClient(base_url=web.address, transport=transport)


async def test_wrong_keys_and_wrong_log_ins_are_limited_together(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as guesser, client(web_stage.web, KEY) as owner:
            for number in range(limits.MOST_TRIES - 1):
                assert (await guesser.get(SESSIONS, headers=bearer(f"guess {number}"))).status_code == 401
            assert (await guesser.post("/login", json={"key": "guess"})).status_code == 401
            refused = await guesser.get(SESSIONS, headers=bearer("one more"))
            assert refused.status_code == 429
            assert 0 < int(refused.headers["retry-after"]) <= limits.TRIES_WITHIN
            assert (await guesser.post("/login", json={"key": KEY})).status_code == 429, "it may be a guess"
            assert (await guesser.get("/login", params={"token": "guess"})).status_code == 429
            assert (await owner.get(SESSIONS)).status_code == 429
            web_stage.away += timedelta(seconds=limits.TRIES_WITHIN)
            assert (await owner.get(SESSIONS)).status_code == 200


async def test_log_ins_that_arrive_together_are_limited_too(web_stage: WebStage) -> None:
    statuses: list[int] = []

    async def guess(stream: trio.SocketStream, body: bytes) -> None:
        await stream.send_all(body[-1:])
        statuses.append(int((await stream.receive_some(4096))[9:12]))

    async with web_stage.served(), AsyncExitStack() as held:
        streams = []
        for number in range(40):
            stream = await trio.open_tcp_stream("127.0.0.1", port_of(web_stage))
            streams.append((await held.enter_async_context(stream), b'{"key": "guess-%02d"}' % number))
        for stream, body in streams:
            head = f"POST /login HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
            await stream.send_all(head.encode() + body[:-1])
        await trio.sleep(0.2)  # each of them is read up to its last byte
        with trio.fail_after(PATIENCE):
            async with trio.open_nursery() as nursery:
                for stream, body in streams:
                    nursery.start_soon(guess, stream, body)
    assert statuses.count(401) == limits.MOST_TRIES
    assert statuses.count(429) == 40 - limits.MOST_TRIES


async def test_guesses_from_an_address_that_has_shown_the_key_are_limited(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, KEY) as owner, client(web_stage.web, None) as guesser:
            assert (await owner.get(SESSIONS)).status_code == 200
            for number in range(limits.MOST_TRIES_OF_KNOWN):
                assert (await guesser.get(SESSIONS, headers=bearer(f"guess {number}"))).status_code == 401
                assert (await owner.get("/health/detailed")).status_code == 200
            assert (await guesser.get(SESSIONS, headers=bearer("one more"))).status_code == 429
            assert (await guesser.get(SESSIONS, headers=bearer(KEY))).status_code == 429, "it may be a guess"
            assert (await owner.get(SESSIONS)).status_code == 200, "its connection has shown the key"


async def test_guesses_between_the_requests_of_another_client_of_a_connection_are_limited(
    web_stage: WebStage,
) -> None:
    """A proxy that does not name its clients may send their requests through one connection."""
    async with web_stage.served():
        assert web_stage.web is not None
        statuses = []
        async with client(web_stage.web, None) as proxy:
            for number in range(2 * limits.MOST_TRIES_OF_KNOWN):
                await proxy.get(SESSIONS, headers=bearer(KEY))
                statuses.append((await proxy.get(SESSIONS, headers=bearer(f"guess {number}"))).status_code)
        assert statuses.count(401) == limits.MOST_TRIES_OF_KNOWN


async def test_a_program_with_an_old_key_locks_nobody_out(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, "the key of last year") as program:
            for _ in range(limits.MOST_TRIES):
                assert (await program.get(SESSIONS)).status_code == 401
            assert (await program.get(SESSIONS)).status_code == 429, "it is told to wait"
        async with client(web_stage.web, KEY) as owner:
            assert (await owner.get(SESSIONS)).status_code == 200, "one wrong key is one guess"


async def test_a_link_logs_in_whoever_guesses_at_the_same_address(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        link = web_stage.web.link()
        async with client(web_stage.web, None) as browser:
            for number in range(limits.MOST_TRIES):
                assert (await browser.get(SESSIONS, headers=bearer(f"guess {number}"))).status_code == 401
            assert (await browser.get("/login", params={"token": "guess"})).status_code == 429
            assert (await browser.get(link)).status_code == 303


@pytest.mark.parametrize("same", ["192.0.2.7", "198.51.100.1, 192.0.2.7", "192.0.2.7:5000"])
async def test_clients_of_a_proxy_on_this_machine_are_limited_one_by_one(
    web_stage: WebStage, same: str
) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as http:
            owner = {"X-Forwarded-For": "192.0.2.1"}
            assert (await http.get(SESSIONS, headers=owner | bearer(KEY))).status_code == 200
            guesser = {"X-Forwarded-For": same}
            for number in range(limits.MOST_TRIES):
                guess = guesser | bearer(f"guess {number}")
                assert (await http.get(SESSIONS, headers=guess)).status_code == 401
            assert (await http.get(SESSIONS, headers=guesser | bearer(KEY))).status_code == 429
            assert (await http.post("/login", json={"key": KEY}, headers=guesser)).status_code == 429
            assert (await http.post("/login", json={"key": KEY}, headers=owner)).status_code == 204
            newcomer = {"X-Forwarded-For": "192.0.2.99"}
            assert (await http.get(SESSIONS, headers=newcomer | bearer(KEY))).status_code == 200


async def test_invented_addresses_do_not_lift_the_limit(web_stage: WebStage) -> None:
    """A client on this machine may send any `X-Forwarded-For`, and one in a network has many addresses."""
    async with web_stage.served():
        assert web_stage.web is not None
        statuses = []
        async with client(web_stage.web, None) as http:
            for number in range(2 * limits.MOST_TRIES_OF_KNOWN):
                invented = {"X-Forwarded-For": f"192.0.2.{number}"} | bearer(f"guess {number}")
                statuses.append((await http.get(SESSIONS, headers=invented)).status_code)
        assert statuses.count(401) == limits.MOST_TRIES_OF_KNOWN
        statuses.clear()
        for number in range(2 * limits.MOST_TRIES):
            async with client_at(web_stage.web, f"2001:db8::{number:x}") as other:
                statuses.append((await other.get(SESSIONS, headers=bearer(f"guess {number}"))).status_code)
        assert statuses.count(401) == limits.MOST_TRIES, "an IPv6 network is one client"
        async with client_at(web_stage.web, "2001:db8:0:1::1") as other:
            assert (await other.get(SESSIONS, headers=bearer(KEY))).status_code == 200


async def test_only_a_proxy_on_this_machine_names_its_client(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client_at(web_stage.web, "203.0.113.5") as guesser:
            for number in range(limits.MOST_TRIES):
                invented = {"X-Forwarded-For": f"192.0.2.{number}"} | bearer(f"guess {number}")
                assert (await guesser.get(SESSIONS, headers=invented)).status_code == 401
            invented = {"X-Forwarded-For": "192.0.2.200"} | bearer("one more")
            assert (await guesser.get(SESSIONS, headers=invented)).status_code == 429
            web_stage.away += timedelta(seconds=limits.TRIES_WITHIN)
            assert (await guesser.get(SESSIONS, headers=bearer(KEY))).status_code == 200


@pytest.mark.parametrize("address", ["127.0.0.1", "172.18.0.2"])
async def test_the_cookie_is_secure_behind_a_proxy_with_tls(web_stage: WebStage, address: str) -> None:
    """The proxy may be on another machine, or in a container beside ours."""
    async with web_stage.served():
        assert web_stage.web is not None
        for by, secure in (("https", True), ("http", False), ("http, https", True), ("https, http", False)):
            async with client_at(web_stage.web, address) as browser:
                got = await browser.post("/login", json={"key": KEY}, headers={"X-Forwarded-Proto": by})
                assert ("; secure" in got.headers["set-cookie"].lower()) is secure, by
