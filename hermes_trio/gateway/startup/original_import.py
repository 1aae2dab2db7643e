"""Import of the sessions of hermes-agent, the original, at the first start in its home.

It may read the files of the original, and write sessions and announcements.
"""

from __future__ import annotations

from ...config.schema import GatewayConfig
from ...host.loop.worker import finished
from ...log import Log
from ...state.db.engine import Db
from ...state.rules.original_sessions import Imported, Original, import_original, is_imported, read_original
from ..home.open_home import Home
from ..outbound.announcements import owe_stuck

log = Log(__name__)


async def import_sessions(home: Home) -> None:
    """Import the sessions that the files of the original list, once per home."""
    if await home.database.read(is_imported):
        return
    with home.worker("import") as runner:
        original = await finished(runner, lambda: read_original(home.path))
    if original is None:
        return
    imported = await home.database.write(_import, original, home.config, home.world.time())
    log.info(
        "sessions of the original imported, without their messages",
        taken=imported.taken,
        refused=imported.refused,
        known=imported.known,
        suspended=len(imported.stuck),
    )


def _import(db: Db, original: Original, config: GatewayConfig, at: float) -> Imported:
    imported = import_original(db, original, config, at)
    owe_stuck(db, imported.stuck, at)
    return imported
