"""The page and the API in the web application of a program: each request ends with either side."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import httpx
import pytest
import trio
from starlette.applications import Starlette
from starlette.routing import Mount

from hermes_trio import GatewayConfig, MountedWeb, open_gateway
from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.config.schema import WebConfig
from tests.stage import Agent

from .hosts import EVERY_HOST, Host

KEY = "a-key-for-tests-of-the-mount"
BEARER = {"authorization": f"Bearer {KEY}"}
CONFIG = GatewayConfig(web=WebConfig(key=KEY))
every_host = pytest.mark.parametrize("host", EVERY_HOST)


def client_of(web: MountedWeb, path: str = "/hermes") -> httpx.AsyncClient:
    """Return a client of a Starlette application with the web below a path."""
    app = Starlette(routes=[Mount(path, web)])
    transport = httpx.ASGITransport(app, raise_app_exceptions=True, client=("192.0.2.1", 50_000))
    return httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1", trust_env=False)


@every_host
def test_requests_are_answered_while_the_gateway_is_open(host: Host, tmp_path: Path) -> None:
    web = MountedWeb()

    async def main() -> None:
        async with client_of(web) as http:
            closed = await http.get("/hermes/health")
            assert (closed.status_code, closed.json()["error"]["code"]) == (503, "gateway_closed")
            async with open_gateway(tmp_path, CONFIG, agent=Agent(), web=web) as gateway:
                assert (await http.get("/hermes/health")).json() == {"status": "ok"}
                assert (await http.get("/hermes/api/sessions")).status_code == 401
                assert await gateway.say("one", "hello") == "You said: hello"
                listed = (await http.get("/hermes/api/sessions", headers=BEARER)).json()["sessions"]
                assert [each["id"] for each in listed] == ["one"]
                asked = {"input": "good morning", "session_id": "two"}
                run = (await http.post("/hermes/v1/runs", json=asked, headers=BEARER)).json()["run_id"]
                events = await http.get(f"/hermes/v1/runs/{run}/events", headers=BEARER)
                assert "You said: good morning" in events.text
                assert events.text.endswith("data: [DONE]\n\n")
            assert (await http.get("/hermes/health")).status_code == 503

    host(main)


@every_host
def test_two_gateways_below_one_origin_have_log_ins_of_their_own(host: Host, tmp_path: Path) -> None:
    one, two = MountedWeb(), MountedWeb()
    app = Starlette(routes=[Mount("/bots/one", one), Mount("/bots/two", two)])
    browser = httpx.AsyncClient(
        transport=httpx.ASGITransport(app, client=("192.0.2.1", 50_000)), base_url="http://127.0.0.1:8000"
    )

    async def main() -> None:
        async with (
            open_gateway(tmp_path / "one", agent=Agent(), web=one),
            open_gateway(tmp_path / "two", agent=Agent(), web=two),
            browser,
        ):
            page_keys = {}
            for path, web in (("/bots/one", one), ("/bots/two", two)):
                assert "login.js" in (await browser.get(f"{path}/")).text
                in_ = await browser.get(path + web.login_path())
                assert (in_.status_code, f"path={path};" in in_.headers["set-cookie"].lower()) == (303, True)
                address = in_.url.join(in_.headers["location"])
                assert address.path == f"{path}/"
                page_keys[path] = address.fragment.removeprefix("key=")
                page = await browser.get(f"{path}/")
                assert "main.js" in page.text
                assert (await browser.get(page.url.join("page/main.js"))).status_code == 200
            for path, other in (("/bots/one", "/bots/two"), ("/bots/two", "/bots/one")):
                listed = f"{path}/api/sessions"
                assert (await browser.get(listed, headers={"x-hermes-page": page_keys[path]})).is_success
                wrong = await browser.get(listed, headers={"x-hermes-page": page_keys[other]})
                assert wrong.status_code == 401
                foreign = {"x-hermes-page": page_keys[path], "sec-fetch-site": "cross-site"}
                assert (await browser.get(listed, headers=foreign)).status_code == 403
                out = {"x-hermes-page": page_keys[path], "origin": "http://127.0.0.1:8000"}
                assert (await browser.delete(f"{path}/api/logins/current", headers=out)).is_success
                assert "login.js" in (await browser.get(f"{path}/")).text

    host(main)


async def test_the_program_may_authenticate_by_itself(tmp_path: Path) -> None:
    web = MountedWeb(host_authenticates=True)
    async with open_gateway(tmp_path, agent=Agent(), web=web), client_of(web) as http:
        assert "main.js" in (await http.get("/hermes/")).text
        made = await http.post("/hermes/api/sessions/one/messages", json={"text": "hello"})
        assert made.status_code == 202
        assert (await http.get("/hermes/metrics")).status_code == 200
        foreign = {"origin": "https://elsewhere.example", "sec-fetch-site": "cross-site"}
        for refused in (
            await http.post("/hermes/api/sessions/one/messages", json={"text": "x"}, headers=foreign),
            await http.get("/hermes/api/sessions", headers=foreign),
            await http.post("/hermes/api/admin/stop", json={}, headers=foreign),
        ):
            assert (refused.status_code, refused.json()["error"]["code"]) == (403, "foreign_origin")


async def test_a_short_key_is_refused(tmp_path: Path) -> None:
    short = GatewayConfig(web=WebConfig(key="short"))
    with pytest.raises(ConfigInvalid, match=r"web\.key: it has fewer than 16 characters"):
        async with open_gateway(tmp_path, short, agent=Agent(), web=MountedWeb()):
            pytest.fail("it is open")


# --- requests as a server makes them ---

Message = MutableMapping[str, Any]


def scope_of(method: str, path: str) -> Message:
    """Return a request as a server passes it to a mounted application."""
    return {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": f"/hermes{path}",
        "raw_path": f"/hermes{path}".encode(),
        "root_path": "/hermes",
        "query_string": b"",
        "headers": [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {KEY}".encode())],
        "client": None,
        "server": None,
    }


class Client:
    """The side of the server in one request: what it has sent, and what was told when it was cancelled."""

    def __init__(self, *, takes: Callable[[], Awaitable[object]] = anyio.lowlevel.checkpoint) -> None:
        self.sent = b""
        self.status = 0
        self.told: list[str] = []
        self.over = False
        self._takes = takes

    async def receive(self) -> Message:
        try:
            await anyio.sleep(3600)
        finally:
            self.told.append("receive has ended")
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.status = message.get("status", self.status)
        self.sent += message.get("body", b"")
        self.over = message["type"] == "http.response.body" and not message.get("more_body", False)
        if self.sent:
            await self._takes()

    async def until(self, text: bytes) -> None:
        """Wait until this was sent."""
        with anyio.fail_after(10):
            while text not in self.sent:  # noqa: ASYNC110 - a fake server
                await anyio.sleep(0.01)


@every_host
def test_a_server_that_cancels_its_task_ends_the_request(host: Host, tmp_path: Path) -> None:
    web, client = MountedWeb(), Client()

    async def main() -> None:
        async with open_gateway(tmp_path, CONFIG, agent=Agent(), web=web) as gateway:
            async with anyio.create_task_group() as server:
                server.start_soon(web, scope_of("GET", "/api/events"), client.receive, client.send)
                await client.until(b"gateway.changed")
                server.cancel_scope.cancel()
            assert client.told == ["receive has ended"]
            sent = client.sent
            assert await gateway.say("one", "hello") == "You said: hello"
            assert (client.sent, client.over) == (sent, False)

    host(main)


@every_host
def test_the_end_of_the_gateway_ends_its_streams_after_their_last_event(host: Host, tmp_path: Path) -> None:
    web, client = MountedWeb(), Client()

    async def main() -> None:
        async with anyio.create_task_group() as server:
            with anyio.fail_after(20):
                async with open_gateway(tmp_path, CONFIG, agent=Agent(), web=web) as gateway:
                    server.start_soon(web, scope_of("GET", "/api/events"), client.receive, client.send)
                    await client.until(b"gateway.changed")
                    gateway.stop()
                    await anyio.sleep(3600)
            assert client.over
            assert b'"event":"gateway.ending"' in client.sent
            assert client.told == ["receive has ended"]

    host(main)


@every_host
def test_a_client_that_takes_nothing_holds_nobody_up(host: Host, tmp_path: Path) -> None:
    web, deaf = MountedWeb(), Client(takes=partial(anyio.sleep, 3600))

    async def main() -> None:
        async with anyio.create_task_group() as server:
            with anyio.fail_after(20):
                async with open_gateway(tmp_path, CONFIG, agent=Agent(), web=web) as gateway:
                    server.start_soon(web, scope_of("GET", "/api/events"), deaf.receive, deaf.send)
                    await deaf.until(b"connected")
                    first = deaf.sent
                    assert await gateway.say("one", "hello") == "You said: hello"
            assert deaf.sent == first
            assert not deaf.over

    host(main)


@every_host
def test_a_body_over_its_limit_is_not_read_to_its_end(host: Host, tmp_path: Path) -> None:
    web, client = MountedWeb(), Client()
    read: list[int] = []

    async def receive() -> Message:
        assert len(read) < 10_000
        read.append(1 << 16)
        await anyio.lowlevel.checkpoint()
        return {"type": "http.request", "body": b" " * (1 << 16), "more_body": True}

    async def main() -> None:
        async with open_gateway(tmp_path, CONFIG, agent=Agent(), web=web):
            await web(scope_of("POST", "/api/admin/drain"), receive, client.send)
        assert client.status == 413

    host(main)


async def test_a_client_that_has_gone_is_no_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def gone() -> None:
        raise OSError("the client has gone")

    web, client = MountedWeb(), Client(takes=gone)
    async with open_gateway(tmp_path, CONFIG, agent=Agent(), web=web):
        with trio.fail_after(10):
            await web(scope_of("GET", "/api/events"), client.receive, client.send)
    assert "request failed" not in caplog.text
