"""Getting to the page: with the key, with a link, and by an address that leads nowhere."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import KEY, People, gateway_in, picture
from tests.machine import HERMES, environment

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""


def test_a_browser_without_a_cookie_is_asked_for_the_key(people: People) -> None:
    page = people.stranger()
    page.goto(people.gateway.address)
    expect(page.get_by_label("Key", exact=True)).to_be_focused()
    picture(page, "login")
    page.get_by_label("Key", exact=True).fill("wrong")
    people.astray = True  # a browser reports refused requests in its console
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_have_text("The key is wrong.")
    page.get_by_label("Key", exact=True).fill(KEY)
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="What can I do for you?")).to_be_visible()
    picture(page, "empty")


def test_a_link_leads_to_the_page_once(people: People) -> None:
    link = people.gateway.link
    page = people.stranger()
    page.goto(link)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    page.goto(link)  # the used link, in a browser that is logged in
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    people.astray = True
    late = people.stranger()
    late.goto(link)
    expect(late.get_by_text("This link was used before")).to_be_visible()
    expect(late.get_by_label("Key", exact=True)).to_be_visible()


def test_the_link_command_prints_a_link_to_the_page(people: People) -> None:
    environ = environment(people.gateway.home)
    done = subprocess.run([*HERMES, "link"], env=environ, check=True, capture_output=True, text=True)
    page = people.stranger()
    page.goto(done.stdout.strip())
    expect(page.get_by_label("Message", exact=True)).to_be_visible()
    expect(page.locator("#status-text")).to_have_text("Ready")


def test_a_link_followed_from_another_page_leads_to_the_page(people: People) -> None:
    page = people.stranger(storage_state=people.gateway.let_in())
    page.goto(f"http://localhost:{people.gateway.port}")
    expect(page.get_by_label("Key", exact=True)).to_be_visible()
    page.evaluate("address => { location.href = address; }", people.gateway.address)
    expect(page.get_by_label("Message", exact=True)).to_be_visible()


def test_the_address_of_an_unknown_conversation_says_so(people: People) -> None:
    people.astray = True
    for path in ("/#gone", "/#%zz"):
        page = people.somebody(path)
        expect(page.get_by_role("heading", name="There is no such conversation")).to_be_visible()


def test_the_page_warns_while_nothing_confines_the_commands_of_the_agent(
    browser: Browser, tmp_path: Path
) -> None:
    def unconfined(home: Path) -> None:
        with (home / "config.yaml").open("a") as config:
            config.write("terminal: {sandbox: off}\n")

    with gateway_in(tmp_path, before=unconfined) as gateway:
        people = People(browser, gateway)
        banner = people.somebody().locator("#banner")
        expect(banner).to_have_text(
            "No sandbox confines the commands of the agent. Remove terminal.sandbox: off from config.yaml."
        )
        picture(people.somebody(), "unconfined")
        people.leave()


def test_the_page_does_not_warn_of_a_sandbox(people: People) -> None:
    page = people.somebody()
    expect(page.locator("#status-text")).to_have_text("Ready")
    expect(page.locator("#banner")).to_be_hidden()
