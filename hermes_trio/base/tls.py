"""The HTTP library, and the certificates that we trust.

Every module imports the HTTP library from here, so it can be replaced in one place. It loads slowly: a
module that may not need it imports this one inside a function.
"""

from __future__ import annotations

import logging
import ssl

import httpx as httpx  # noqa: ASYNC127

from .errors import ConfigInvalid

# At INFO the library logs the whole address of each request, including secrets.
logging.getLogger("httpx").setLevel(logging.WARNING)


def tls_context() -> ssl.SSLContext:
    """Return a context that trusts the usual certificates and those of this machine. It takes 20 ms."""
    try:
        context = httpx.create_ssl_context()
    except (OSError, ssl.SSLError) as error:
        raise ConfigInvalid(
            "SSL_CERT_FILE", "it names no certificates that can be read", "Correct or unset it."
        ) from error
    context.load_default_certs()  # further certificates of this machine, such as those of a company
    return context
