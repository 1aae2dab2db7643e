"""Log records of the gateway: plain records of the standard library, without secrets and without the values
of variables.

    log = Log(__name__)
    log.warning("a link is lost", platform="telegram", error=str(error))

A record's message is the event and its fields on one line, and below it the traceback, if there is one, as
text. It has no `exc_info`: handlers of other programs print the local variables of its frames, and those hold
the words of people. `record.event` and `record.fields` are for a formatter that wants them apart.

Where nothing is configured, nothing is written: the loggers of our packages have a `NullHandler`, as those of
a library should. Nothing here is configured for the whole program.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from traceback import format_exception

from .masking.redaction import Masking, redacted

PACKAGES = ("hermes_trio", "hermes_platforms")

_masking: ContextVar[Masking] = ContextVar("masking of log records", default=Masking())  # noqa: B039 - frozen

for _package in PACKAGES:
    logging.getLogger(_package).addHandler(logging.NullHandler())


@contextmanager
def log_masked_by(masking: Masking) -> Iterator[None]:
    """Mask the known secrets of a gateway in what its tasks log. Each gateway has its own: the tasks of a
    nursery that is opened in the block inherit it, and nobody else."""
    token = _masking.set(masking)
    try:
        yield
    finally:
        _masking.reset(token)


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
        """An error with the traceback of the exception that is being handled."""
        self._write(logging.ERROR, event, {**fields, "exc_info": True})

    def _write(self, level: int, event: str, fields: dict[str, object]) -> None:
        if not self._logger.isEnabledFor(level):
            return
        masking, error = _masking.get(), fields.pop("exc_info", None)
        event = masking(event)
        shown = {name: redacted(masking, name, value) for name, value in fields.items()}
        text = " ".join([event, *(f"{name}={value!r}" for name, value in shown.items())])
        if error is True:
            error = sys.exception()
        if isinstance(error, BaseException):
            shown["exception"] = masking("".join(format_exception(error)).rstrip())
            text += f"\n{shown['exception']}"
        self._logger.log(level, "%s", text, extra={"event": event, "fields": shown}, stacklevel=3)
