"""Email: a mailbox by IMAP, and mail sent by SMTP.

adapter          connects a mailbox
email_link       sends and receives
mailbox          unread mail, one after another
imap             an IMAP connection
smtp             the submission of a mail, and its outcome
composing        a message as a mail                                  pure
parsing          a mail to an event                                   pure
authentication   whether a mail is from the address that it shows     pure
readable         the text of a mail                                   pure
settings         the settings of a mailbox, and its connections
setup            questions of `hermes-trio setup email`
checks           checks of `hermes-trio doctor email`
trial            a trial without a mailbox
testing          a mail server for tests
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from hermes_trio import ConfigInvalid, PlatformConfig

from ..options import check_people, is_this_machine, switch
from .settings import ADDRESS, EmailSettings

if TYPE_CHECKING:
    from .adapter import EmailAdapter


STARTTLS_PORT = 587


def from_config(platform: PlatformConfig) -> EmailAdapter:
    """Return the adapter for `platforms.email` of a configuration."""
    from .adapter import EmailAdapter

    return EmailAdapter(settings_of(platform))


def settings_of(platform: PlatformConfig) -> EmailSettings:
    """Return the settings of a configuration. Raises `ConfigInvalid` for values that cannot work."""
    options = platform.options
    address = _text(options, "address").lower()
    if not is_address(address):
        raise _invalid("address", "it is no address of mail", "Write it like hermes@example.org.")
    password = _text(options, "password")
    if not password:
        remedy = "Run `hermes-trio setup email`; many services want a password for apps here."
        raise _invalid("password", "it is missing", remedy)
    imap, imap_port = _server(options, "imap", 993)
    smtp, smtp_port = _server(options, "smtp", 465)
    tls = switch("email", platform, "tls", default=True)
    if not tls and not (is_this_machine(imap) and is_this_machine(smtp)):
        raise _invalid("tls", "the password would be sent in clear text", "Remove tls: false.")
    remedy = "Write it in small letters, like ann@example.org."
    check_people("email", platform, lambda one: is_address(one) and one.islower(), "is no address", remedy)
    if platform.allow_from == "all" or not (platform.allow_from or platform.allow_admin_from):
        remedy = "Name them by their addresses: `hermes-trio setup email --allow ann@example.org`."
        raise _invalid("allow_from", "mail is read from people who are named, and of nobody else", remedy)
    groups = options.get("groups") or ()
    if not isinstance(groups, list | tuple) or not all(isinstance(g, str) and is_address(g) for g in groups):
        raise _invalid("groups", "it is no list of addresses", "Write one such as [team@example.org].")
    return EmailSettings(
        address=address,
        password=password,
        imap_host=imap,
        smtp_host=smtp,
        imap_port=imap_port,
        smtp_port=smtp_port,
        smtp_starttls=smtp_port == STARTTLS_PORT,
        tls=tls,
        tls_ca=_text(options, "tls_ca") or None,
        allow_from=frozenset((*platform.allow_from, *platform.allow_admin_from)),
        groups=frozenset(one.lower() for one in groups),
        require_mention=platform.require_mention,
        authserv_id=_text(options, "authserv_id"),
        trust_from=switch("email", platform, "trust_from", default=False),
    )


def is_address(text: str) -> bool:
    """Return True for a whole address."""
    return "@" in text and ADDRESS.fullmatch(text) is not None


def _text(options: Mapping[str, object], key: str) -> str:
    value = options.get(key)
    return value.strip() if isinstance(value, str) else ""


def _server(options: Mapping[str, object], key: str, usual: int) -> tuple[str, int]:
    """Return the name and the port of a server."""
    host, _, port = _text(options, key).partition(":")
    number = int(port) if port.isdecimal() and len(port) < 6 else usual if not port else 0
    if not host or not 0 < number < 65536 or any(one.isspace() or one in "/@" for one in host):
        remedy = f"Write it like {key}.example.org, with :port if it is not {usual}."
        raise _invalid(key, "it is no name of a server", remedy)
    return host, number


def _invalid(key: str, problem: str, remedy: str) -> ConfigInvalid:
    return ConfigInvalid(f"platforms.email.{key}", problem, remedy)
