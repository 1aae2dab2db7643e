"""Messages and events that a browser sends or receives once, whatever breaks in between."""

from __future__ import annotations

import json

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import People, says
from tests.browser.page_reading import answer

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""


def test_two_tabs_show_the_same_conversation(people: People) -> None:
    one = people.somebody()
    says(one, "hi there")
    expect(one.locator(".markdown")).to_be_visible()
    other = people.second_tab(one)
    expect(other.locator(".bubble")).to_have_text("hi there")
    says(one, "count to 90")
    for page in (one, other):
        expect(page.locator(".turn").last.locator(".markdown")).to_contain_text("2")
    other.get_by_role("button", name="Stop the answer").click()
    for page in (one, other):
        expect(page.locator(".note")).to_have_text("You stopped this answer.")
        expect(page.locator(".bubble")).to_have_text(["hi there", "count to 90"])
    assert answer(one) == answer(other)


def test_a_message_with_a_lost_acknowledgement_is_sent_once(people: People) -> None:
    people.away = True
    page = people.somebody()
    sent: list[str] = []

    def lose_the_first(route: Route) -> None:
        sent.append(route.request.post_data or "")
        answered = route.fetch()
        if len(sent) == 1:
            route.abort()
        else:
            route.fulfill(response=answered)

    page.route("**/messages", lambda route: lose_the_first(route) if is_post(route) else route.continue_())
    says(page, "only once")
    expect(page.locator(".turn .parts").last).to_have_text("You said: only once")
    page.wait_for_function("() => !Object.keys(localStorage).some((one) => one.startsWith('outbox:'))")
    assert len(sent) == 2
    page.reload()
    expect(page.locator(".turn .parts")).to_have_text(["You said: only once"])
    expect(page.locator(".bubble")).to_have_text(["only once"])


def is_post(route: Route) -> bool:
    return route.request.method == "POST"


def test_a_message_is_sent_when_the_browser_storage_is_full(people: People) -> None:
    page = people.somebody()
    page.evaluate(
        """() => {
          for (let size = 1 << 22, number = 0; size; number += 1)
            try { localStorage.setItem(`x${number}`, "x".repeat(size)); } catch { size >>= 1; }
        }"""
    )
    says(page, "hello")
    expect(page.locator(".bubble")).to_have_text("hello")
    expect(page.locator(".markdown").last).to_contain_text("count to 10")


def test_hidden_pages_do_not_use_up_the_connections_of_the_browser(people: People) -> None:
    page = people.somebody()
    hidden = "Object.defineProperty(Document.prototype, 'hidden', { value: true, writable: true });"
    for _ in range(7):  # a browser opens six connections to one host
        tab = page.context.new_page()
        tab.add_init_script(hidden)
        tab.goto(page.url)
    expect(people.second_tab(page).locator("#status-text")).not_to_have_text("Connecting…")
    page.close()
    expect(tab.locator("#status-text")).to_have_text("Connecting…")
    tab.evaluate("Document.prototype.hidden = false; document.dispatchEvent(new Event('visibilitychange'));")
    expect(tab.locator("#status-text")).not_to_have_text("Connecting…")


def test_a_gap_is_shown_even_as_the_first_event_of_a_run(people: People) -> None:
    said = people.gateway.asked("POST", "/api/sessions/torn/messages", {"text": "count to 90"})
    of_run = {"session_id": "torn", "run_id": said["run_id"]}
    news = [
        {"event": "gap", **of_run},
        {"event": "message.delta", "seq": 5000, "at": 0, "delta": "and so on", **of_run},
    ]
    page = people.somebody()
    stream = "".join(f"data: {json.dumps(one)}\n\n" for one in news)
    page.route(
        "**/api/events*",
        lambda route: route.fulfill(content_type="text/event-stream", body=stream),
        times=1,
    )
    page.goto(f"{people.gateway.address}/#torn")
    page.reload()
    expect(page.locator(".parts")).to_contain_text("and so on")
    expect(page.locator(".note")).to_contain_text("A part of this answer is missing here.")
    people.gateway.asked("POST", "/api/sessions/torn/stop")
    expect(page.locator(".note")).to_have_text("You stopped this answer.")
