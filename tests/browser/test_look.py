"""The look and the use of the page: with the keyboard, on a phone, with a thousand conversations, in the
dark, and with a screen reader."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trio
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, expect

from hermes_trio.base.world import World
from hermes_trio.gateway.operations.api_sessions import source_of
from hermes_trio.state.db.database import open_database
from hermes_trio.state.db.engine import Db
from hermes_trio.state.tables import sessions, transcript
from hermes_trio.state.tables.session_entry import SessionEntry
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow
from tests.browser.conftest import People, gateway_in, picture, says

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""
PHONE: dict[str, Any] = {
    "viewport": {"width": 390, "height": 780},
    "device_scale_factor": 2,
    "is_mobile": True,
    "has_touch": True,
}
MARKDOWN = """\


## A plan

Some **bold**, *slanted* and `code`, with a [link](https://example.org).

```python
def greet(name: str) -> str:
    # says hello
    return f"hello {name}" * 3
```

| fruit | how many |
|---|---:|
| apples | 3 |
| pears | 12 |

1. one
2. two
   - nested
   - [x] done

> Quoted.
"""


def has_no_serious_trouble(page: Page) -> None:
    """Check that axe finds no serious violation of accessibility."""
    found = Axe().run(page).response["violations"]
    serious = [one for one in found if one["impact"] in ("serious", "critical")]
    told = [(one["id"], [node["target"] for node in one["nodes"]]) for one in serious]
    assert not told


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_has_no_accessibility_violations(people: People, scheme: str) -> None:
    page = people.stranger(color_scheme=scheme, reduced_motion="reduce")
    page.goto(people.gateway.address)
    has_no_serious_trouble(page)
    page = people.somebody(color_scheme=scheme, reduced_motion="reduce")
    has_no_serious_trouble(page)
    says(page, MARKDOWN)
    expect(page.locator(".markdown blockquote")).to_have_text("Quoted.")
    expect(page.locator(".working")).to_be_hidden()
    says(page, "danger")
    expect(page.get_by_role("button", name="Deny")).to_be_visible()
    has_no_serious_trouble(page)
    picture(page, f"everything-{scheme}")
    page.get_by_role("button", name="Allow once").click()
    page.locator(".tool summary").click()
    expect(page.locator(".tool-body .code pre")).to_contain_text("made and removed")
    has_no_serious_trouble(page)
    page.get_by_role("button", name="Keyboard shortcuts").click()
    has_no_serious_trouble(page)


def test_the_page_is_usable_with_the_keyboard_alone(people: People) -> None:
    page = people.somebody()
    keys = page.keyboard
    expect(page.locator("#composer")).to_be_focused()
    keys.type("first line")
    keys.press("Shift+Enter")
    keys.type("second line of keys")
    keys.press("Enter")
    expect(page.locator(".bubble")).to_have_text("first line\nsecond line of keys")
    expect(page.locator(".parts")).to_contain_text("second line of keys")
    keys.press("Control+Shift+O")
    expect(page.locator("#title")).to_have_text("New chat")
    keys.type("count to 90")
    keys.press("Enter")
    expect(page.locator(".markdown")).to_contain_text("1")
    keys.press("Escape")
    expect(page.locator("#hint")).to_have_text("Press Esc again to stop the answer")
    keys.press("Escape")
    expect(page.locator(".note")).to_have_text("You stopped this answer.")
    keys.press("Control+K")
    expect(page.locator("#search")).to_be_focused()
    keys.type("first line")
    keys.press("ArrowDown")
    expect(page.locator(".row").first).to_be_focused()
    outline = page.locator(".row").first.evaluate("row => getComputedStyle(row).outlineStyle")
    assert outline == "solid", "the focus is visible"
    keys.press("Enter")
    expect(page.locator("#title")).to_have_text("first line")
    page.locator("#search").focus()
    keys.press("Escape")
    keys.press("Alt+ArrowUp")
    expect(page.locator("#title")).to_have_text("count to 90")
    page.locator("#scroll").focus()
    keys.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()
    keys.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    keys.press("/")
    expect(page.locator("#composer")).to_be_focused()
    keys.press("Control+B")
    expect(page.locator("#sidebar")).to_be_hidden()
    keys.press("Control+B")
    expect(page.locator("#sidebar")).to_be_visible()


def test_the_status_dialog_shows_turns_platforms_and_browsers(people: People) -> None:
    page = people.somebody()
    says(page, "count to 90")
    expect(page.locator(".markdown")).to_contain_text("1")
    page.keyboard.press("Control+I")
    status = page.get_by_role("dialog", name="Status")
    expect(status).to_contain_text("running")
    expect(status.locator("li", has_text="count to 90")).to_contain_text("Writing · ")
    expect(status.locator("li", has_text="this page, and the API")).to_contain_text("connected")
    expect(status).to_contain_text("Last ending")
    picture(page, "status")
    has_no_serious_trouble(page)
    status.get_by_role("button", name="Stop count to 90").click()
    expect(status.locator("li", has_text="count to 90")).to_have_count(0)
    page.keyboard.press("Escape")
    expect(page.locator(".note")).to_have_text("You stopped this answer.")


def test_a_chosen_theme_is_kept(people: People) -> None:
    page = people.somebody(color_scheme="dark")
    dark = page.evaluate("getComputedStyle(document.body).backgroundColor")
    page.get_by_role("button", name="Change the theme").click()
    light = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert light != dark
    page.reload()
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == light


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_first_click_on_the_theme_button_changes_the_theme(people: People, scheme: Any) -> None:
    page = people.somebody(color_scheme=scheme, reduced_motion="reduce")
    colour = "getComputedStyle(document.body).backgroundColor"
    button = page.get_by_role("button", name="Change the theme")
    seen = [page.evaluate(colour)]
    for _ in range(3):
        button.click()
        seen.append(page.evaluate(colour))
    assert seen[1] != seen[0]
    assert seen[2] == seen[3] == seen[0]
    expect(button).to_have_attribute("title", "Change the theme (now: system)")


def test_the_log_in_page_does_not_scroll_sideways(people: People) -> None:
    for how in ({}, PHONE):
        page = people.stranger(**how)
        page.goto(people.gateway.address)
        expect(page.get_by_label("Key", exact=True)).to_be_visible()
        wide = page.evaluate(
            "[document.documentElement, document.body].map((one) => one.scrollWidth - innerWidth)"
        )
        assert max(wide) <= 0


def test_every_icon_button_has_a_name_and_a_tooltip(people: People) -> None:
    page = people.somebody()
    says(page, MARKDOWN)
    expect(page.locator(".markdown blockquote")).to_have_text("Quoted.")
    says(page, "count to 90")
    expect(page.get_by_role("button", name="Stop the answer")).to_be_visible()
    page.get_by_role("button", name="Keyboard shortcuts").click()
    unnamed = page.evaluate(
        """() => [...document.querySelectorAll("button:has(svg)")]
          .filter((one) => !one.querySelector("span")?.innerText && !(one.title && one.ariaLabel))
          .map((one) => one.outerHTML.slice(0, 100))"""
    )
    assert unnamed == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Stop the answer").click()
    expect(page.locator(".note")).to_have_text("You stopped this answer.")


def test_the_button_to_the_end_belongs_to_its_conversation(crowd: People) -> None:
    page = crowd.somebody("/#old-1")
    latest = page.get_by_role("button", name="Go to the latest message")
    expect(page.locator(".bubble").last).to_be_in_viewport()
    page.locator("#scroll").evaluate("scroll => scroll.scrollTo(0, 0)")
    expect(latest).to_be_visible()
    page.get_by_role("button", name="New chat").click()
    expect(page.get_by_role("heading", name="What can I do for you?")).to_be_visible()
    expect(latest).to_be_hidden()


def test_a_failed_command_has_no_green_tick(crowd: People) -> None:
    page = crowd.somebody("/#old-3")
    tools = page.locator(".tool")
    expect(tools).to_have_count(3)
    for number, (status, said) in enumerate(
        (("exited", "exit code 3"), ("ok", ""), ("exited", "exit code 1"))
    ):
        expect(tools.nth(number)).to_have_attribute("data-status", status)
        expect(tools.nth(number).locator(".tool-spent")).to_have_text(said)
        expect(tools.nth(number).locator(".icon-check")).to_have_count(int(status == "ok"))
    expect(tools.first.locator("summary")).to_contain_text("ended with a non-zero exit code")
    has_no_serious_trouble(page)
    picture(page, "exit-codes")


def test_the_page_works_on_a_phone(people: People) -> None:
    page = people.somebody(**PHONE)
    page.get_by_label("Message", exact=True).fill("danger")
    page.get_by_role("button", name="Send").tap()
    expect(page.get_by_role("button", name="Allow once")).to_be_visible()
    has_no_serious_trouble(page)
    picture(page, "phone-approval")
    for name in ("Allow once", "Deny", "Send", "Stop the answer", "Show conversations"):
        box = page.get_by_role("button", name=name, exact=True).bounding_box()
        assert box is not None
        assert min(box["height"], box["width"]) >= 44, name
    page.get_by_role("button", name="Deny").tap()
    expect(page.locator(".tool")).to_have_attribute("data-status", "error")
    page.get_by_label("Message", exact=True).fill(MARKDOWN)
    page.get_by_role("button", name="Send").tap()
    expect(page.locator(".markdown blockquote")).to_be_visible()
    picture(page, "phone-chat")
    page.get_by_role("button", name="Show conversations").tap()
    expect(page.locator("#sidebar")).to_be_visible()
    has_no_serious_trouble(page)
    page.wait_for_timeout(300)  # the list moves in
    picture(page, "phone-list")
    page.get_by_role("button", name="New chat").tap()
    expect(page.locator("#sidebar")).to_be_hidden()
    expect(page.get_by_role("heading", name="What can I do for you?")).to_be_visible()
    wide = page.evaluate("document.documentElement.scrollWidth - innerWidth")
    assert wide <= 0, "no element is too wide"


def test_a_growing_message_field_keeps_the_end_of_the_answer_in_view(people: People) -> None:
    page = people.somebody(**PHONE)
    page.get_by_label("Message", exact=True).fill("count to 90")
    page.get_by_role("button", name="Send").tap()
    expect(page.locator(".markdown")).to_contain_text("2")
    page.evaluate(
        """() => {
          document.getElementById("transcript").style.paddingTop = "800px";  // a long answer
          const scroll = document.getElementById("scroll");
          scroll.scrollTo(0, scroll.scrollHeight);
          const field = document.getElementById("composer");
          field.value = "one\\ntwo\\nthree\\nfour";
          field.dispatchEvent(new Event("input"));
        }"""
    )
    expect(page.locator(".markdown")).to_contain_text("5")
    expect(page.locator("#latest")).to_be_hidden()
    expect(page.locator(".working")).to_be_in_viewport()
    page.locator("#scroll").evaluate("scroll => scroll.scrollTo(0, 0)")
    expect(page.locator("#latest")).to_be_visible()
    page.locator("#latest").tap()
    expect(page.locator("#latest")).to_be_hidden()


# --- a thousand conversations ------------------------------------------------------------------------


COMMANDS = (
    "boom\n[exit code 3]",
    "[exit code 0; now in /tmp]",
    "[exit code 1: nothing was found; now in /tmp]",
)


def a_thousand(home: Path) -> None:
    """Fill a home with numbered conversations. One of them has a thousand messages."""

    def add(db: Db) -> None:
        for number in range(1000):
            source, at = source_of(f"old-{number}"), World().time() - number * 3600
            entry = SessionEntry(
                session_key=f"agent:main:api:dm:old-{number}",
                session_id=f"old-{number}",
                created_at=at,
                updated_at=at,
                origin=source,
                display_name=f"Conversation number {number}",
                platform="api",
                chat_type="dm",
            )
            sessions.add(db, entry)
        for number in range(1000):
            said = TranscriptRow("user", f"Message {number}", World().time() - 1000 + number)
            transcript.append(db, "old-1", said)
        transcript.append(db, "old-3", TranscriptRow("user", "Run these", World().time() - 10))
        calls = tuple(ToolCall(f"c{one}", "terminal", f'{{"command": "step {one}"}}') for one in range(3))
        transcript.append(db, "old-3", TranscriptRow("assistant", "", World().time() - 9, tool_calls=calls))
        for call, result in zip(calls, COMMANDS, strict=True):
            row = TranscriptRow(
                "tool", result, World().time() - 8, tool_call_id=call.id, tool_name="terminal"
            )
            transcript.append(db, "old-3", row)

    async def fill() -> None:
        async with open_database(home / "gateway.db", World()) as database:
            await database.write(add)

    trio.run(fill)


@pytest.fixture
def crowd(browser: Browser, tmp_path: Path) -> Iterator[People]:
    with gateway_in(tmp_path, before=a_thousand) as gateway:
        people = People(browser, gateway)
        yield people
        people.leave()


def test_the_page_handles_a_thousand_conversations(crowd: People) -> None:
    page = crowd.somebody()
    expect(page.locator(".row")).to_have_count(1000)
    expect(page.locator(".row-head").first).to_have_text("Today")
    expect(page.locator(".row-head").last).to_have_text("Older")
    picture(page, "thousand")
    search = page.locator("#search")
    took = search.evaluate(
        "field => { const began = performance.now(); field.value = 'number 77'; "
        "field.dispatchEvent(new Event('input')); return performance.now() - began; }"
    )
    expect(page.locator(".row")).to_have_count(19)
    assert took < 2000, "typing does not wait for the search"
    says(page, "something about a zebra")
    expect(page.locator(".parts")).to_have_text("You said: something about a zebra")
    search.fill("zebra")
    expect(page.locator(".row").first).to_contain_text("something about a zebra")
    search.fill("")
    page.get_by_role("button", name="New chat").click()
    search.fill("said zebra")
    expect(page.locator(".row-said")).to_contain_text("You said: something about a zebra")
    search.press("Enter")
    expect(page.locator("#title")).to_have_text("something about a zebra")


def test_the_page_handles_a_long_conversation(crowd: People) -> None:
    page = crowd.somebody("/#old-1")
    expect(page.locator(".bubble").last).to_have_text("Message 999")
    expect(page.locator(".bubble").last).to_be_in_viewport()
    expect(page.locator(".bubble")).to_have_count(120)
    higher = page.evaluate("document.documentElement.scrollHeight - innerHeight")
    assert higher <= 0, "only the messages scroll, not the window"
    top = page.locator(".bubble", has_text="Message 880")
    top.scroll_into_view_if_needed()
    page.get_by_role("button", name="Show earlier messages (880)").click()
    expect(page.locator(".bubble")).to_have_count(360)
    expect(top).to_be_in_viewport()
