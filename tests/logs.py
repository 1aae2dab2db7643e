"""The log events of a gateway, for tests."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from hermes_trio.log import PACKAGES


@contextmanager
def capture_logs() -> Iterator[list[dict[str, Any]]]:
    """Collect the events that our packages log in the block, each with its `log_level` and its fields."""
    seen: list[dict[str, Any]] = []

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fields = {"event": record.event, **record.fields}  # type: ignore[attr-defined]
            seen.append({"log_level": record.levelname.lower(), **fields})

    keeper, loggers = Keeper(), [logging.getLogger(name) for name in PACKAGES]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(keeper)
        logger.setLevel(logging.DEBUG)
    try:
        yield seen
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(keeper)
            logger.setLevel(level)
