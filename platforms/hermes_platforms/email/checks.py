"""Checks of `hermes-trio doctor email`: the steps from the password to the first answer. Nothing is sent, and
no mail is marked as read."""

from __future__ import annotations

from collections.abc import Iterator

from hermes_trio import PlatformConfig
from hermes_trio.platform import Finding

from ..http_calls import NoAnswer, NotReached
from . import settings_of
from .imap import ImapConnection, ImapLost, ImapRefused, LoginRefused, open_imap
from .parsing import Refusal, read
from .settings import EmailSettings
from .smtp import Denied, Submissions

SETUP = "hermes-trio setup email"
MOST_LOOKED_AT = 5
PASSWORD = f"Run `{SETUP}` with the password for apps that your service gives out, and allow IMAP there."


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the steps in order, and stop at the first one without which the later ones cannot work."""
    settings = settings_of(platform)
    try:
        async with open_imap(settings) as imap:
            await imap.select(to_read=True)
            waiting = [*await _waiting(imap, settings)]
    except LoginRefused as no:
        return [Finding("problem", f"the IMAP server refuses the password ({no})", PASSWORD)]
    except (ImapLost, ImapRefused, OSError) as error:
        where = f"{settings.imap_host}:{settings.imap_port}"
        remedy = f"See that {where} is the IMAP server of {settings.address}, and can be reached from here."
        return [Finding("problem", f"the mailbox cannot be read ({error})", remedy)]
    return [
        Finding("ok", f"the mailbox of {settings.address} can be read"),
        await _smtp(settings),
        *waiting,
        *_who_may(settings),
    ]


async def _smtp(settings: EmailSettings) -> Finding:
    try:
        await Submissions(settings).check()
    except Denied as no:
        return Finding("problem", f"the SMTP server refuses the login ({no})", PASSWORD)
    except (NotReached, NoAnswer) as error:
        where = f"{settings.smtp_host}:{settings.smtp_port}"
        remedy = f"See that {where} takes mail of this address; some services have port 587 only."
        return Finding("problem", f"mail cannot be sent ({error})", remedy)
    return Finding("ok", "the SMTP server takes our mail")


async def _waiting(imap: ImapConnection, settings: EmailSettings) -> Iterator[Finding]:
    """Tell what would become of the newest unread mail."""
    unread = await imap.search("UNSEEN")
    findings = [Finding("ok", f"unread mail: {len(unread)}")]
    for uid in unread[-MOST_LOOKED_AT:]:
        data = await imap.fetch(uid, "HEADER")
        found = None if data is None else read(data, str(uid), settings, "email", "main")
        if isinstance(found, Refusal) and found.why != "it is empty":  # only its head was read
            findings.append(Finding("ok", f"unread mail {uid} would not be answered: {found.why}"))
    return iter(findings)


def _who_may(settings: EmailSettings) -> Iterator[Finding]:
    yield Finding("ok", f"mail is read from {', '.join(sorted(settings.allow_from))}")
    if settings.trust_from:
        remedy = "Remove trust_from, if your server writes authentication results."
        yield Finding("warning", "every sender address is believed, and anybody can write one", remedy)
    yield Finding("ok", f"for the first answer, run `hermes-trio run` and write to {settings.address}")
