"""Log records of the gateway: records of the standard library, without secrets and without the values of
variables.

    log = Log(__name__)
    log.warning("link lost; retrying", platform="telegram", error=str(error))

The message of a record is the event and its fields on one line, followed by the traceback, if there is one,
as text. The record has no `exc_info`: handlers of other programs print the local variables of its frames, and
those hold messages of people. `record.event` and `record.fields` are for a formatter that needs them
separately.

Without configuration no record is written: the loggers of our packages have a `NullHandler`, as those of a
library should. This module configures nothing for the whole program.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from traceback import format_exception

from .masking.redaction import KnownSecrets, Masking, redacted

PACKAGES = ("hermes_trio", "hermes_platforms")

_secrets: ContextVar[KnownSecrets] = ContextVar("secrets in log records")

for _package in PACKAGES:
    logging.getLogger(_package).addHandler(logging.NullHandler())


@contextmanager
def log_masked_by(secrets: KnownSecrets) -> Iterator[None]:
    """Mask the known secrets of a gateway in the log records of its tasks, also those that it learns later.
    Each gateway has its own: only the tasks of a nursery that is opened in the block inherit them."""
    token = _secrets.set(secrets)
    try:
        yield
    finally:
        _secrets.reset(token)


def current_masking() -> Masking:
    """Return the masking of the gateway whose task this is; one that knows no secret outside of a gateway."""
    secrets = _secrets.get(None)
    return Masking() if secrets is None else secrets.masking


class Log:
    """The logger of a module."""

    def __init__(self, name: str) -> None:
        self._logger = logging.getLogger(name)

    def debug(self, event: str, **fields: object) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: object) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: object) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: object) -> None:
        self._write(logging.ERROR, event, fields)

    def critical(self, event: str, **fields: object) -> None:
        self._write(logging.CRITICAL, event, fields)

    def exception(self, event: str, **fields: object) -> None:
        """Log an error with the traceback of the current exception."""
        self._write(logging.ERROR, event, {**fields, "exc_info": True})

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        masking, error = current_masking(), fields.pop("exc_info", None)
        event = masking(event)
        shown = {name: redacted(masking, name, value) for name, value in fields.items()}
        text = " ".join([event, *(f"{name}={value!r}" for name, value in shown.items())])
        if error is True:
            error = sys.exception()
        if isinstance(error, BaseException):
            shown["exception"] = masking("".join(format_exception(error)).rstrip())
            text += f"\n{shown['exception']}"
        self._logger.log(level, "%s", text, extra={"event": event, "fields": shown}, stacklevel=3)
