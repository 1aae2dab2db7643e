"""What people do with a conversation on the page after an answer: again, changed, saved, found."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import Route, expect

from tests.browser.conftest import People, picture, says

pytestmark = pytest.mark.timeout(240)


def test_an_answer_is_repeated_and_a_message_is_changed(people: People) -> None:
    page = people.somebody()
    says(page, "the first one")
    expect(page.locator(".parts")).to_have_text("You said: the first one")
    says(page, "a mistkae")
    expect(page.locator(".turn").last.locator(".parts")).to_have_text("You said: a mistkae")
    expect(page.get_by_role("button", name="Retry")).to_have_count(1)
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".turn")).to_have_count(2)
    expect(page.locator(".working:visible")).to_have_count(0)
    expect(page.locator(".turn").last.locator(".parts")).to_have_text("You said: a mistkae")
    page.get_by_role("button", name="Edit").click()
    field = page.get_by_label("Message", exact=True)
    expect(field).to_have_value("a mistkae")
    field.press("Escape")
    expect(field).to_have_value("")
    expect(page.locator(".bubble")).to_have_text(["the first one", "a mistkae"])
    page.get_by_role("button", name="Edit").click()
    expect(field).to_have_value("a mistkae")
    says(page, "no mistake")
    expect(page.locator(".bubble")).to_have_text(["the first one", "no mistake"])
    expect(page.locator(".turn").last.locator(".parts")).to_have_text("You said: no mistake")
    picture(page, "repeat")


def test_a_stopped_answer_is_repeated(people: People) -> None:
    page = people.somebody()
    says(page, "count to 3")
    expect(page.locator(".markdown")).to_contain_text("1")
    page.get_by_role("button", name="Stop the answer").click()
    expect(page.locator(".note")).to_have_text("You stopped this answer.")
    page.get_by_role("button", name="Retry").click()
    expect(page.locator(".markdown")).to_contain_text("Done.")
    expect(page.locator(".bubble")).to_have_text("count to 3")


def test_nothing_is_removed_while_the_page_reads(people: People) -> None:
    page = people.somebody()
    says(page, "the only one")
    expect(page.locator(".parts")).to_have_text("You said: the only one")
    expect(page.locator(".working:visible")).to_have_count(0)
    readings: list[Route] = []
    page.route(re.compile(r"/messages\?"), lambda route: readings.append(route), times=1)
    session = page.url.partition("#")[2]
    people.gateway.asked("PATCH", f"/api/sessions/{session}", {"title": "Another name"})
    while not readings:  # the page may read for another reason too
        page.wait_for_timeout(20)
    page.get_by_role("button", name="Retry").click()
    page.wait_for_timeout(300)
    readings[0].continue_()
    expect(page.locator(".parts")).to_have_text("You said: the only one")
    expect(page.locator(".turn")).to_have_count(1)
    expect(page.locator("h1")).to_have_text("Another name")


def test_a_reading_that_ends_in_the_middle_is_read_again(people: People) -> None:
    page = people.somebody()
    says(page, "the only one")
    expect(page.locator(".parts")).to_have_text("You said: the only one")
    expect(page.locator(".working:visible")).to_have_count(0)
    half = {"status": 200, "content_type": "application/json", "body": '{"messages": ['}
    with page.expect_response(re.compile(r"/messages\?")):
        page.route(re.compile(r"/messages\?"), lambda route: route.fulfill(**half), times=1)
        session = page.url.partition("#")[2]
        people.gateway.asked("PATCH", f"/api/sessions/{session}", {"title": "Another name"})
    page.get_by_role("button", name="Retry").click()
    expect(page.locator("h1")).to_have_text("Another name")
    expect(page.locator(".parts")).to_have_text("You said: the only one")


def test_commands_are_chosen_from_a_menu_with_the_keyboard(people: People) -> None:
    page = people.somebody()
    field = page.get_by_label("Message", exact=True)
    field.press_sequentially("/st")
    options = page.get_by_role("option")
    expect(options).to_contain_text(["/status", "/stop", "/steer"])
    picture(page, "commands")
    field.press("ArrowDown")
    expect(page.get_by_role("option", selected=True)).to_contain_text("/stop")
    field.press("ArrowUp")
    field.press("Enter")
    expect(field).to_have_value("/status ")
    expect(options).to_have_count(0)
    field.press("Enter")
    expect(page.locator(".note")).to_contain_text("The gateway is up")
    field.press_sequentially("/")
    expect(options.first).to_be_visible()
    field.press("Escape")
    expect(options).to_have_count(0)
    expect(field).to_have_value("/")


def test_a_conversation_is_saved_and_a_found_message_is_shown(people: People, tmp_path: Path) -> None:
    page = people.somebody()
    says(page, "a needle in the hay")
    expect(page.locator(".parts")).to_have_text("You said: a needle in the hay")
    expect(page.locator("#model")).to_have_text(re.compile("^demo"))
    for number in range(2, 4):
        says(page, "count to 1\n" + "straw\n" * 60)
        expect(page.locator(".turn")).to_have_count(number)
        expect(page.locator(".turn").last.locator(".parts")).to_contain_text("Done.")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this conversation as a file").click()
    saved = tmp_path / "saved.md"
    download.value.save_as(saved)
    assert download.value.suggested_filename == "a-needle-in-the-hay.md"
    assert saved.read_text().startswith("# a needle in the hay\n\n## You")
    assert "## Agent\n\nYou said: a needle in the hay" in saved.read_text()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_label("Message", exact=True)).to_be_focused()
    page.get_by_label("Search conversations").fill("said needle hay")
    page.locator("a.row", has_text="You said").click()
    expect(page.locator(".turn").first).to_be_in_viewport()
    expect(page.locator(".turn").first).to_have_class(re.compile("hit"))
    picture(page, "found")
