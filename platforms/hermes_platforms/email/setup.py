"""Questions of `hermes-trio setup email`."""

from __future__ import annotations

from hermes_trio.platform import Question

from . import is_address


def _address(answer: str) -> str:
    address = answer.strip().lower()
    if not is_address(address):
        raise ValueError("Write the whole address, like hermes@example.org.")
    return address


def _server(answer: str) -> str:
    server = answer.strip()
    if not server or any(one.isspace() or one in "/@" for one in server):
        raise ValueError("Write the name of the server alone, such as imap.example.org.")
    return server


QUESTIONS = [
    Question(
        key="address",
        ask="Address of the mailbox",
        help="A mailbox of its own, which nobody else reads: unread mail in it waits for an answer.",
        check=_address,
    ),
    Question(key="imap", ask="Name of the IMAP server", help="The port is 993.", check=_server),
    Question(
        key="smtp",
        ask="Name of the SMTP server",
        help="The port is 465. Write :587 after the name if your service has only that.",
        check=_server,
    ),
    Question(
        key="password",
        ask="Password of the mailbox",
        help="Services with a second factor give out a password for apps, which goes here.",
        variable="EMAIL_PASSWORD",
    ),
]
