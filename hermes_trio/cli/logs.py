"""Where the log goes when this program is the gateway, and not a part of another one.

`<home>/logs/gateway.log`: one line for each event, `timestamp=… level=… event=…` and then what it is about,
readable by its owner alone, rotated at 5 MB. Nothing gets into it but through `redaction`: neither a field
of ours, nor the message of an error that a library made, nor a traceback, nor what a package of somebody
else's logs.
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
from ..config.schema import GatewayConfig
from ..host.files.private_files import make_private_dir, open_private
from ..log import PACKAGES, Log
from ..masking.known_secrets import masking_of
from ..masking.redaction import Redact, redacted
from .terminal_output import visible

MAX_BYTES = 5 * 1024 * 1024
BACKUPS = 3
LONGEST = 8 * 1024
"""Characters of one field. What an error drags along may be a whole page."""

log = Log(__name__)


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating log that only its owner may read. One that cannot be written hinders nobody."""

    _told = False

    def _open(self):  # type: ignore[no-untyped-def]
        os.close(open_private(Path(self.baseFilename), os.O_RDWR))
        return super()._open()

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - its name there
        # The usual way prints the record as it came, with all that is kept out of the file.
        if not self._told:
            self._told = True
            error = sys.exception()
            why = (isinstance(error, OSError) and error.strerror) or type(error).__name__
            with suppress(OSError, ValueError):  # nobody reads that either
                print(f"warning: {self.baseFilename} cannot be written ({why})", file=sys.stderr)

    def close(self) -> None:
        with suppress(OSError):  # what was still to be written is lost, like the lines before
            super().close()


@contextmanager
def log_to_file(home: Path, config: GatewayConfig, environ: Mapping[str, str]) -> Iterator[None]:
    """Write what happens to `<home>/logs/gateway.log`, without the secrets of these two. Of other packages
    only what is a warning at least. What nobody expected is told there and on stderr, without secrets too,
    and ends the program. Raises `HomeError`."""
    file = home / "logs" / "gateway.log"
    try:
        make_private_dir(file.parent)
        handler = _PrivateRotatingFile(
            file, maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace"
        )
    except OSError as error:
        raise home_error(home, error, "logs/gateway.log") from error
    redact = masking_of(home, config, environ)
    handler.setFormatter(_Line(redact))
    root, before = logging.getLogger(), {name: logging.getLogger(name).level for name in PACKAGES}
    for name in PACKAGES:
        logging.getLogger(name).setLevel(logging.INFO)
    root.addHandler(handler)
    try:
        yield
    except Exception as error:  # a crash, whatever it is: neither log nor terminal may hold a secret
        if not _is_unexpected(error):
            raise
        log.critical("it crashed", exc_info=True)
        # What is raised from here would be printed by the interpreter, as it is.
        print(visible(redact("".join(format_exception(error)))), file=sys.stderr)
        raise SystemExit(EXIT_FAILURE) from None
    finally:
        root.removeHandler(handler)
        handler.close()
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _is_unexpected(error: Exception) -> bool:
    """Whether there is more in it than what is said in a sentence, and click's ways to leave."""
    if isinstance(error, ExceptionGroup):
        return any(map(_is_unexpected, error.exceptions))
    return not isinstance(error, GatewayError | ClickException | Exit | Abort)


class _Line(logging.Formatter):
    """A record on one line, without secrets."""

    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        at = datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z")
        fields: dict[str, object] = {"timestamp": at, "level": record.levelname.lower()}
        if hasattr(record, "fields"):
            fields |= {"event": record.event, **record.fields}  # type: ignore[attr-defined]
        else:
            fields |= {"event": record.getMessage(), "logger": record.name}
            if record.exc_info and record.exc_info[1]:
                fields["exception"] = "".join(format_exception(record.exc_info[1]))
        return " ".join(f"{name}={self._clean(name, value)!r}" for name, value in fields.items())

    def _clean(self, name: str, value: object) -> object:
        # Cut twice: half a secret that the first cut leaves, and nothing knows, is gone with the second.
        return _cut(redacted(self._redact, name, _cut(value, 4 * LONGEST)), LONGEST)


def _cut(value: object, length: int) -> object:
    return value[:length] if isinstance(value, str) else value
