"""Where the log goes when this program is the gateway, and not a part of another one."""

from __future__ import annotations

import logging
import logging.handlers
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import structlog

from ..host.files import make_private_dir, open_private

MAX_BYTES = 5 * 1024 * 1024
BACKUPS = 3


class _PrivateRotatingFile(logging.handlers.RotatingFileHandler):
    """A rotating log that only its owner may read."""

    def _open(self):  # type: ignore[no-untyped-def]
        os.close(open_private(Path(self.baseFilename), os.O_RDWR))
        return super()._open()


@contextmanager
def log_to_file(home: Path) -> Iterator[None]:
    """Write what happens to `<home>/logs/gateway.log`, one line for each event."""
    folder = home / "logs"
    make_private_dir(folder)
    handler = _PrivateRotatingFile(
        folder / "gateway.log", maxBytes=MAX_BYTES, backupCount=BACKUPS, encoding="utf-8"
    )
    logger = logging.getLogger("hermes_trio")
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
        ]
    )
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()
        structlog.reset_defaults()
