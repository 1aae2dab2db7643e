"""Lines of IRC, and the messages of people in them."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.irc.parsing import Me, ctcp_answer, event_of, hear, matches, person
from hermes_platforms.irc.wire import LONGEST_RECEIVED, Line, LineBuffer, decode, encode, folded

ME = Me("hermes", commands=frozenset({"stop"}))
MASK = "Kim!kim@shell.simulated"


def said(text: str, target: str = "hermes", mask: str = MASK, **tags: str) -> Line:
    return Line("PRIVMSG", (target, text), mask, tags)


@pytest.mark.parametrize(
    ("text", "heard"),
    [
        ("hermes: hello", "hello"),
        ("HERMES, hello", "hello"),
        ("@hermes hello", "hello"),
        ("hermes:", None),
        ("hermestrio: hello", None),
        ("hermes hello", None),
        ("hello hermes", None),
        ("hello", None),
        ("\x02hermes\x02: \x0304,05red\x0f", "red"),
        ("hermes: !stop", "/stop"),
        ("hermes: !stopping", "!stopping"),
        ("hermes: !", "!"),
    ],
)
def test_in_a_channel_only_lines_that_begin_with_our_nick_are_for_us(text: str, heard: str | None) -> None:
    found = hear(said(text, "#Ours"), ME, "1")
    assert (found and found.text) == heard
    assert found is None or (found.chat_id, found.is_direct) == ("#ours", False)


def test_without_mentions_a_channel_is_heard_whole() -> None:
    found = hear(said("hello", "#ours"), Me("hermes", require_mention=False), "1")
    assert found is not None
    assert found.text == "hello"


@pytest.mark.parametrize(
    "line",
    [
        said("\x01VERSION\x01"),
        said("\x01DCC SEND file 1 2 3\x01"),
        said("hello", "somebody"),
        said("hello", mask="hermes!me@here"),
        said("hello", mask="irc.simulated"),
        said("hello", bot=""),
        said(" \x02\x02 "),
        Line("NOTICE", ("hermes", "hello"), MASK),
        Line("PRIVMSG", (), MASK),
        Line("PRIVMSG", ("hermes",), MASK),
    ],
)
def test_what_no_person_says_to_us_is_no_message(line: Line) -> None:
    assert hear(line, ME, "1") is None


def test_an_event_has_the_id_the_time_and_the_person_of_its_line() -> None:
    line = said("hello", msgid="m-1", time="2026-05-20T12:00:00.000Z", account="Kim")
    found = hear(line, ME, "ours")
    assert found is not None
    event = event_of(found, found.account or "", ME, known=("KIM",))
    assert (event.message_id, event.sent_at, event.text) == ("m-1", 1779278400.0, "hello")
    assert (event.source.user_id, event.source.user_name, event.source.chat_id) == ("KIM", "Kim", "kim")
    assert hear(said("hello"), ME, "ours").id == "ours"  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("account", "known", "user_id"),
    [
        ("kim", ("Kim",), "Kim"),
        ("kim", (), "kim"),
        ("", ("kim",), MASK),
        ("", ("*!kim@shell.simulated",), "*!kim@shell.simulated"),
        ("", ("*!kim@*.other",), MASK),
        ("kim", ("*!kim@shell.simulated",), "kim"),
        ("", ("KIM!*@*",), "KIM!*@*"),
        ("a!b@c", ("a!b@c",), MASK),
    ],
)
def test_a_nick_is_no_identity(account: str, known: tuple[str, ...], user_id: str) -> None:
    assert person(MASK, account, known) == user_id


def test_masks_have_wildcards_and_no_other_pattern() -> None:
    assert matches("a[b]!u@h", "A[b]!?@*")
    assert not matches("ab!u@h", "a[b]!*@*")
    assert not matches("ab!u@hx", "*!*@h")
    assert folded("A[\\]^") == "a{|}~"
    assert folded("A[\\]^", "ascii") == "a[\\]^"


def test_clients_may_ask_for_our_version_and_for_nothing_more() -> None:
    assert ctcp_answer(said("\x01VERSION\x01"), ME, "it") == "\x01VERSION it\x01"
    assert ctcp_answer(said("\x01PING 1\x012\x01"), ME, "it") == "\x01PING 12\x01"
    assert ctcp_answer(said("\x01FINGER\x01"), ME, "it") is None
    assert ctcp_answer(said("\x01VERSION\x01", "#ours"), ME, "it") is None


@given(st.lists(st.binary(max_size=60), max_size=8))
def test_no_bytes_of_a_server_raise_an_error(parts: list[bytes]) -> None:
    buffer = LineBuffer()
    for line in [one for part in parts for one in buffer.feed(part)]:
        hear(line, ME, "1")
        ctcp_answer(line, ME, "it")
        assert line.command


@given(st.binary(max_size=200), st.lists(st.integers(0, 200), max_size=5))
def test_lines_do_not_depend_on_how_the_bytes_arrive(data: bytes, cuts: list[int]) -> None:
    whole, parts = LineBuffer(), LineBuffer()
    places = [0, *sorted(cuts), len(data)]
    pieces = [data[start:end] for start, end in pairwise(places)]
    assert [one for part in pieces for one in parts.feed(part)] == list(whole.feed(data))


def test_a_line_that_is_not_taken_is_the_first_one_of_the_next_call() -> None:
    buffer = LineBuffer()
    welcome = next(buffer.feed(b":s 422 hermes :no motd\r\nPING :1\r\nPI"))
    assert [welcome.command, *(one.command for one in buffer.feed(b"NG :2\r\n"))] == ["422", "PING", "PING"]


def test_a_line_without_an_end_takes_no_memory_and_the_next_one_is_read() -> None:
    buffer = LineBuffer()
    for _ in range(100):
        assert not list(buffer.feed(b"x" * LONGEST_RECEIVED))
    assert len(list(buffer.feed(b"\r\nPING :1\r\n"))) == 2


@given(st.text(max_size=80), st.text(max_size=80))
def test_no_text_becomes_a_second_line_or_another_command(target: str, text: str) -> None:
    try:
        raw = encode("PRIVMSG", target, text)
    except ValueError:
        return
    assert raw.count(b"\r\n") == 1
    line = decode(raw)
    assert line is not None
    assert (line.command, len(line.params)) == ("PRIVMSG", 2)


def test_tags_are_read_and_written() -> None:
    raw = encode("PRIVMSG", "a", "b", tags={"label": "x; y\\"})
    assert decode(raw.strip()) == Line("PRIVMSG", ("a", "b"), tags={"label": "x; y\\"})
    assert decode(b"@a;b=;c=\\:\\s\\q;=x :s!u@h X y :z ") == Line(
        "X", ("y", "z "), "s!u@h", {"a": "", "b": "", "c": "; q", "": "x"}
    )


def test_a_text_that_is_cut_within_a_character_and_one_of_an_old_client_are_read() -> None:
    assert decode("PRIVMSG a :grü".encode()[:-1] + b"\r").param(1) == "gr\ufffd"  # type: ignore[union-attr]
    assert decode(b"PRIVMSG a :gr\xfc\xdfe euch").param(1) == "grüße euch"  # type: ignore[union-attr]
