"""Taking over the sessions of an original at the first start in its home."""

from __future__ import annotations

import sqlite3
from typing import TYPE_CHECKING

from ...config.schema import GatewayConfig
from ...host.loop.worker import finished
from ...log import Log
from ...state.rules.original_sessions import Imported, Original, import_original, is_imported, read_original
from ..outbound.announcements import owe_stuck

if TYPE_CHECKING:
    from ..parts import Gateway

log = Log(__name__)


async def import_sessions(gateway: Gateway) -> None:
    """Take over what the files of an original tell, if that was not done yet."""
    if await gateway.database.read(is_imported):
        return
    with gateway.worker("import") as runner:
        original = await finished(runner, lambda: read_original(gateway.home))
    if original is None:
        return
    imported = await gateway.database.write(_import, original, gateway.config, gateway.world.time())
    log.info(
        "sessions of the original taken over, without their messages",
        taken=imported.taken,
        refused=imported.refused,
        known=imported.known,
        suspended=len(imported.stuck),
    )


def _import(db: sqlite3.Connection, original: Original, config: GatewayConfig, at: float) -> Imported:
    imported = import_original(db, original, config, at)
    owe_stuck(db, imported.stuck, at)
    return imported
