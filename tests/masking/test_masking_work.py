# ruff: noqa: E501 - a table of texts as they come
"""Masking takes time in proportion to the text, also for texts that were made to be slow."""

from __future__ import annotations

import itertools
import time

import pytest

from hermes_trio.masking.redaction import redactor

redact = redactor(iter(()))

HOSTILE = [
    "a", "1", "A", "-", "/", "\\", '"', "'", "=", ":", "@", " ", "\n", "token-", "token", "token=",
    "token: ", 'token="', "token='", 'token=\\"', 'token="\\"', "password:\n", "eyJ", "eyJ-", "eyJa.",
    "-----BEGIN ", "-----BEGIN PRIVATE KEY-----", "-----END PRIVATE KEY-----", "-----END ", "sk-", "ghp_",
    "xoxb", "hf_", "hf_a-", "npm_.", "://", "://a:", "://a@", "a://b:c/", "curl ", "curl -u a:",
    "login a password ", "authorization: ", "authorization: a,b=", "cookie: ", "cookie:a=", "bearer ",
    "basic ", "<password>", "<a", "<token", "--token ", "--a-", "mfa.", "1:", "AC", "pub0", "0a", "M.",
    "8Q~", "a8Q~", "pat1", "A0", "EAA", "key-", "password", "pass_", "sig=", "SharedAccessKey", "export A=",
    "\nPASSWORD=", "api_", "api key", "private-lines: 9\n", "docker login ", "docker login -p ", "mysql -p", "sshpass ",
    "redis-cli ", "ldapsearch -w ", "smbclient ", "htpasswd -b x ", "wget --user a:", "pass:", "identified by '",
    "password '", "machine a ", "\ta\tTRUE", "a:1234:", "a:1:b:c:", "x\n\n", '"kty" "d": ', "jdbc:oracle:thin:a/",
    "hooks.slack.com/services/", "authorization, '", "authorization', '", "set -x ", "setenv token ", "define('",
    "mnemonic ", "mnemonic abandon ", "seed phrase ", "_KEY=", "?key=", "&code=", "sessionid=", "key", "pass", "sig",
    'name":"token","value":', "token,", 'name="token"\n\n', "<key>token</key>", "token is ", "password is a1",
    "token%3D", "token: >-\n ", "$6$", "$2b$aaaa", "$", "LS0tLS1CRUdJTi", "sk.eyJ", "sl.", "1/1", "t1.a", "A3-", "pat.",
    "oauth:", "%", "~", "|", ".", "\t", "K", "5", "key1", "1234567890123|", "\\\"", "İtoken=",
]  # fmt: skip


def _seconds(text: str) -> float:
    began = time.process_time()
    redact(text)
    return time.process_time() - began


@pytest.mark.parametrize("unit", HOSTILE, ids=repr)
def test_masking_time_grows_linearly(unit: str) -> None:
    """Four times the text takes about four times as long, not sixteen times. The bound leaves room for a busy
    machine, but not for quadratic time."""
    short, long = (unit * (size // len(unit)) for size in (50_000, 200_000))
    assert _seconds(long) < 9 * min(_seconds(short) for _ in range(3)) + 0.5


def test_masking_pairs_of_hostile_texts_takes_no_quadratic_time() -> None:
    for one, other in itertools.islice(itertools.product(HOSTILE, HOSTILE), 0, None, 211):
        for text in ((one + other) * 4000, one * 9000 + other * 9000):
            assert _seconds(text) < 3, (one, other)
