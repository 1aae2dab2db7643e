"""The schedule on the page and in the terminal: the same jobs, of the same gateway."""

from __future__ import annotations

import re
import subprocess

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import People, picture
from tests.machine import HERMES, environment

pytestmark = pytest.mark.timeout(240)


def hermes(people: People, *arguments: str) -> str:
    """Run a command in the home of the gateway."""
    environ = environment(people.gateway.home)
    done = subprocess.run([*HERMES, *arguments], env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_job_is_added_run_paused_and_removed(people: People) -> None:
    page = people.somebody()
    people.astray = True  # the browser reports the refused job
    page.get_by_role("button", name="Schedule").click()
    dialog = page.get_by_role("dialog", name="Schedule")
    expect(dialog).to_contain_text("Nothing is scheduled.")
    dialog.get_by_label("When").fill("soon")
    dialog.get_by_label("What").fill("water the plants")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("is no time that can be read")
    dialog.get_by_label("When").fill("daily 09:00")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.locator(".jobs li")).to_have_count(1)
    expect(dialog.get_by_label("When")).to_have_value("")
    assert re.fullmatch(r"\w{8}  0 9 \* \* \* .*next .* water the plants\n", hermes(people, "schedule"))
    picture(page, "schedule")
    dialog.get_by_role("button", name="Pause: water the plants").click()
    expect(dialog.locator(".jobs")).to_contain_text("paused")
    dialog.get_by_role("button", name="Resume: water the plants").click()
    expect(dialog.locator(".jobs")).to_contain_text("next")
    dialog.get_by_role("button", name="Run now: water the plants").click()
    expect(page.locator("a.row", has_text="water the plants")).to_have_count(1)
    dialog.get_by_role("button", name="Remove: water the plants").click()
    expect(dialog).to_contain_text("Nothing is scheduled.")
    dialog.get_by_role("button", name="Close").click()
    expect(dialog).to_be_hidden()
    page.locator("a.row", has_text="water the plants").click()
    expect(page.locator(".parts")).to_contain_text("water the plants")


def test_the_terminal_orders_and_removes_a_job(people: People) -> None:
    added = hermes(people, "schedule", "add", "every 2h", "stretch", "--session", "body")
    job = added.split()[0]
    assert "every 2h · next" in added
    assert hermes(people, "schedule", "pause", job) == f"Done: pause {job}\n"
    assert "paused · stretch" in hermes(people, "schedule", "list")
    assert hermes(people, "schedule", "remove", job) == f"Removed: {job}\n"
    assert hermes(people, "schedule") == "Nothing is scheduled.\n"
