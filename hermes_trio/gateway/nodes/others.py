"""Working beside other gateways that share the store: looking whether they live, taking over, looking after
one's own chats, and roles.

A life is taken over when its beat has not moved during a lease of successive looks. No clock of a machine
decides that, only the time between the looks of who takes over; a look that came late begins the count anew.
The take-over is a fence: from then on that life stores nothing. Then its open turns are ended, and its chats
are free. Whoever finds this undone, because the one who took over is over too, does it.

A hint that work waits (`hints`) is never needed: each gateway also looks once in a second for what waits in
its chats.

It may touch the tables of lives and chats, and calls what takes up work.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable

import trio

from ...base.errors import GatewayError, StoreError
from ...base.messages import MessageEvent
from ...base.pulse import Wakeup
from ...log import Log
from ...state.db.engine import Db
from ...state.rules.ownership import OwnWork
from ...state.tables import chats, inbox, lives, turns
from ...state.tables.lives import LifeRow
from ..home.open_home import Home
from ..links.link import Connection
from .lease import Lease

LOOKS = 10
"""The number of looks at the other lives in a lease."""
ROLE_EVERY = 1.0
"""Seconds between two looks whether a role is free."""

TakeUp = Callable[[Connection, str, frozenset[str]], Awaitable[OwnWork]]
Accept = Callable[[Connection, MessageEvent], Awaitable[None]]

log = Log(__name__)


async def watch_others(home: Home, lease: Lease, settle: Callable[[], Awaitable[object]]) -> None:
    """Take over the lives that store nothing for a lease, and settle what they leave. Runs until it is
    cancelled; returns at once in a gateway that is alone."""
    every, seen = lease.node.lease / LOOKS, dict[LifeRow, float]()
    looked_at = trio.current_time()
    while home.owner is not None:
        await trio.sleep(every)
        try:
            living = await home.database.read(lives.living)
            now = trio.current_time()
            late, looked_at = now - looked_at > 2 * every, now
            seen = {one: now if late else seen.get(one, now) for one in living if one.life != lease.life}
            for one, since in seen.items():
                if now - since >= lease.node.lease:
                    await _take_over(home, one)
            if await home.database.read(_is_unsettled):
                await settle()
        except StoreError as error:
            log.warning("other gateways not looked at; retrying", error=str(error))
            seen = {}


async def _take_over(home: Home, one: LifeRow) -> None:
    if await home.database.write(lives.end, one, home.life, home.world.time()):
        log.warning("life taken over", life=one.life, node=one.node)


def _is_unsettled(db: Db) -> bool:
    return bool(turns.left_open(db)) or chats.any_to_free(db)


async def look_after_own_chats(
    home: Home,
    lease: Lease,
    connections: Iterable[Connection],
    take_up: TakeUp,
    accept: Accept,
    hints: Wakeup,
) -> None:
    """Take up what waits in the chats of this gateway, and in those that are nobody's, after each hint and
    from time to time; take in what others have received for it. Runs until it is cancelled; returns at once
    in a gateway that is alone."""
    known: dict[Connection, frozenset[str]] = {}
    while home.owner is not None:
        with trio.move_on_after(lease.node.look):
            await hints.wait()
        hints.clear()
        for connection in connections:
            if connection.link is None:
                continue
            try:
                work = await take_up(connection, home.owner, known.get(connection, frozenset()))
                known[connection] = work.chats
                for row in work.told:
                    await accept(connection, row.event)
                    # Nothing was stored of a sender who has lost access.
                    await home.database.write(inbox.forget_told, row.inbox_id)
            except GatewayError as error:
                log.error("own chats not looked after; retrying", platform=connection.name, error=str(error))


async def hold_role(home: Home, role: str) -> None:
    """Wait until this gateway has a role. It keeps it until its life is over."""
    if home.owner is None:
        return
    while True:
        holder = await home.database.read(chats.holder_of, role)
        if holder in (None, home.owner) and await home.database.write(chats.take_role, role, home.owner):
            return
        await trio.sleep(ROLE_EVERY)  # no event says it: another process leaves the role
