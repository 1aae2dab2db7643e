"""Known secrets are masked in a text that arrives in pieces, and the rest is shown at once."""

from __future__ import annotations

import re
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.masking.redaction import KnownSecrets, Masking, SecretStream

SECRETS = ["swordfish-4711", "sword-of-7-kings", "sword-of", "fish-4711-fish", "line one 1\nand line two 2"]
MASKING = Masking.of(SECRETS)


def shown(pieces: list[str]) -> str:
    stream = SecretStream(KnownSecrets(MASKING))
    return "".join([stream.feed(piece) for piece in pieces] + [stream.feed("", ends=True)])


def cut(text: str, places: list[int]) -> list[str]:
    edges = [0, *sorted(place % (len(text) + 1) for place in places), len(text)]
    return [text[one:other] for one, other in pairwise(edges)]


@given(
    st.lists(
        st.sampled_from([*SECRETS, " ", "s", "sw", "swo", "fis", "line one", "words, and "]), max_size=8
    ),
    st.lists(st.integers(0, 300), max_size=12),
)
def test_pieces_show_what_the_whole_text_shows(parts: list[str], places: list[int]) -> None:
    """At most two characters of a secret are shown, before it is recognised."""
    text = "".join(parts) + "."
    expected = r"\w{0,2}\*\*\*".join(map(re.escape, MASKING.known(text).split("***")))
    assert re.fullmatch(expected, shown(cut(text, places)))


@given(st.sampled_from(SECRETS), st.integers(1, 12))
def test_no_half_of_a_secret_is_shown_where_the_text_ends(secret: str, size: int) -> None:
    assert len(shown(list(secret[:size]))) < 8


def test_everyday_text_is_not_held_back() -> None:
    stream = SecretStream(KnownSecrets(MASKING))
    for word in ["a", "sword", "and", "some", "fish:", "the", "word", "ends", "in", "sw"]:
        assert stream.feed(f"{word} ") == f"{word} "


def test_a_secret_that_is_learned_during_the_text_is_masked() -> None:
    secrets = KnownSecrets(Masking())
    stream = SecretStream(secrets)
    assert stream.feed("swordf") == "swordf"
    secrets.masking = MASKING
    assert stream.feed(" sword") + stream.feed("fish-4711 ") == " *** "
