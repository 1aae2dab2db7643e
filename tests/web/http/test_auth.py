"""The key, log-ins, and requests that another site makes a browser send."""

from __future__ import annotations

import logging
import stat
from datetime import timedelta
from pathlib import Path

import pytest

from hermes_trio.base.errors import HomeUnusable
from hermes_trio.config.schema import WebConfig
from hermes_trio.web.http import login_attempts
from hermes_trio.web.http.auth import web_key
from hermes_trio.web.http.server import is_loopback
from tests.web.conftest import KEY, WebStage, client, hearing, log_in

CLOSED = [
    ("GET", "/health/detailed"),
    ("GET", "/api/sessions"),
    ("POST", "/api/sessions"),
    ("GET", "/api/sessions/x"),
    ("PATCH", "/api/sessions/x"),
    ("DELETE", "/api/sessions/x"),
    ("GET", "/api/sessions/x/messages"),
    ("POST", "/api/sessions/x/messages"),
    ("POST", "/api/sessions/x/stop"),
    ("GET", "/api/events"),
    ("POST", "/api/admin/stop"),
    ("POST", "/api/admin/restart"),
    ("POST", "/api/admin/drain"),
]


async def test_only_health_routes_are_open(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, _):
        assert web_stage.web is not None
        for key in (None, "wrong", KEY + "x", ""):
            async with client(web_stage.web, key) as stranger:
                for path in ("/health", "/ready", "/metrics"):
                    assert (await stranger.get(path)).status_code == 200
                for method, path in CLOSED:
                    web_stage.away += timedelta(seconds=login_attempts.TRIES_WITHIN)  # wrong keys are limited
                    refused = await stranger.request(method, path, json={})
                    assert refused.status_code == 401, path
                    error = refused.json()["error"]
                    assert sorted(error) == ["code", "message", "remedy"]
                    assert "web.key" in error["remedy"]
        assert gateway.control.current is None


async def test_a_link_logs_in_once_and_sets_a_cookie_for_the_page_alone(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        link = web_stage.web.link()
        async with client(web_stage.web, None) as browser:
            cookie = (await log_in(browser, link)).lower()
            assert "httponly" in cookie
            assert "samesite=lax" in cookie
            assert "max-age" in cookie
            assert (await browser.get("/api/sessions")).status_code == 200
            own = {"Origin": web_stage.web.address}
            assert (await browser.post("/api/sessions", json={}, headers=own)).status_code == 201
        async with client(web_stage.web, None) as other:
            again = await other.get(link)
            assert again.status_code == 401
            assert again.json()["error"]["code"] == "link_used"
            assert "set-cookie" not in again.headers


async def test_a_link_and_a_cookie_expire(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        link, other = web_stage.web.link(), web_stage.web.link()
        async with client(web_stage.web, None) as browser:
            cookie = {"Cookie": (await log_in(browser, link)).partition(";")[0]}
            cookie["X-Hermes-Page"] = browser.headers["X-Hermes-Page"]
        web_stage.away = timedelta(minutes=11)
        async with client(web_stage.web, None) as browser:
            assert (await browser.get(other)).status_code == 401
            assert (await browser.get("/api/sessions", headers=cookie)).status_code == 200
            web_stage.away = timedelta(days=31)
            assert (await browser.get("/api/sessions", headers=cookie)).status_code == 401


async def test_a_cookie_survives_a_restart_and_cannot_be_forged(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        got = await http.post("/login", json={"key": KEY})
        assert got.status_code == 204
        name, _, value = got.headers["set-cookie"].partition(";")[0].partition("=")
        page = {"X-Hermes-Page": got.headers["x-hermes-page"]}
    until, nonce, signature = value.split(".")
    async with web_stage.served():
        assert web_stage.web is not None
        port = web_stage.web.address.rpartition(":")[2]
        mine = f"hermes_trio_{port}"
        assert name.startswith("hermes_trio_")
        async with client(web_stage.web, None) as browser:
            for made_up in (
                f"{int(until) + 1}.{nonce}.{signature}",
                f"{until}.{nonce}.",
                f"{until}.{nonce}.é",
                "..",
                "",
                signature,
            ):
                cookie = {
                    b"Cookie": f"{mine}={made_up}".encode(),
                    b"X-Hermes-Page": page["X-Hermes-Page"].encode(),
                }
                answer = await browser.get("/api/sessions", headers=cookie)
                assert answer.status_code == 401, made_up
            answer = await browser.get("/api/sessions", headers={"Cookie": f"{mine}={value}", **page})
            assert answer.status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1", 200),
        ("localhost:8642", 200),
        ("[::1]:1", 200),
        ("192.0.2.1:8642", 200),
        ("evil.example", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example:8642", 403),
        ("]", 403),
        ("", 403),
    ],
)
async def test_a_foreign_host_name_that_points_here_is_refused(
    web_stage: WebStage, host: str, status: int
) -> None:
    async with web_stage.served() as (_, http):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            assert (await browser.get("/metrics", headers={"Host": host})).status_code == status
        # A request with the key was not sent by another site.
        assert (await http.get("/api/sessions", headers={"Host": host})).status_code == 200


async def test_a_page_of_another_origin_can_change_nothing(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, _):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            await log_in(browser, web_stage.web.link())
            port = web_stage.web.address.rpartition(":")[2]
            for headers in (
                {"Origin": "http://evil.example"},
                {"Origin": "null"},
                {"Origin": f"http://127.0.0.1:{int(port) - 1}"},
                {"Origin": f"http://127.0.0.1:{port}.evil.example"},
                {"Origin": web_stage.web.address, "Sec-Fetch-Site": "cross-site"},
                {},
            ):
                refused = await browser.post("/api/admin/stop", json={}, headers=headers)
                assert refused.status_code == 403, headers
        assert gateway.control.current is None


async def test_behind_a_proxy_the_page_works_and_its_clients_are_not_local(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            await log_in(browser, web_stage.web.link())
            page = {"Origin": "https://agent.example", "Sec-Fetch-Site": "same-origin"}
            assert (await browser.post("/api/sessions", json={}, headers=page)).status_code == 201
            page["Sec-Fetch-Site"] = "same-site"
            assert (await browser.post("/api/sessions", json={}, headers=page)).status_code == 403
            for proxy in ({"X-Forwarded-For": "192.0.2.1"}, {"Forwarded": "for=192.0.2.1"}):
                assert (await browser.get("/metrics", headers=proxy)).status_code == 403
                key = {"Authorization": f"Bearer {KEY}"}
                assert (await browser.get("/metrics", headers=proxy | key)).status_code == 200


async def test_every_answer_has_the_security_headers(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        for path in ("/health", "/api/sessions", "/nowhere", "/login", "/api/sessions/no"):
            headers = (await http.get(path)).headers
            policy = headers["content-security-policy"]
            assert "script-src 'self'" in policy
            assert "unsafe" not in policy
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["x-frame-options"] == "DENY"
            assert headers["referrer-policy"] == "no-referrer"
            assert headers["cache-control"] == "no-store"
            assert "access-control-allow-origin" not in headers


async def test_no_log_contains_a_secret(web_stage: WebStage, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with web_stage.served() as (_, http):
        assert web_stage.web is not None
        link = web_stage.web.link()
        await http.get(link)
        await http.get(link)
        await http.post("/login", json={"key": KEY})
        await http.get("/api/sessions", headers={"Authorization": "Bearer almost-" + KEY})
    ours = [r.getMessage() for r in caplog.records if r.name.startswith("hermes")]
    assert ours
    for secret in (link.partition("token=")[2], KEY):
        assert not any(secret in line for line in ours)


async def test_metrics_need_the_key_or_a_client_on_this_machine() -> None:
    assert is_loopback("127.0.0.1")
    assert is_loopback("127.9.9.9")
    assert is_loopback("::1")
    assert is_loopback("::ffff:127.0.0.1")
    assert is_loopback("localhost")
    for other in (
        "192.0.2.1",
        "::ffff:192.0.2.1",
        "0.0.0.0",  # noqa: S104
        "::",
        "",
        "evil.example",
        "127.0.0.1.evil.example",
    ):
        assert not is_loopback(other), other


# --- the key -----------------------------------------------------------------------------------------


def test_the_key_file_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    key = web_key(tmp_path, WebConfig())
    assert len(key) >= 32
    assert stat.S_IMODE((tmp_path / "web.key").stat().st_mode) == 0o600
    (tmp_path / "web.key").chmod(0o644)
    assert web_key(tmp_path, WebConfig()) == key
    assert stat.S_IMODE((tmp_path / "web.key").stat().st_mode) == 0o600


def test_the_key_of_the_configuration_is_used(tmp_path: Path) -> None:
    assert web_key(tmp_path, WebConfig(key="chosen")) == "chosen"
    assert not (tmp_path / "web.key").exists()


def test_an_unreadable_key_file_is_reported(tmp_path: Path) -> None:
    (tmp_path / "web.key").mkdir()
    with pytest.raises(HomeUnusable, match=r"web\.key"):
        web_key(tmp_path, WebConfig())


# --- a log-in ----------------------------------------------------------------------------------------


async def test_a_cookie_without_the_page_key_is_refused(web_stage: WebStage) -> None:
    """A server on another port of this host gets the cookie, and may send any other header."""
    async with web_stage.served() as (gateway, _):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser, client(web_stage.web, None) as other:
            cookie = (await log_in(browser, web_stage.web.link())).partition(";")[0]
            await log_in(other, web_stage.web.link())
            page_keys = ("", "x", other.headers["X-Hermes-Page"], cookie.rpartition(".")[2])
        async with client(web_stage.web, None) as thief:
            for page_key in page_keys:
                forged = {
                    "Cookie": cookie,
                    "Origin": web_stage.web.address,
                    "Sec-Fetch-Site": "same-origin",
                    "X-Hermes-Page": page_key,
                }
                for method, path in CLOSED:
                    refused = await thief.request(method, path, json={}, headers=forged)
                    assert refused.status_code == 401, (method, path)
        assert gateway.control.current is None


async def test_a_page_on_another_port_can_read_nothing(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            await log_in(browser, web_stage.web.link())
            for foreign in ({"Sec-Fetch-Site": "same-site"}, {"Origin": "http://127.0.0.1:1"}):
                refused = await browser.get("/api/sessions", headers=foreign)
                assert refused.status_code == 403
                assert refused.json()["error"]["code"] == "foreign_origin"


async def test_a_log_out_ends_the_log_in_and_its_open_answers(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser, client(web_stage.web, None) as other:
            await log_in(browser, web_stage.web.link())
            await log_in(other, web_stage.web.link())
            own = {"Origin": web_stage.web.address}
            listed = (await browser.get("/api/logins")).json()["logins"]
            assert [one["current"] for one in listed] == [False, True]
            assert listed[0]["browser"].startswith("python-httpx")
            async with hearing(browser) as heard, hearing(other) as heard_by_other:
                got = await browser.delete("/api/logins/current", headers=own)
                assert got.status_code == 200
                assert "max-age=0" in got.headers["set-cookie"].lower()
                await web_stage.until(heard.broken.is_set)
                assert not heard_by_other.broken.is_set()
            assert (await browser.get("/api/sessions")).status_code == 401
            [left] = (await other.get("/api/logins")).json()["logins"]
            assert left["id"] == listed[0]["id"]
            for login_id, status in ((listed[1]["id"], 404), (left["id"], 200)):
                assert (await other.delete(f"/api/logins/{login_id}", headers=own)).status_code == status
            assert (await other.get("/api/sessions")).status_code == 401


async def test_a_log_out_survives_a_restart(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        assert web_stage.web is not None
        kept: list[dict[str, str]] = []
        for _ in range(2):
            async with client(web_stage.web, None) as browser:
                cookie = (await log_in(browser, web_stage.web.link())).partition(";")[0].partition("=")[2]
                kept.append({"Cookie": cookie, "X-Hermes-Page": browser.headers["X-Hermes-Page"]})
        newest, _ = (await http.get("/api/logins")).json()["logins"]
        assert (await http.delete(f"/api/logins/{newest['id']}")).status_code == 200
    async with web_stage.served():
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            for halves, status in zip(kept, (200, 401), strict=True):
                headers = {**halves, "Cookie": f"{web_stage.web.opened.auth.cookie}={halves['Cookie']}"}
                assert (await browser.get("/api/sessions", headers=headers)).status_code == status


async def test_a_second_log_in_of_a_browser_replaces_the_first(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        assert web_stage.web is not None
        async with client(web_stage.web, None) as browser:
            for _ in range(3):
                await log_in(browser, web_stage.web.link())
            assert (await browser.get("/api/sessions")).status_code == 200
        assert len((await http.get("/api/logins")).json()["logins"]) == 1


async def test_a_used_link_redirects_a_logged_in_browser_to_the_page(web_stage: WebStage) -> None:
    async with web_stage.served():
        assert web_stage.web is not None
        link = web_stage.web.link()
        async with client(web_stage.web, None) as browser:
            await log_in(browser, link)
            for _ in range(login_attempts.MOST_TRIES + 1):
                again = await browser.get(link)
                assert (again.status_code, again.headers["location"]) == (303, "./")
            assert (await browser.get("/api/sessions")).status_code == 200
        async with client(web_stage.web, None) as stranger:
            for _ in range(login_attempts.MOST_TRIES + 1):
                asked = await stranger.get("/login", headers={"Accept": "text/html"})
                assert (asked.status_code, 'id="key"' in asked.text) == (200, True), "no failed log-in"
