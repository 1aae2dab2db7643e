"""Taking over the sessions of an original at the first start in its home."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import structlog

from ..host.worker import finished
from ..state.entry import SessionEntry
from ..state.importing import import_original, is_imported, read_original

if TYPE_CHECKING:
    from .gateway import Gateway

log = structlog.wrap_logger(logging.getLogger(__name__))


async def import_sessions(gateway: Gateway) -> tuple[SessionEntry, ...]:
    """Take over what the files of an original tell, if that was not done yet. Returns the sessions that
    were found to be stuck: their people are to be told."""
    if await gateway.database.read(is_imported):
        return ()
    with gateway.worker("import") as runner:
        original = await finished(runner, lambda: read_original(gateway.home))
    if original is None:
        return ()
    imported = await gateway.database.write(import_original, original, gateway.config, gateway.world.time())
    log.info(
        "took over the sessions of the original",
        taken=imported.taken,
        refused=imported.refused,
        known=imported.known,
        suspended=len(imported.stuck),
    )
    return imported.stuck
