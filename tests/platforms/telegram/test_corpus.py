"""A long way for a text: cut into messages, written anew for Telegram, and read there. Whatever a model
writes, each message fits and is well formed, and nothing of it is lost on the way.

The corpus (not named `.md`, for formatters would mend it) holds what is hard, and beside each text what
becomes of it: what Telegram is sent, message by message, with the room that it usually has and with very
little. `GOLDEN=write` writes that down anew.
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
from hermes_platforms.telegram.telegram_link import TRAITS
from hermes_platforms.telegram.testing import BotApi
from hermes_platforms.telegram.testing.bot_api_entities import parse_markdown_v2, utf16_length
from hermes_trio.gateway.outbound.split import chunks
from hermes_trio.platform.contract import Outgoing, Traits

CORPUS = Path(__file__).parent / "corpus"
NAMES = sorted(path.stem for path in CORPUS.glob("*.txt"))
LITTLE = Traits(limit=160, counting="utf-16")
FENCE = re.compile(r"[ \t]*(`{3,}|~{3,})[^\n]*")

bounded = settings(max_examples=200, deadline=None, derandomize=True, database=None)


def text_of(name: str) -> str:
    return (CORPUS / f"{name}.txt").read_bytes().decode()


def is_whole(message: str) -> bool:
    """Whether every fence that is opened in it is closed in it."""
    mark = ""
    for line in message.split("\n"):
        fence = FENCE.fullmatch(line)
        if fence and not mark:
            mark = fence[1]
        elif mark and line.strip() == mark:
            mark = ""
    return not mark


def arrives(text: str, traits: Traits) -> list[str]:
    """What people see of it, message by message. Raises what the server would say to a message that is
    not well formed."""
    messages = chunks(text, traits)
    for message in messages:
        assert utf16_length(message) <= traits.limit
    return [parse_markdown_v2(to_markdown_v2(message))[0] or message for message in messages]


def words(text: str) -> list[str]:
    return re.findall(r"w\d+|😀|漢", text)


@pytest.mark.parametrize("name", NAMES)
def test_what_becomes_of_the_corpus_is_known(name: str) -> None:
    golden, now = CORPUS / f"{name}.golden", []
    for traits in (TRAITS, LITTLE):
        messages = chunks(text_of(name), traits)
        for number, message in enumerate(messages, 1):
            now += [f"===== {number} of {len(messages)}, limit {traits.limit}", to_markdown_v2(message)]
    written = "\n".join(now) + "\n"
    if os.environ.get("GOLDEN") == "write":
        golden.write_bytes(written.encode())
    assert golden.read_bytes().decode() == written


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("traits", [TRAITS, LITTLE], ids=["usual", "little"])
def test_telegram_takes_the_corpus_and_each_message_stands_alone(name: str, traits: Traits) -> None:
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
def test_whatever_is_written_fits_and_is_well_formed(text: str) -> None:
    arrives(text, LITTLE)
    arrives(text, TRAITS)


@bounded
@given(TEXTS)
def test_no_word_is_lost_and_none_comes_twice(text: str) -> None:
    # Behind an opening fence stands the name of a language, which is shown in another way.
    text = re.sub(r"(```|~~~).*", r"\1", text)
    assert words("\n".join(arrives(text, LITTLE))) == words(text)


def number_is_in_code(message: str) -> bool:
    """Whether what the message says of itself has fallen into a block of code."""
    shown, entities = parse_markdown_v2(to_markdown_v2(message))
    number = utf16_length(shown[: shown.rindex("(")])
    return any(one.kind == "pre" and one.offset <= number < one.offset + one.length for one in entities)


@bounded
@given(TEXTS)
def test_in_every_message_the_fences_are_closed(text: str) -> None:
    messages = chunks(text, LITTLE)
    assert all(map(is_whole, messages[:-1]))


@pytest.mark.parametrize("indent", ["", "  ", "   ", "     "])
@pytest.mark.parametrize("lines", range(1, 12))
def test_code_in_a_list_is_closed_where_it_was_opened(lines: int, indent: str) -> None:
    mark = "- " if len(indent) < 3 else "1. " if len(indent) == 3 else "- a\n  1. "
    code = "".join(f"{indent}line {number} of the code\n" for number in range(lines))
    text = f"{mark}a list\n{indent}```py\n{code}{indent}```\n{mark}{'and more ' * 20}"
    assert not any(map(number_is_in_code, chunks(text, LITTLE)[:1]))


async def test_the_longest_texts_arrive_whole(telegram: BotApi, bot: TelegramAdapter) -> None:
    async with bot.connect() as link:
        for number, text in enumerate(
            ("😀" * 6000, "a_b " * 3000, "- *x*\n" * 2000, "```\n" + "x = 1\n" * 2000)
        ):
            chat = str(1 + number)
            for message in chunks(text, TRAITS):
                await link.send(Outgoing(chat_id=chat, text=message, key=f"{number}"))
            shown = "".join(telegram.chat(chat).texts)
            for letter in "😀abx1":
                # The numbers of the messages have ones in them.
                assert letter == "1" or shown.count(letter) == text.count(letter)
