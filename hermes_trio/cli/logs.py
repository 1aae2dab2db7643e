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
from collections.abc import Iterator, Mapping, MutableMapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import structlog

from ..config import GatewayConfig
from ..host.files import make_private_dir, open_private
from ..redaction import Redact, redacted, redactor, secrets_of

MAX_BYTES = 5 * 1024 * 1024
BACKUPS = 3
LONGEST = 8 * 1024
"""Characters of one field. What an error drags along may be a whole page."""

_OURS = ("hermes_trio", "hermes_platforms")


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating log that only its owner may read."""

    def _open(self):  # type: ignore[no-untyped-def]
        os.close(open_private(Path(self.baseFilename), os.O_RDWR))
        return super()._open()


@contextmanager
def log_to_file(home: Path, config: GatewayConfig, environ: Mapping[str, str]) -> Iterator[None]:
    """Write what happens to `<home>/logs/gateway.log`, without the secrets of these two. Of other packages
    only what is a warning at least."""
    folder = home / "logs"
    make_private_dir(folder)
    handler = _PrivateRotatingFile(
        folder / "gateway.log", maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8", errors="replace"
    )
    handler.setFormatter(_formatter(redactor(secrets_of(config, environ))))
    root, before = logging.getLogger(), {name: logging.getLogger(name).level for name in _OURS}
    for name in _OURS:
        logging.getLogger(name).setLevel(logging.INFO)
    root.addHandler(handler)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ]
    )
    try:
        yield
    finally:
        structlog.reset_defaults()
        root.removeHandler(handler)
        handler.close()
        for name, level in before.items():
            logging.getLogger(name).setLevel(level)


def _formatter(redact: Redact) -> logging.Formatter:
    def clean(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        # Cut twice: half a secret that the first cut leaves, and nothing knows, is gone with the second.
        return {
            name: _cut(redacted(redact, name, _cut(value, 4 * LONGEST)), LONGEST)
            for name, value in event.items()
        }

    return structlog.stdlib.ProcessorFormatter(
        processors=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            clean,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ],
        foreign_pre_chain=[structlog.stdlib.add_logger_name],
    )


def _cut(value: object, length: int) -> object:
    return value[:length] if isinstance(value, str) else value
