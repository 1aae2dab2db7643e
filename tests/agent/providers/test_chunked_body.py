"""The body of a response in chunks is decoded as h11 decodes it, however its data is cut."""

from __future__ import annotations

from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.agent.providers.chunked_body import LONGEST_LINE, ChunkedBody

pieces = st.lists(st.binary(min_size=1, max_size=20), max_size=6)
extensions = st.sampled_from([b"", b";a", b";a=b;c"])
trailers = st.sampled_from([b"", b"A: b\r\n", b"A: b\r\nC: d\r\n"])


def encoded(content: list[bytes], extension: bytes = b"", trailer: bytes = b"") -> bytes:
    chunks = (b"%X%b\r\n%b\r\n" % (len(piece), extension, piece) for piece in content)
    return b"".join(chunks) + b"0%b\r\n%b\r\n" % (extension, trailer)


def decoded(data: bytes, cuts: list[int]) -> tuple[bytes, ChunkedBody]:
    """Decode data that arrives cut at these places."""
    body, at = ChunkedBody(), sorted({0, len(data), *(cut % (len(data) + 1) for cut in cuts)})
    found = [body.feed(data[start:end]) for start, end in pairwise(at)]
    return b"".join(found), body


@given(pieces, extensions, trailers, st.lists(st.integers(0, 200)), st.binary(max_size=3))
def test_the_content_is_whole_and_what_follows_is_kept(
    content: list[bytes], extension: bytes, trailer: bytes, cuts: list[int], after: bytes
) -> None:
    found, body = decoded(encoded(content, extension, trailer) + after, cuts)
    assert (found, body.is_over, body.problem, body.rest) == (b"".join(content), True, "", after)


@given(pieces, st.integers(0, 200), st.sampled_from([b"", b"g", b"0", b"\r", b"\n", b"-1", b"0x", b"_"]))
def test_damaged_data_gives_no_other_content_than_h11_finds(
    content: list[bytes], at: int, damage: bytes
) -> None:
    whole = encoded(content)
    at %= len(whole)
    data = whole[:at] + damage + whole[at + 1 :]
    found, body = decoded(data, [])
    theirs, is_over, failed = _by_h11(data)
    assert found == theirs
    assert body.is_over or not is_over
    assert body.is_over or bool(body.problem) == failed  # h11 refuses some trailers, which are dropped here


def _by_h11(data: bytes) -> tuple[bytes, bool, bool]:
    http, found = h11.Connection(h11.CLIENT), b""
    http.send(h11.Request(method="GET", target="/", headers=[("Host", "a")]))
    http.send(h11.EndOfMessage())
    http.receive_data(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + data)
    try:
        while (event := http.next_event()) is not h11.NEED_DATA:
            if isinstance(event, h11.Data):
                found += event.data
            elif isinstance(event, h11.EndOfMessage):
                return found, True, False
    except h11.RemoteProtocolError:
        return found, False, True
    return found, False, False


@pytest.mark.parametrize(
    "data",
    [
        b"2\r\nabc\r\n",
        b"-1\r\n",
        b"0x1\r\na\r\n",
        b"1_0\r\n",
        b"\r\n",
        b"1" * 17 + b"\r\n",
        b"0" * (LONGEST_LINE + 1),
    ],
)
def test_a_fault_is_a_problem(data: bytes) -> None:
    _, body = decoded(data, [])
    assert body.problem
    assert not body.is_over


def test_a_body_without_its_end_has_a_problem_when_the_server_closes() -> None:
    body = ChunkedBody()
    assert body.feed(b"3\r\none\r\n") == b"one"
    assert not body.problem
    assert body.feed(b"") == b""
    assert body.problem
