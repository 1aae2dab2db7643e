"""The home of one gateway while it is open: its directory, configuration, stores and status board.

`serve` opens the stores, builds one `Home` and hands it on. This module knows no chat and no turn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from ...base.pulse import Wakeup
from ...base.world import World
from ...config.schema import GatewayConfig
from ...host.home.status_board import StatusBoard
from ...host.loop.worker import Worker
from ...journal.session_reader import SessionReader
from ...journal.writer import Journals
from ...masking.redaction import KnownSecrets, Masking
from ...state.db.database import Database
from ...state.rules.store import SessionStore


@dataclass(frozen=True, slots=True)
class Home:
    """An open home."""

    path: Path
    config: GatewayConfig
    world: World
    life: str
    """Id of this run of the gateway, from its start to its end."""
    owner: str | None
    """The same id where several gateways share the store and each chat has an owner; None for one that is
    alone and owns all chats."""
    database: Database
    journals: Journals
    store: SessionStore
    reader: SessionReader
    board: StatusBoard
    worker: Worker
    """Opens threads for blocking work."""
    secrets: KnownSecrets
    schedule: Wakeup = field(default_factory=Wakeup)
    """Set after a change of the schedule."""

    @property
    def masking(self) -> Masking:
        """Mask of all secrets that are known now."""
        return self.secrets.masking
