"""Ids that are accepted, and ids that would leave a directory or break a key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.errors import GatewayError, InvalidId
from hermes_trio.base.ids import path_safe_id, session_key


@pytest.mark.parametrize(
    "value",
    [
        "a",
        "20261118_101500_ab12cd",
        "run-7.jsonl",
        "_private",
        "9" * 128,
        "console",
        "com10",
        "v1.2",
    ],
)
def test_an_id_that_can_name_a_file_is_taken_as_it_is(value: str) -> None:
    assert path_safe_id(value) == value


@pytest.mark.parametrize(
    "value",
    [
        "",
        "a" * 129,
        ".hidden",
        "-rf",
        "..",
        "a..b",
        "../../etc/passwd",
        "a/b",
        "a\\b",
        "C:",
        "ends.",
        "two words",
        "line\nbreak",
        "line\n",
        "nul\0byte",
        "ümlaut",
        "٣",
        "nul",
        "CON",
        "com1.jsonl",
        None,
        7,
        b"bytes",
    ],
)
def test_an_id_that_cannot_name_a_file_everywhere_is_refused(value: object) -> None:
    with pytest.raises(InvalidId):
        path_safe_id(value)


@given(st.text(alphabet="ab0._-/\\: \n", max_size=6))
def test_an_accepted_id_stays_in_its_directory(value: str) -> None:
    try:
        name = path_safe_id(value)
    except InvalidId:
        return
    assert not set(name) & set("/\\: \n")
    assert name not in {"", ".", ".."}
    assert not name.startswith("-")


@pytest.mark.parametrize(
    "value",
    [
        "agent:main:telegram:dm:42",
        "agent:main:googlechat:group:spaces/AAA",
        "agent:main:matrix:group:!room%3Aserver",
        "k" * 512,
    ],
)
def test_a_session_key_may_have_separators_inside(value: str) -> None:
    assert session_key(value) == value


@pytest.mark.parametrize(
    "value",
    ["", "k" * 513, "/etc", "\\\\host\\share", "C:\\x", "c:/x", "a:..:b", "a\nb", "a\0b", None, 7],
)
def test_a_session_key_that_leaves_its_place_is_refused(value: object) -> None:
    with pytest.raises(InvalidId):
        session_key(value)


def test_a_refused_id_is_named_with_the_rule() -> None:
    with pytest.raises(InvalidId, match=r"run id '\.\.' is refused: .+\.$") as refused:
        path_safe_id("..", "run id")
    assert (refused.value.what, refused.value.value) == ("run id", "..")
    assert isinstance(refused.value, GatewayError)
    assert isinstance(refused.value, ValueError)
