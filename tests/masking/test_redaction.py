"""Secrets are masked wherever they stand in a text, and the rest stays readable."""

from __future__ import annotations

import json
from urllib.parse import quote, quote_plus

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.masking.redaction import Masking, redacted, redactor
from hermes_trio.masking.secret_names import masked_names
from hermes_trio.masking.secret_places import masked_places
from hermes_trio.masking.secret_tokens import masked_tokens
from tests.masking.everyday_texts import INNOCENT
from tests.masking.fake_secrets import SHAPES, halves, some
from tests.masking.secrets_by_service import TEXTS

redact = redactor(iter(()))
EVERY = SHAPES | TEXTS


@pytest.mark.parametrize(("text", "secret"), EVERY.values(), ids=EVERY)
def test_every_shape_of_a_secret_is_masked(text: str, secret: str) -> None:
    assert secret in text
    for around in ("@", "see:\n@\nend", "(@)", "log: @ (17 ms)"):
        shown = redact(around.replace("@", text, 1))
        assert "***" in shown
        assert secret not in shown
        assert not any(half in shown for half in halves(secret)), shown


@pytest.mark.parametrize(("text", "secret"), EVERY.values(), ids=EVERY)
def test_masking_twice_equals_masking_once(text: str, secret: str) -> None:
    assert redact(redact(text)) == redact(text)


@pytest.mark.parametrize("text", INNOCENT.values(), ids=INNOCENT)
def test_an_innocent_text_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-123", "Authorization: ***"),
        ("'authorization': 'Basic dXNlcjpwYXNz'", "'authorization': '***'"),
        ("sent bearer abcdefgh12", "sent bearer ***"),
        ("sk-proj-abcdefgh1234 was refused", "*** was refused"),
        ("sk-ant-api03-abcdefgh", "***"),
        ("POST /bot123456789:AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw/getMe", "POST /bot***/getMe"),
        ("ghp_abcdefghijklmnop and xoxb-1234-abcdefgh", "*** and ***"),
        ("https://kim:hunter2@example.org/x", "https://***@example.org/x"),
        ("https://example.org/?access_token=hunter2x&page=2", "https://example.org/?access_token=***&page=2"),
        ('{"api_key": "hunter2x", "n": 1}', '{"api_key": "***", "n": 1}'),
        ("password=hunter2x, user=kim", "password=***, user=kim"),
        ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abc_def", "***"),
        ("Cookie: session=abc; other=def\nnext", "Cookie: ***\nnext"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----\nrest", "***\nrest"),
        ("-----BEGIN PRIVATE KEY-----\nMII torn", "***"),
        ("https://hooks.slack.com/services/T0/B0/abc", "https://hooks.slack.com/services/***"),
    ],
)
def test_the_text_around_a_secret_stays_readable(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "secret", ["hunter2-hunter2", "p@ss/w rd+1", "quo\"te's\\x", "pässwört", "new\nline12"]
)
def test_a_known_secret_is_masked_in_every_spelling(secret: str) -> None:
    known = redactor(iter([secret, secret[:7]]))
    for text in (
        secret,
        quote(secret),
        quote(secret, safe=""),
        quote_plus(secret),
        json.dumps(secret),
        repr(secret),
    ):
        assert known(f"<{text}>").strip("<>'\"") == "***"


def test_each_line_of_a_known_secret_is_masked() -> None:
    lines = [some(40), some(40), "}"]
    known = Masking.of(["\n".join(lines)])
    assert known.known(f"1|{lines[0]}\n2|{lines[1]}\n3|{lines[2]}") == "1|***\n2|***\n3|}"


def test_a_secret_that_is_too_short_is_not_searched_for() -> None:
    assert redactor(iter(["is", ""]))("this is it") == "this is it"


def test_fields_are_masked_by_name_and_numbers_stay_numbers() -> None:
    said = {"token": "short", "tokens": 7, "nested": {"password": "x", "n": [1, "sk-abcdefghijk"]}}
    assert redacted(redact, "said", said) == {
        "token": "***",
        "tokens": 7,
        "nested": {"password": "***", "n": [1, "***"]},
    }
    assert redacted(redact, "error", ValueError("Bearer abcdefgh12")) == "Bearer ***"


@given(
    st.from_regex(
        r"[0-9a-f]{1,32}|[0-9]{8}_[0-9]{6}_[0-9a-f]{8}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
        fullmatch=True,
    )
)
def test_nothing_that_looks_like_an_id_looks_like_a_secret(text: str) -> None:
    """`Masking` does not examine ids, so nothing may be missed by that."""
    assert masked_names(masked_tokens(masked_places(text))) == text
