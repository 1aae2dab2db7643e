"""`hermes-trio setup telegram --simulate`: a chat in the terminal with a simulated Telegram."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
import trio

from hermes_platforms.telegram.trial import open_trial
from hermes_trio.cli.subcommands.platform_trial import ChatView, run_trial
from hermes_trio.config.config_file import load_config
from hermes_trio.platform import TrialMessage

pytest.importorskip("markdown_it")


class Person:
    """A keyboard: each line is typed once the screen shows what the person waits for."""

    def __init__(self, screen: io.StringIO, *lines: tuple[str, str]) -> None:
        self._screen, self._lines = screen, list(lines)

    async def read(self) -> str | None:
        if not self._lines:
            return None
        pattern, line = self._lines.pop(0)
        while not re.search(pattern, self._screen.getvalue()):  # noqa: ASYNC110
            await trio.sleep(0.02)
        return line


async def trial(tmp_path: Path, *lines: tuple[str, str]) -> str:
    """Run a trial with these lines, and return the screen."""
    screen = io.StringIO()
    loaded = load_config(tmp_path / "home", {})
    with trio.fail_after(45):
        await run_trial(loaded, open_trial, Person(screen, *lines), screen)
    return screen.getvalue()


@pytest.fixture(autouse=True)
def state_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


async def test_a_user_talks_to_the_gateway_without_a_bot(tmp_path: Path) -> None:
    screen = await trial(
        tmp_path,
        ("Ctrl-D", "[nothing]"),
        ("no button", "hello"),
        ("I am the demo", "/status"),
        ("Session", ""),
    )
    assert "There is no button [nothing]." in screen
    assert screen.count("I am the demo") == 1, "the draft and the message are printed once"
    assert not (tmp_path / "home").exists(), "nothing is written to the home of the user"


def shown(text: str, *buttons: str, number: str = "1") -> TrialMessage:
    return TrialMessage(id=number, text=text, buttons=buttons)


def draft(text: str) -> TrialMessage:
    return TrialMessage(id="draft 7", text=text, is_draft=True)


@pytest.mark.parametrize("grows", [[[draft("")], [draft("It")], [shown("…")]], [[shown("…")], [shown("It")]]])
def test_a_growing_answer_is_printed_once(grows: list[list[TrialMessage]]) -> None:
    view = ChatView("…")
    whole = [shown("It grows."), shown("Really?", "Yes", "No", number="2")]
    out = "".join(view.news(messages) for messages in [*grows, whole[:1], whole, whole])
    assert out == "\nIt grows.\nReally?\n[Yes] [No]"
