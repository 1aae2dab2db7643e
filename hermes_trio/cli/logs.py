"""The log file of a gateway that runs as its own program (an embedded gateway logs to its host).

`<home>/logs/gateway.log` has one line for each event: `timestamp=… level=… event=…`, followed by the fields
of the event. Only its owner can read it, and it is rotated at 5 MB. Every part of a line is masked by
`redaction`: our fields, the messages of errors from libraries, tracebacks, and the records of other packages.
"""

from __future__ import annotations

import logging
import logging.handlers
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from traceback import format_exception

from click import Abort, ClickException
from click.exceptions import Exit

from ..base.errors import EXIT_FAILURE, GatewayError, home_error
from ..config.known_secrets import masking_of
from ..config.schema import GatewayConfig
from ..host.files.private_files import make_private_dir, open_private
from ..log import PACKAGES, Log, current_masking
from ..masking.redaction import Redact, redacted
from .terminal_output import visible

MAX_BYTES = 5 * 1024 * 1024
BACKUPS = 3
LONGEST = 8 * 1024
"""Maximum characters of a field. The text of an error may be a whole page."""

INDENT = "    "
"""Before each line of a traceback, which follows the line of its event."""

log = Log(__name__)


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating log that only its owner can read. A write error is reported once, and raises nothing."""

    _is_reported = False

    def _open(self):  # type: ignore[no-untyped-def]
        os.close(open_private(Path(self.baseFilename), os.O_RDWR))
        return super()._open()

    def shouldRollover(self, record: logging.LogRecord) -> bool:  # noqa: N802 - the name of the base class
        # The base class looks at the path twice, and asks for the line to know its length.
        return self.stream is not None and os.fstat(self.stream.fileno()).st_size >= self.maxBytes

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - the name of the base class
        # The base class would print the record unmasked.
        if not self._is_reported:
            self._is_reported = True
            error = sys.exception()
            reason = (isinstance(error, OSError) and error.strerror) or type(error).__name__
            with suppress(OSError, ValueError):  # standard error may be closed as well
                print(f"warning: {self.baseFilename} cannot be written ({reason})", file=sys.stderr)

    def close(self) -> None:
        with suppress(OSError):  # the disk fails: buffered lines are lost
            super().close()


@contextmanager
def log_to_file(home: Path, config: GatewayConfig, environ: Mapping[str, str]) -> Iterator[None]:
    """Write log records to `<home>/logs/gateway.log`, without the secrets of the configuration and the
    environment. Records of other packages are written from the level of a warning. An unexpected exception is
    written there and to standard error, also masked, and ends the program. Raise `HomeError` if the file
    cannot be written."""
    file = home / "logs" / "gateway.log"
    try:
        make_private_dir(file.parent)
        handler = _PrivateRotatingFile(
            file, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise home_error(home, error, "logs/gateway.log") from error
    handler.setFormatter(_Line(masking_of(home, config, environ)))
    root, before = logging.getLogger(), {name: logging.getLogger(name).level for name in PACKAGES}
    for name in PACKAGES:
        logging.getLogger(name).setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        yield
    except Exception as error:  # any crash: neither the log nor the terminal may show a secret
        if not _is_unexpected(error):
            raise
        log.critical("gateway crashed", exc_info=True)
        # The interpreter would print a raised exception unmasked. The key of the web may be new.
        redact = masking_of(home, config, environ)
        print(visible(redact("".join(format_exception(error)))), file=sys.stderr)
        raise SystemExit(EXIT_FAILURE) from None
    finally:
        root.removeHandler(handler)
        handler.close()
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _is_unexpected(error: Exception) -> bool:
    """Return whether an error is neither a `GatewayError` nor an exception with which click ends a
    command."""
    if isinstance(error, ExceptionGroup):
        return any(map(_is_unexpected, error.exceptions))
    return not isinstance(error, GatewayError | ClickException | Exit | Abort)


class _Line(logging.Formatter):
    """A record on one line, without secrets; the lines of a traceback follow it."""

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        fields: dict[str, object] = {}
        if hasattr(record, "fields"):
            fields |= {"event": record.event, **record.fields}  # type: ignore[attr-defined]
        else:
            known = current_masking().known
            fields |= {"event": known(record.getMessage()), "logger": record.name}
            if record.exc_info and record.exc_info[1]:
                fields["exception"] = known("".join(format_exception(record.exc_info[1])))
        traceback = self._clean("exception", fields.pop("exception", ""))
        shown = (f"{name}={self._clean(name, value)!r}" for name, value in fields.items())
        line = " ".join([f"timestamp={at!r}", f"level={record.levelname.lower()!r}", *shown])
        # Indented, so that no text of an error can pass for an event.
        return "".join([line, *(f"\n{INDENT}{visible(row)}" for row in str(traceback).splitlines())])

    def _clean(self, name: str, value: object) -> object:
        # Cut twice: the first cut may leave a part of a secret, which is not recognised; the second removes
        # it.
        return _cut(redacted(self._redact, name, _cut(value, 4 * LONGEST)), LONGEST)


def _cut(value: object, length: int) -> object:
    return value[:length] if isinstance(value, str) else value
