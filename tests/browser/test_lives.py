"""A gateway that stops and returns while its page is open: the page loses no shown text and no written
message."""

from __future__ import annotations

import re
import signal
import subprocess

import pytest
from playwright.sync_api import Page, expect

from hermes_trio.base.errors import EXIT_RESTART
from tests.browser.conftest import PATIENCE, Gateway, People, picture, says
from tests.machine import HERMES, environment

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""


def numbers(page: Page) -> list[int]:
    """Return the numbers in all answers of the session."""
    return [
        int(word) for word in re.findall(r"\d+", " ".join(page.locator(".turn .markdown").all_inner_texts()))
    ]


def scroll_up(page: Page) -> int:
    """Scroll to the middle, and return the position."""
    page.locator("#scroll").evaluate("one => { one.scrollTop = 40; }")
    expect(page.get_by_role("button", name="Go to the latest message")).to_be_visible()
    return int(page.locator("#scroll").evaluate("one => one.scrollTop"))


def test_an_answer_continues_after_a_restart(mortal: People) -> None:
    page = mortal.somebody(viewport={"width": 1000, "height": 420})
    says(page, "hello")
    expect(page.locator(".code pre")).to_contain_text("provider: openai")
    says(page, "count to 6")
    expect(page.locator(".markdown.growing")).to_contain_text("2")
    place = scroll_up(page)
    before = page.locator(".turn").first.inner_text()
    page.evaluate("window.sameDocument = true")
    assert mortal.gateway.end(signal.SIGUSR1) == EXIT_RESTART
    expect(page.locator("#banner")).to_contain_text("What you write meanwhile is kept")
    expect(page.locator(".note")).to_contain_text("nterrupted")
    seen = numbers(page)
    assert seen[-2:] == [seen[-1] - 1, seen[-1]]
    says(page, "written meanwhile")
    expect(page.locator(".said", has_text="written meanwhile")).to_contain_text(
        "It is sent when the gateway is back"
    )
    page.locator("#scroll").evaluate(f"one => {{ one.scrollTop = {place}; }}")
    picture(page, "restarting")
    expect(page.locator(".note").first).to_have_attribute("data-tone", "warn")
    mortal.gateway.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".note").first).to_contain_text("The gateway was restarted.")
    expect(page.locator(".note").last).to_have_text("Resumed where it was interrupted")
    expect(page.locator(".turn .markdown", has_text="Where was I?")).to_contain_text("Done.")
    expect(page.locator(".turn .markdown").last).to_have_text("You said: written meanwhile")
    expect(page.locator(".note").first).to_have_attribute("data-tone", "quiet")
    assert numbers(page)[: len(seen)] == seen, "the text that was shown is still there"
    assert page.evaluate("window.sameDocument"), "the page was not loaded again"
    assert page.locator("#scroll").evaluate("one => one.scrollTop") == place, "the scroll position is kept"
    assert page.locator(".turn").first.inner_text() == before
    expect(page.locator(".bubble")).to_have_text(["hello", "count to 6", "written meanwhile"])
    picture(page, "restarted")


def test_the_page_does_not_call_a_stop_a_restart(mortal: People) -> None:
    page = mortal.somebody()
    says(page, "hello")
    expect(page.locator(".code pre")).to_contain_text("provider: openai")
    environ = environment(mortal.gateway.home)
    subprocess.run([*HERMES, "stop"], env=environ, check=True, timeout=PATIENCE)
    assert mortal.gateway.process is not None
    assert mortal.gateway.process.wait(PATIENCE) == 0
    expect(page.locator("#status-text")).to_have_text("Stopped")
    expect(page.locator("#banner")).to_contain_text("The gateway was stopped. What you write is kept")
    picture(page, "stopped")
    says(page, "written meanwhile")
    mortal.gateway.start()
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".turn .markdown").last).to_have_text("You said: written meanwhile")


def test_the_page_reports_a_restart_that_never_ends(mortal: People) -> None:
    page = mortal.somebody()
    assert mortal.gateway.end(signal.SIGUSR1) == EXIT_RESTART
    expect(page.locator("#banner")).to_contain_text("The gateway is restarting.")
    expect(page.locator("#status-text")).to_have_text("Restarting…")
    page.evaluate("const now = Date.now; Date.now = () => now() + 61000;")
    expect(page.locator("#banner")).to_contain_text("has not come back")
    expect(page.locator("#status-text")).to_have_text("Connection lost")
    mortal.gateway.start()
    expect(page.locator("#banner")).to_be_hidden()


def test_an_answer_continues_after_a_kill(mortal: People) -> None:
    page = mortal.somebody()
    says(page, "count to 5")
    expect(page.locator(".markdown.growing")).to_contain_text("2")
    mortal.gateway.end(signal.SIGKILL)
    expect(page.locator("#banner")).to_contain_text("The connection to the gateway is lost.")
    expect(page.locator(".working")).to_contain_text("Connection lost")
    seen = numbers(page)
    assert seen == list(range(1, len(seen) + 1))
    picture(page, "killed")
    mortal.gateway.start()
    expect(page.locator(".note").first).to_contain_text("recovered from the run journal")
    expect(page.locator(".note").first).to_contain_text("The gateway ended unexpectedly.")
    expect(page.locator(".markdown", has_text="Where was I?")).to_contain_text("Done.")
    assert numbers(page) == [1, 2, 3, 4, 5], "each number once, and the answer went on"
    page.reload()
    expect(page.locator(".markdown", has_text="Where was I?")).to_contain_text("Done.")
    assert numbers(page) == [1, 2, 3, 4, 5]
    picture(page, "recovered")


def test_an_interrupted_tool_is_not_shown_as_done(mortal: People) -> None:
    page = mortal.somebody()
    says(page, "run")
    expect(page.locator(".tool")).to_have_attribute("data-status", "running")
    mortal.gateway.end(signal.SIGKILL)
    mortal.gateway.start()
    expect(page.locator(".tool").first).to_have_attribute("data-status", "interrupted")
    expect(page.locator(".tool summary").first).to_contain_text("interrupted")


def test_an_unsent_message_survives_a_reload_while_the_gateway_is_held(people: People) -> None:
    page = people.somebody()
    people.away = True
    hold(people.gateway, "begin")
    try:
        expect(page.locator("#banner")).to_contain_text("The gateway is held and begins nothing new.")
        expect(page.locator("#status-text")).to_have_text("Held")
        says(page, "keep this")
        kept = page.locator(".said", has_text="keep this")
        expect(kept).to_contain_text("It is sent when the gateway is back")
        page.reload()
        expect(kept).to_contain_text("It is sent when the gateway is back")
        picture(page, "held")
    finally:
        hold(people.gateway, "cancel")
    expect(page.locator("#banner")).to_be_hidden()
    expect(page.locator(".turn .parts")).to_have_text("You said: keep this")
    expect(page.locator(".bubble")).to_have_text("keep this")


def hold(gateway: Gateway, action: str) -> None:
    gateway.asked("POST", "/api/admin/drain", {"action": action})
