"""Signatures of requests: they prove the sender and tell a repeat. The examples of GitHub and of Standard
Webhooks are those of their documentation."""

from __future__ import annotations

import hashlib
import hmac
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_platforms.webhook.signatures import SCHEMES, Scheme, signed, verified

NOW = 1_614_265_330
STANDARD = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def mac(text: str) -> str:
    return hmac.digest(b"a secret", text.encode(), "sha256").hex()


def test_the_example_of_github_is_verified() -> None:
    headers = {
        "x-hub-signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17",
        "x-github-delivery": "one",
    }
    body, secret = b"Hello, World!", "It's a Secret to Everybody"
    name = verified("github", secret, headers, body, NOW)
    assert name == hashlib.sha256(body).hexdigest()
    # The id of the delivery is not signed: who has one request could repeat it under many ids.
    assert verified("github", secret, {**headers, "x-github-delivery": "two"}, body, NOW) == name
    assert verified("github", secret, headers, body + b" ", NOW) is None


def test_the_example_of_standard_webhooks_is_verified_and_ours_is_the_same() -> None:
    name, body = "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}'
    headers = {
        "webhook-id": name,
        "webhook-timestamp": str(NOW),
        "webhook-signature": "v1,bm9ldHUjKzFob2VudXRob2VodWUzMjRvdWVvdW9ldQo= "
        "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    }
    assert verified("standard", STANDARD, headers, body, NOW + 299) == name
    assert verified("standard", STANDARD, headers, body, NOW + 301) is None
    assert verified("standard", STANDARD, {**headers, "webhook-id": "other"}, body, NOW) is None
    ours = signed(STANDARD, name, NOW, body)
    assert ours["webhook-signature"] == headers["webhook-signature"].split()[1]


def test_a_request_of_stripe_is_known_by_the_id_in_its_body() -> None:
    body = json.dumps({"id": "evt_1", "type": "charge.failed"})
    for at in (NOW, NOW + 60):  # a repeat has another time
        headers = {"stripe-signature": f"t={at},v0=x,v1={mac(f'{at}.{body}')}"}
        assert verified("stripe", "a secret", headers, body.encode(), NOW + 60) == "evt_1"
    assert verified("stripe", "a secret", headers, body.encode(), NOW + 600) is None
    forged = {"stripe-signature": headers["stripe-signature"].replace(f"t={NOW + 60}", f"t={NOW + 500}")}
    assert verified("stripe", "a secret", forged, body.encode(), NOW + 500) is None


def test_a_request_of_an_own_program_is_known_by_its_signature() -> None:
    right = mac(f"{NOW}.hello")
    headers = {"x-webhook-timestamp": str(NOW), "x-webhook-signature-v2": right}
    assert verified("hmac", "a secret", headers, b"hello", NOW - 299) == right
    assert verified("hmac", "another secret", headers, b"hello", NOW) is None


@pytest.mark.parametrize("scheme", SCHEMES)
@given(
    headers=st.dictionaries(
        st.sampled_from(
            [
                *("x-hub-signature-256", "stripe-signature", "webhook-id", "webhook-timestamp"),
                *("webhook-signature", "x-webhook-timestamp", "x-webhook-signature-v2"),
            ]
        ),
        st.text(max_size=40) | st.sampled_from(["sha256=", "t=1,v1=", "v1,", str(NOW), "²", "9" * 5000]),
    ),
    body=st.binary(max_size=40),
)
def test_what_is_not_signed_is_refused_and_raises_nothing(
    scheme: Scheme, headers: dict[str, str], body: bytes
) -> None:
    assert verified(scheme, "a secret", headers, body, NOW) is None
