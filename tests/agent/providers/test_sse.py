"""Server-sent events: the size of the chunks does not change the decoded events."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.providers.sse import Decoder, EventTooLong, ReceivedEvent
from tests.agent.providers.conftest import bounded

STREAM = (
    b"\xef\xbb\xbfdata: 0\r\n\r\n: a comment\r\n"
    b"event: ping\rdata: 1\r\rdata:two\ndata: lines\n\n"
    b"id: 7\nretry: 10\n\n"
    b'data: {"a": "\xe2\x99\xa5"}\r\n\r\n'
    b"data\n\n"
    b"event: lost\n\n"
    b"data: last"
)
EVENTS = [
    ReceivedEvent("0"),
    ReceivedEvent("1", "ping"),
    ReceivedEvent("two\nlines"),
    ReceivedEvent('{"a": "♥"}'),
    ReceivedEvent(""),
    ReceivedEvent("last"),
]


def decoded(chunks: list[bytes]) -> list[ReceivedEvent]:
    decoder = Decoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)] + decoder.end()


def test_events_are_decoded_as_the_standard_says() -> None:
    assert decoded([STREAM]) == EVENTS


def test_single_bytes_decode_to_the_same_events() -> None:
    assert decoded([STREAM[i : i + 1] for i in range(len(STREAM))]) == EVENTS


@bounded
@given(st.lists(st.integers(0, len(STREAM))))
def test_any_chunks_decode_to_the_same_events(cuts: list[int]) -> None:
    places = [0, *sorted(cuts), len(STREAM)]
    assert decoded([STREAM[a:b] for a, b in pairwise(places)]) == EVENTS


LINES = st.sampled_from([b"data: a", b"data:b", b"event: e", b": c", b"", b"x", b"data", b'{"error": 1}'])
ENDS = st.sampled_from([b"\n", b"\r", b"\r\n"])


@bounded
@given(st.lists(st.tuples(LINES, ENDS)), st.data())
def test_any_stream_in_any_chunks_decodes_to_the_same_events(
    lines: list[tuple[bytes, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(line + end for line, end in lines)
    places = [0, *sorted(data.draw(st.lists(st.integers(0, len(stream))))), len(stream)]
    assert decoded([stream[a:b] for a, b in pairwise(places)]) == decoded([stream])


@bounded
@given(st.lists(st.tuples(LINES, ENDS)))
def test_the_kind_of_line_ends_changes_nothing(lines: list[tuple[bytes, bytes]]) -> None:
    # A CR followed by the LF of an empty line would be one line end, so these are normalised.
    stream = b"".join(line + end for line, end in lines).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    assert (
        decoded([stream.replace(b"\n", b"\r\n")])
        == decoded([stream])
        == decoded([stream.replace(b"\n", b"\r")])
    )


def test_plain_json_in_a_stream_is_an_event() -> None:
    assert decoded([b'{"error": {"code": 400}}\n']) == [ReceivedEvent('{"error": {"code": 400}}')]


@pytest.mark.parametrize("endless", [b"x" * 100, b"data: y\n" * 20, b"data: " + b"z" * 100])
def test_an_endless_line_or_event_is_refused(endless: bytes) -> None:
    def decode() -> None:
        decoder = Decoder(longest=64)
        for i in range(len(endless)):
            decoder.feed(endless[i : i + 1])

    with pytest.raises(EventTooLong):
        decode()


def test_many_short_events_do_not_count_as_one_long_event() -> None:
    decoder = Decoder(longest=64)
    assert len([event for _ in range(100) for event in decoder.feed(b"data: 1\n\n")]) == 100
