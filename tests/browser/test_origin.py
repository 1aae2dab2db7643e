"""A log-in belongs to the origin of the page: another port of the same host cannot use what it gets."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import expect

from tests.browser.conftest import KEY, People, picture, says, soon

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""

TRIES = """async (address) => {
  const found = { storage: localStorage.getItem("page-key") };
  for (const path of ["/api/sessions", "/", "/page/main.js"])
    found[path] = await fetch(address + path, { credentials: "include" })
      .then((one) => one.text(), () => "refused");
  const stop = { method: "POST", credentials: "include", body: "{}", mode: "no-cors" };
  found.change = await fetch(address + "/api/admin/stop", stop).then((one) => one.type, () => "refused");
  return found;
}"""


class Neighbour:
    """A server on another port of this host, which records its requests."""

    def __init__(self) -> None:
        self.cookies: list[str] = []
        noted = self.cookies

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                noted.append(self.headers.get("Cookie", ""))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<!doctype html><link rel=icon href=data:,><title>Neighbour</title>")

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self.server.server_port}"


@pytest.fixture
def neighbour() -> Iterator[Neighbour]:
    neighbour = Neighbour()
    thread = threading.Thread(target=neighbour.server.serve_forever)
    thread.start()
    yield neighbour
    neighbour.server.shutdown()
    thread.join()
    neighbour.server.server_close()


def test_a_server_on_another_port_gets_the_cookie_and_cannot_use_it(
    people: People, neighbour: Neighbour
) -> None:
    page = people.somebody()
    says(page, "count to 3")
    expect(page.locator(".markdown")).to_contain_text("Done.")
    people.astray = people.away = True  # the browser reports blocked requests
    tab = people._watched(page.context.new_page())
    tab.goto(neighbour.address)
    [cookie] = neighbour.cookies
    assert "hermes_trio_" in cookie, "browsers send cookies to every port"
    found = tab.evaluate(TRIES, people.gateway.address)
    assert found.pop("change") in ("opaque", "refused")
    assert found == {"storage": None, "/api/sessions": "refused", "/": "refused", "/page/main.js": "refused"}
    with httpx.Client(base_url=people.gateway.address) as thief:
        forged = {"Cookie": cookie, "Origin": people.gateway.address, "Sec-Fetch-Site": "same-origin"}
        for method, path in (("GET", "/api/sessions"), ("GET", "/api/events"), ("POST", "/api/admin/stop")):
            assert thief.request(method, path, headers=forged).status_code == 401
    says(page, "still here")
    expect(page.locator(".turn .parts").last).to_have_text("You said: still here")
    people.said[:] = [one for one in people.said if "CORS policy" not in one and "NotSameOrigin" not in one]


def test_a_log_out_returns_all_pages_of_the_browser_to_the_log_in_page(people: People) -> None:
    page = people.somebody()
    tab = people.second_tab(page)
    elsewhere = people.somebody(user_agent="Mozilla/5.0 (X11; Linux x86_64) Firefox/140.0")
    people.astray = people.away = True  # its requests are refused from here on
    page.get_by_role("button", name="Log out", exact=True).click()
    page.get_by_role("dialog").get_by_role("button", name="Log out").click()
    for one in (page, tab):
        expect(one.get_by_label("Key", exact=True)).to_be_visible()
    assert page.evaluate("localStorage.getItem('page-key')") is None
    expect(elsewhere.get_by_label("Message", exact=True)).to_be_visible()
    page.get_by_label("Key", exact=True).fill(KEY)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    expect(page.locator("#status-text")).to_have_text("Ready")


def test_a_browser_is_logged_out_by_another_browser(people: People) -> None:
    page = people.somebody()
    lost = people.somebody(user_agent="Mozilla/5.0 (Windows NT 10.0; Win64) Firefox/140.0")
    people.astray = people.away = True
    page.keyboard.press("Control+I")
    status = page.get_by_role("dialog", name="Status")
    row = status.locator("li", has_text="Firefox on Windows")
    expect(status.locator("li", has_text="this browser")).to_contain_text("on Linux")
    picture(page, "logins")
    row.get_by_role("button").click()
    expect(row).to_have_count(0)
    expect(lost.get_by_label("Key", exact=True)).to_be_visible()


def test_the_key_of_a_page_does_not_stay_in_its_address(people: People) -> None:
    page = people.stranger()
    page.goto(people.gateway.link)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    assert page.url == people.gateway.address + "/"
    soon(lambda: page.locator("#status-text").inner_text() != "Connecting…")
    page.reload()
    expect(page.locator("#status-text")).to_have_text("Ready")
