"""Secrets are masked however they came into a text, and what is none stays readable."""

from __future__ import annotations

import time

import pytest

from hermes_trio.config import GatewayConfig, ModelConfig, PlatformConfig, WebConfig
from hermes_trio.redaction import redacted, redactor, secrets_of

redact = redactor(iter(()))


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
def test_what_looks_like_a_secret_is_masked(text: str, shown: str) -> None:
    assert redact(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "session 20260520_120000_00000001, run 0b6b8f0c8f4e4c0a9d6f6f5c3b2a1908",
        "agent:main:telegram:dm:123456789",
        "input_tokens: 1234, max_tokens=4096",
        "the keyboard and the monkey; key agent:main:x",
        "https://example.org/a@b",
        "2026-05-20T12:00:00.000000Z",
        "basic things, bearer of news",
        "telegram refused its token. Renew platforms.telegram.token in config.yaml, then restart.",
    ],
)
def test_what_is_none_stays(text: str) -> None:
    assert redact(text) == text


@pytest.mark.parametrize(
    "secret", ["hunter2-hunter2", "p@ss/w rd+1", "quo\"te's\\x", "pässwört", "new\nline12"]
)
def test_a_known_secret_is_masked_in_every_spelling(secret: str) -> None:
    import json
    from urllib.parse import quote, quote_plus

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


def test_what_is_too_short_to_be_known_by_its_text_is_not_searched_for() -> None:
    assert redactor(iter(["is", ""]))("this is it") == "this is it"


def test_the_secrets_of_a_configuration_are_all_that_its_names_tell() -> None:
    platform = PlatformConfig(
        token="t-1", options={"poll": {"hook_url": "h-1", "every": 3}, "signing": ["s-1"]}
    )
    config = GatewayConfig(
        model=ModelConfig(api_key="m-1", name="no secret"),
        web=WebConfig(key="w-1"),
        platforms={"x": platform},
    )
    environ = {"OPENAI_API_KEY": "e-1", "PATH": "/bin", "MAX_TOKENS": "128000", "NO_KEY": ""}
    environ |= {"PWD": "/home/ada/work", "OLDPWD": "/home/ada"}  # of a shell: whoever is asked reads paths
    assert set(secrets_of(config, environ)) == {"t-1", "h-1", "s-1", "m-1", "w-1", "e-1", ""}


def test_fields_are_masked_by_name_and_numbers_stay_numbers() -> None:
    said = {"token": "short", "tokens": 7, "nested": {"password": "x", "n": [1, "sk-abcdefghijk"]}}
    assert redacted(redact, "said", said) == {
        "token": "***",
        "tokens": 7,
        "nested": {"password": "***", "n": [1, "***"]},
    }
    assert redacted(redact, "error", ValueError("Bearer abcdefgh12")) == "Bearer ***"


@pytest.mark.parametrize(
    "text", ["a" * 65536, "token-" * 10000, "eyJ" * 20000, "-----BEGIN " * 6000, "1" * 65536]
)
def test_no_text_takes_long(text: str) -> None:
    began = time.process_time()
    redact(text)
    assert time.process_time() - began < 2
