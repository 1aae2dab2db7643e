"""The HTTP library, and whom we trust by TLS.

Whoever needs the library has it from here, so that another one of this shape is a change of one line. It
takes a while to load: who may not need it imports it where it is used.
"""

from __future__ import annotations

import logging
import ssl

import httpx as httpx  # noqa: ASYNC127

from .errors import ConfigInvalid

# It writes a line with the whole address, secrets and all, for each request.
logging.getLogger("httpx").setLevel(logging.WARNING)


def trusted() -> ssl.SSLContext:
    """A context that trusts whom everybody does, and whom this machine does. Making one takes 20 ms."""
    try:
        context = httpx.create_ssl_context()
    except (OSError, ssl.SSLError) as error:
        raise ConfigInvalid(
            "SSL_CERT_FILE", "it names no certificates that can be read", "Correct or unset it."
        ) from error
    context.load_default_certs()  # what this machine trusts besides, such as a company's own
    return context
