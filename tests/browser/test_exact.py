"""The page shows exactly what an approval allows: each character of it can be read in the document."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import pytest
import trio
from hypothesis import given, settings
from playwright.sync_api import Page

from hermes_trio.gateway.turn.open_question import OpenQuestion, request_event
from hermes_trio.tools.tool import Approval
from tests.browser.conftest import People, gateway_in
from tests.gateway.turns.test_exact import GRANTS, LONG, TEXTS, original

pytestmark = pytest.mark.timeout(240)
"""A browser is slow on a slow machine."""

SHOWN = """async (ask) => {
  const { Ask } = await import("/page/chat.js");
  const { element } = new Ask({ id: "1", kind: "approval", text: ask.command, until: 0, ...ask });
  document.body.append(element);
  const parts = [".ask-command", ".ask-cwd", ".ask-grants"].map((one) => element.querySelector(one));
  const blocks = parts.filter((one) => one?.matches("pre"));
  const isWhole = (one) => one.scrollHeight <= one.clientHeight + 1 && one.scrollWidth <= one.clientWidth + 1;
  const whole = blocks.every(isWhole);
  const texts = parts.map((one) => one?.innerText ?? "");
  const elements = parts.some((one) => one?.childElementCount);
  element.remove();
  return { texts, whole, elements };
}"""


@pytest.fixture(scope="module")
def page(browser: object, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with gateway_in(tmp_path_factory.mktemp("gateway")) as gateway:
        people = People(browser, gateway)  # type: ignore[arg-type]
        yield people.somebody()
        people.leave()


async def event_of(asked: Approval) -> object:
    return msgspec.to_builtins(request_event(OpenQuestion("1", "approval"), asked))


def test_the_page_shows_the_command_its_directory_and_its_grants_exactly(page: Page) -> None:
    @settings(max_examples=150)
    @given(TEXTS | LONG, TEXTS, GRANTS)
    def check(command: str, cwd: str, grants: tuple[str, ...]) -> None:
        shown = page.evaluate(SHOWN, trio.run(event_of, Approval(command, "Why.", cwd, grants=grants)))
        command_shown, cwd_shown, grants_shown = shown["texts"]
        assert original(command_shown) == command
        assert original(cwd_shown) == cwd
        assert tuple(map(original, grants_shown.split("\n") if grants else ())) == grants
        assert shown["whole"], "nothing has to be scrolled to be seen"
        assert not shown["elements"], "no part of it became markup"

    check()
