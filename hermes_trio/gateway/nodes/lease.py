"""The lease of a life: how long it may work after its last proof that it goes on.

Each transaction proves that the life goes on (`lives.move_beat`), and moves the deadline of `Lease.scope`,
in which everything runs that acts: platforms, doors, lanes, background and turns. A life that can store
nothing for the time of a lease may be taken over by another gateway. So it ends its own work some seconds
earlier, and a life that was taken over ends it at once. Nothing else has to know whether the life goes on.

A gateway that shares its store with no other one has a lease without an end: the lock of its home proves that
nobody takes over. Its transactions are guarded all the same.
"""

from __future__ import annotations

import math
import socket
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import trio

from ...base.errors import StoreError
from ...base.world import World
from ...config.database_section import DatabaseConfig
from ...host.home.home_id import home_id
from ...log import Log
from ...state.db.database import Database, Guard
from ...state.db.engine import Db
from ...state.tables import lives

BEATS = 5
"""The number of beats in a lease, if nothing else is stored."""
LAST_PART = 1 / 6
"""The part of a lease before whose end the work has ended."""

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Node:
    """One of the homes whose gateways share a store."""

    name: str = "home"
    """The name for people. The gateways that share a store have different ones."""
    lease: float = math.inf
    """Seconds after which a gateway that stores nothing may be taken over."""
    look: float = 1.0
    """Seconds between two looks at what waits in its chats."""

    home: str = ""
    """The id of the home; left out: its name."""

    @property
    def home_id(self) -> str:
        return self.home or self.name

    @property
    def shares(self) -> bool:
        """True if other gateways may work beside it, so that each chat needs an owner."""
        return self.lease < math.inf


ALONE = Node()
"""A gateway that shares its store with no other one."""


def node_of(home: Path, config: DatabaseConfig, world: World) -> Node:
    """Return the node of a locked home: alone with a file, one of several with a server. Raises
    `HomeError`."""
    if config.url is None:
        return ALONE
    name = config.node or f"{socket.gethostname()}:{home}"
    return Node(name, config.lease, home=home_id(home, world))


class Lease:
    """The lease of one life. Everything that acts runs in `scope`."""

    def __init__(self, life: str, node: Node) -> None:
        self.life, self.node = life, node
        self.scope = trio.CancelScope()
        self.proved_at = trio.current_time()
        """The time before the last transaction that was committed."""

    @property
    def is_lost(self) -> bool:
        """True if the work had to end."""
        return self.scope.cancelled_caught

    def guards(self, database: Database) -> None:
        """Let each transaction prove that this life goes on. Its row is stored."""
        database.guard(Guard(self._moves_beat, self._demand, self._beat, self._extend, self._end))

    async def keep(self, database: Database) -> None:
        """Prove from time to time that this life goes on, if nothing else is stored. Runs until it is
        cancelled."""
        every = self.node.lease / BEATS
        while True:
            await trio.sleep_until(self.proved_at + every)
            if self.proved_at + every <= trio.current_time():
                try:
                    await database.write(_nothing)
                except StoreError as error:
                    log.error("lease not renewed; retrying", error=str(error))
                    await trio.sleep(every / BEATS)

    def _moves_beat(self, db: Db) -> Callable[[], bool]:
        return lives.move_beat(db, self.life)

    def _demand(self, db: Db) -> None:
        lives.demand(db, self.life)

    def _beat(self, db: Db) -> int:
        return lives.beat_of(db, self.life)

    def _extend(self, began: float) -> None:
        self.proved_at = began
        self.scope.deadline = began + self.node.lease * (1 - LAST_PART)

    def _end(self) -> None:
        self.scope.cancel(reason="the life is over")


def _nothing(_: Db) -> None:
    """Store nothing: the transaction itself is the proof."""
