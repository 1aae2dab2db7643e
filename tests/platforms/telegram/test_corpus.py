"""Texts on their way to Telegram: split into messages, converted to MarkdownV2, and read by the simulated
parser. Each message of any text fits and is well formed, and no word is lost.

The corpus has difficult texts. (They are not named `.md`, because formatters would change them.) The golden
file of each has the messages that are sent with the classic limit and with a very small one, and the rich
message. `GOLDEN=write`
writes the golden files anew.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.telegram.formatting import to_markdown_v2
from hermes_platforms.telegram.rich import to_rich_html
from hermes_platforms.telegram.telegram_link import CLASSIC, TRAITS
from hermes_platforms.telegram.testing import BotApi
from hermes_platforms.telegram.testing.bot_api_entities import parse_markdown_v2, utf16_length
from hermes_trio.gateway.outbound.split import chunks
from hermes_trio.platform.contract import Outgoing, Traits

CORPUS = Path(__file__).parent / "corpus"
NAMES = sorted(path.stem for path in CORPUS.glob("*.txt"))
LITTLE = Traits(limit=160, counting="utf-16")
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^\n]*")

bounded = settings(max_examples=200)


def text_of(name: str) -> str:
    return (CORPUS / f"{name}.txt").read_bytes().decode()


def is_whole(message: str) -> bool:
    """Return True if a message closes every fence that it opens."""
    mark = ""
    for line in message.split("\n"):
        fence = FENCE.fullmatch(line)
        if fence and not mark:
            mark = fence[1]
        elif mark and line.strip() == mark:
            mark = ""
    return not mark


def arrives(text: str, traits: Traits) -> list[str]:
    """Return the text that people see, message by message. Raises `CannotParse` for a message that is not
    well formed."""
    messages = chunks(text, traits)
    for message in messages:
        assert utf16_length(message) <= traits.limit
    return [parse_markdown_v2(to_markdown_v2(message))[0] or message for message in messages]


def words(text: str) -> list[str]:
    return re.findall(r"w\d+|😀|漢", text)


@pytest.mark.parametrize("name", NAMES)
def test_each_text_of_the_corpus_becomes_its_golden_messages(name: str) -> None:
    golden, now = CORPUS / f"{name}.golden", []
    for traits in (CLASSIC, LITTLE):
        messages = chunks(text_of(name), traits)
        for number, message in enumerate(messages, 1):
            now += [f"===== {number} of {len(messages)}, limit {traits.limit}", to_markdown_v2(message)]
    now += ["===== rich", to_rich_html(text_of(name)) or "(none: it would be refused)"]
    written = "\n".join(now) + "\n"
    if os.environ.get("GOLDEN") == "write":
        golden.write_bytes(written.encode())
    assert golden.read_bytes().decode() == written


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("traits", [CLASSIC, LITTLE], ids=["usual", "little"])
def test_telegram_accepts_each_message_of_the_corpus_by_itself(name: str, traits: Traits) -> None:
    text = text_of(name)
    assert arrives(text, traits)
    messages = chunks(text, traits)
    assert all(map(is_whole, messages[:-1]))


PIECES = [
    *"*_~`|[]()<>!#-+=.{}\\ \n\t",
    *("**", "__", "~~", "```\n", "```py\n", "](http://x.y)", "\n\n", "    ", "\n- ", "\n1. ", "\n> ", "\n# "),
    *("😀", "漢", "\u200d", "\u0301", "&amp;", "<b>"),
]
TEXTS = st.lists(st.sampled_from(PIECES) | st.integers(0, 99).map(lambda n: f" w{n} "), max_size=200).map(
    "".join
)


@bounded
@given(TEXTS)
def test_the_messages_of_any_text_fit_and_are_well_formed(text: str) -> None:
    arrives(text, LITTLE)
    arrives(text, CLASSIC)


@bounded
@given(TEXTS)
def test_each_word_of_any_text_arrives_once(text: str) -> None:
    # The name of a language follows an opening fence. It is not part of the text that people see.
    text = re.sub(r"(```|~~~).*", r"\1", text)
    assert words("\n".join(arrives(text, LITTLE))) == words(text)


def number_is_in_code(message: str) -> bool:
    """Return True if the number at the end of a message is in a block of code."""
    shown, entities = parse_markdown_v2(to_markdown_v2(message))
    number = utf16_length(shown[: shown.rindex("(")])
    return any(one.kind == "pre" and one.offset <= number < one.offset + one.length for one in entities)


@bounded
@given(TEXTS)
def test_every_message_closes_its_fences(text: str) -> None:
    messages = chunks(text, LITTLE)
    assert all(map(is_whole, messages[:-1]))


@pytest.mark.parametrize("indent", ["", "  ", "   ", "     "])
@pytest.mark.parametrize("lines", range(1, 12))
def test_the_number_of_a_message_is_outside_of_code_in_a_list(lines: int, indent: str) -> None:
    mark = "- " if len(indent) < 3 else "1. " if len(indent) == 3 else "- a\n  1. "
    code = "".join(f"{indent}line {number} of the code\n" for number in range(lines))
    text = f"{mark}a list\n{indent}```py\n{code}{indent}```\n{mark}{'and more ' * 20}"
    assert not any(map(number_is_in_code, chunks(text, LITTLE)[:1]))


async def test_very_long_texts_arrive_complete(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        for number, text in enumerate(
            ("😀" * 6000, "a_b " * 3000, "- *x*\n" * 2000, "```\n" + "x = 1\n" * 2000)
        ):
            chat = str(1 + number)
            for message in chunks(text, TRAITS):
                await link.send(Outgoing(chat_id=chat, text=message, key=f"{number}"))
            shown = "".join(telegram.chat(chat).texts)
            for letter in "😀abx1":
                # The numbers of the messages contain ones too.
                assert letter == "1" or shown.count(letter) == text.count(letter)
