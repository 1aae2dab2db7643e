"""Questions of `hermes-trio setup webhook`."""

from __future__ import annotations

from hermes_trio.platform import Question

from . import SHORTEST_SECRET
from .signatures import SCHEMES


def _scheme(answer: str) -> str:
    if answer.strip() not in SCHEMES:
        raise ValueError(f"Write one of {', '.join(SCHEMES)}.")
    return answer.strip()


def _secret(answer: str) -> str:
    if len(answer.strip()) < SHORTEST_SECRET:
        raise ValueError(f"Use {SHORTEST_SECRET} characters or more, such as `openssl rand -hex 24` writes.")
    return answer.strip()


QUESTIONS = [
    Question(
        key="scheme",
        ask="How the caller signs: github, stripe, standard or hmac",
        help="GitHub, Gitea: github. Stripe: stripe. Standard Webhooks, Svix: standard. Your own: hmac.",
        default="github",
        check=_scheme,
    ),
    Question(
        key="secret",
        ask="Secret that the caller signs with",
        help="The same text as at the caller. The address is /webhooks/default on 127.0.0.1:8644.",
        variable="WEBHOOK_SECRET",
        check=_secret,
    ),
]
