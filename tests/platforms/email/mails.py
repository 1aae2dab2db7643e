"""Mails of people, for tests."""

from __future__ import annotations

from email.message import EmailMessage

from hermes_platforms.email.settings import EmailSettings

SETTINGS = EmailSettings(
    address="hermes@home.test",
    password="password-of-nobody",
    imap_host="127.0.0.1",
    smtp_host="127.0.0.1",
    allow_from=frozenset({"ann@people.test"}),
    groups=frozenset({"team@home.test"}),
    authserv_id="mx.home.test",
)
PASSED = "mx.home.test; spf=none; dmarc=pass (p=reject) header.from=people.test"


def mail(text: str = "hello", *, results: str | None = PASSED, **headers: str) -> EmailMessage:
    """Return a mail of Ann. A header that is empty is left out."""
    usual = {
        "From": "Ann <ann@people.test>",
        "To": "hermes@home.test",
        "Message-ID": "<1@people.test>",
        "Date": "Fri, 20 Nov 2026 10:00:00 +0000",
    }
    made = EmailMessage()
    if results is not None:
        made["Authentication-Results"] = results
    for name, value in (usual | {one.replace("_", "-"): value for one, value in headers.items()}).items():
        if value:
            made[name] = value
    made.set_content(text)
    return made
