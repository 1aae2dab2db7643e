"""A mail server on this machine, for tests of the adapter: people who write mail, driven by a test.

open_mail_server     run the server over IMAP and SMTP while inside
MailServer           its mailbox, its people and what was sent to them
"""

from .mail_server import MailServer as MailServer
from .mail_server import open_mail_server as open_mail_server

__all__ = ["MailServer", "open_mail_server"]
