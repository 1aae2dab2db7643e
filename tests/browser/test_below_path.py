"""The page below a path of another program's web application."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import KEY, Gateway, People, gateway_in, soon

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""

EXAMPLES = Path(__file__).parents[2] / "examples"


class MountedGateway(Gateway):
    """A gateway in a FastAPI application under uvicorn."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/hermes"

    def start(self) -> None:
        command = [sys.executable, "-m", "uvicorn", "fastapi_app:app", "--port", str(self.port)]
        environ = {**os.environ, "BOT_HOME": str(self.home)}
        with open(self.home.with_name("output"), "ab") as output:
            self.process = subprocess.Popen(command, cwd=EXAMPLES, env=environ, stdout=output, stderr=output)
        soon(self.is_ready)


def test_the_page_works_below_a_path(browser: Browser, tmp_path: Path) -> None:
    with gateway_in(tmp_path, kind=MountedGateway) as gateway:
        people = People(browser, gateway)
        page = people.stranger()
        page.goto(gateway.address)
        page.get_by_label("Key", exact=True).fill(KEY)
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("heading", name="What can I do for you?")).to_be_visible()
        assert page.url == f"{gateway.address}/"
        page.get_by_label("Message", exact=True).fill("good day")
        page.get_by_label("Message", exact=True).press("Enter")
        expect(page.locator(".parts")).to_have_text("You said: good day")
        page.reload()
        expect(page.locator(".parts")).to_have_text("You said: good day")
        expect(page.locator("#status-text")).to_have_text("Ready")
        tab = people.second_tab(page)
        expect(tab.locator(".parts")).to_have_text("You said: good day")
        kept = page.evaluate("Object.keys(localStorage).filter((name) => name.includes('page-key'))")
        assert kept == ["/hermespage-key"]
        [cookie] = page.context.cookies()
        assert cookie["path"] == "/hermes"
        loaded = page.evaluate("performance.getEntriesByType('resource').map(({name}) => name)")
        assert [name for name in loaded if not name.startswith(f"{gateway.address}/")] == []
        people.leave()
