"""Getting to the page: with the key, with a link, and by an address that leads nowhere."""

from __future__ import annotations

import subprocess

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import KEY, People, picture
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
