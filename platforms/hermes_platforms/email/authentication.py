"""The check that a mail is from the address that it shows. Pure.

Our own server has looked, and has written its results at the top of the mail (`Authentication-Results`, RFC
8601). Results below could be written by the sender. A mail is from its address if DMARC has passed for the
domain of the address, or if SPF or DKIM has passed for this domain or one that belongs to it.
"""

from __future__ import annotations

import re
from email.message import EmailMessage

_COMMENT = re.compile(r"\([^()]*\)")


def is_authentic(mail: EmailMessage, address: str, authserv_id: str) -> bool:
    """Return True if our server says that the mail is from this address. An empty `authserv_id` takes the
    first header, whatever its name: our server writes it above all that it was sent."""
    headers = [str(one) for one in mail.get_all("authentication-results", ())]
    if not headers:
        return False
    for header in headers if authserv_id else headers[:1]:
        name, _, results = _COMMENT.sub(" ", header).partition(";")
        if not authserv_id:
            return _passes(results, _domain(address))
        if name.split()[:1] == [authserv_id]:
            return _passes(results, _domain(address))
    return False


def _passes(results: str, domain: str) -> bool:
    if not domain:
        return False
    for one in results.lower().split(";"):
        method, *properties = one.split()[:1] + one.split()[1:] or [""]
        if not method.endswith("=pass"):
            continue
        values = dict(pair.partition("=")[::2] for pair in properties if "=" in pair)
        match method.removesuffix("=pass"):
            case "dmarc":
                named = values.get("header.from", "")
                if named == domain:
                    return True
            case "spf":
                if _belongs(_domain(values.get("smtp.mailfrom", "")), domain):
                    return True
            case "dkim":
                signer = values.get("header.d") or _domain(values.get("header.i", ""))
                if _belongs(signer, domain):
                    return True
    return False


def _belongs(one: str, domain: str) -> bool:
    """Return True for the domain itself and for those below it."""
    return bool(one) and (one == domain or one.endswith(f".{domain}"))


def _domain(address: str) -> str:
    return address.lower().rpartition("@")[2].strip('"<>')
