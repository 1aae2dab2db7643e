"""A gateway in a process of its own, and people who use its page with a real browser.

The browser is Debian's Chromium, driven by Playwright; without it these tests are skipped. The agent is the
demo. No test may leave a message in a browser's console. Pictures of the pages are left in `screenshots`.
"""

from __future__ import annotations

import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from tests.machine import HERMES, environment

KEY = "a-key-for-browser-tests"
PATIENCE = 30.0
"""Seconds; longer than any step takes on a busy machine."""
SCREENSHOTS = Path(__file__).with_name("screenshots")
CHROMIUM = shutil.which("chromium")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
CONFIG = """\
model: {{provider: demo}}
agent: {{restart_drain_timeout: {grace}}}
web: {{port: {port}, key: {key}}}
"""
WHILE_AWAY = re.compile(r"net::ERR_(CONNECTION|INCOMPLETE|EMPTY|NETWORK|ABORTED|FAILED)|status of 503")
"""Messages of a browser when a server has gone."""

expect.set_options(timeout=PATIENCE * 1000)


@dataclass
class Gateway:
    """A gateway that tests start, stop and kill."""

    home: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it as a service manager does, and wait until it begins turns."""
        environ = environment(self.home, HERMES_GATEWAY_EXTERNAL_SUPERVISOR="1")
        with open(self.home.with_name("output"), "ab") as output:
            self.process = subprocess.Popen([*HERMES, "run"], env=environ, stdout=output, stderr=output)
        soon(self.is_ready)

    def is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.address}/ready").is_success
        except httpx.TransportError:
            return False

    def end(self, how: signal.Signals) -> int:
        """Send it a signal, and wait for its exit."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def asked(self, method: str, path: str, body: object = None) -> Any:
        """Send a request with the key, and return the answer."""
        headers = {"Authorization": f"Bearer {KEY}"}
        url = self.address + path
        answer = httpx.request(method, url, json=body, headers=headers, timeout=PATIENCE)
        assert answer.is_success, answer.text
        return answer.json()

    def let_in(self, browser: str = "Mozilla/5.0 (X11; Linux x86_64) Chrome/140.0") -> Any:
        """Return the storage of a browser after a log-in with the key."""
        who = {"User-Agent": browser}
        answer = httpx.post(f"{self.address}/login", json={"key": KEY}, headers=who, timeout=PATIENCE)
        [(name, value)] = answer.cookies.items()
        page_key = {"name": "page-key", "value": answer.headers["x-hermes-page"]}
        cookie = {"name": name, "value": value, "domain": "127.0.0.1", "path": "/", "expires": -1}
        cookie |= {"httpOnly": True, "secure": False, "sameSite": "Lax"}
        return {"cookies": [cookie], "origins": [{"origin": self.address, "localStorage": [page_key]}]}

    @property
    def link(self) -> str:
        """The log-in link that it has printed."""
        return str(re.findall(r"http://\S+token=\S+", self.home.with_name("output").read_text())[-1])


@contextmanager
def gateway_in(
    folder: Path,
    *,
    grace: float = 1,
    before: Callable[[Path], None] = lambda _: None,
    kind: type[Gateway] = Gateway,
) -> Iterator[Gateway]:
    """A gateway that runs during the block. `before` prepares its home."""
    home = folder / "home"
    home.mkdir(mode=0o700)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    (home / "config.yaml").write_text(CONFIG.format(grace=grace, port=port, key=KEY))
    before(home)
    gateway = kind(home, port)
    try:
        gateway.start()
        yield gateway
    finally:
        if gateway.process is not None:
            gateway.process.kill()
            gateway.process.wait(PATIENCE)


def soon(condition: Callable[[], bool]) -> None:
    """Poll until this is true."""
    until = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < until, "the condition did not become true"
        time.sleep(0.05)


@dataclass
class People:
    """People with browsers at one gateway."""

    browser: Browser
    gateway: Gateway
    said: list[str] = field(default_factory=list)
    """The messages in the browsers' consoles."""
    away: bool = False
    """The gateway is gone for a while in this test, and browsers may report it."""
    astray: bool = False
    """A page requests something that does not exist or is refused. Browsers may report it at any time."""
    _contexts: list[Any] = field(default_factory=list)

    def stranger(self, **how: Any) -> Page:
        """Open a browser without a cookie."""
        context = self.browser.new_context(
            viewport=how.pop("viewport", {"width": 1280, "height": 820}), **how
        )
        self._contexts.append(context)
        return self._watched(context.new_page())

    def somebody(self, path: str = "/", **how: Any) -> Page:
        """Open the page in a browser that is logged in."""
        page = self.stranger(storage_state=self.gateway.let_in(*filter(None, [how.get("user_agent")])), **how)
        page.goto(self.gateway.address + path)
        expect(page.locator("#status-text")).not_to_have_text("Connecting…")
        return page

    def second_tab(self, page: Page) -> Page:
        """Open the same address in a second tab."""
        tab = self._watched(page.context.new_page())
        tab.goto(page.url)
        return tab

    def leave(self) -> None:
        for context in self._contexts:
            context.close()
        meant = [
            text
            for text in self.said
            if not (self.away and WHILE_AWAY.search(text)) and not (self.astray and "status of 40" in text)
        ]
        assert not meant, "no message in a console"

    def _watched(self, page: Page) -> Page:
        page.on(
            "console", lambda message: self.said.append(f"{message.type}: {message.text} {message.location}")
        )
        page.on("pageerror", lambda error: self.said.append(f"error: {error.stack}"))
        return page


# Not for the whole session: Playwright has an event loop in this thread, and other tests bring their own.
@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("there is no chromium here; `apt-get install chromium` brings one")
    SCREENSHOTS.mkdir(exist_ok=True)
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture(scope="module")
def shared(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """The gateway of the tests that do not change it."""
    with gateway_in(tmp_path_factory.mktemp("gateway")) as gateway:
        yield gateway


@pytest.fixture
def people(browser: Browser, shared: Gateway) -> Iterator[People]:
    people = People(browser, shared)
    yield people
    people.leave()


@pytest.fixture
def mortal(browser: Browser, tmp_path: Path) -> Iterator[People]:
    """People at a gateway of their own, which may be stopped."""
    with gateway_in(tmp_path) as gateway:
        people = People(browser, gateway, away=True)
        yield people
        people.leave()


def says(page: Page, text: str) -> None:
    """Type this and send it with the keyboard."""
    page.locator("#composer").fill(text)
    page.locator("#composer").press("Enter")


def picture(page: Page, name: str) -> None:
    """Save a picture of the page."""
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
