"""The begin of a life, among the gateways that share a store.

The lock of its home proves that the former lives there are over, so they are ended at once. The name of a
home belongs to one life at a time. If the life of another home has it, that one is watched: it goes on, and
this gateway ends with an error; or it stores nothing for a lease, as after the loss of its machine, and is
taken over.
"""

from __future__ import annotations

import trio

from ...base.errors import NodeNameTaken
from ...log import Log
from ...state.db.engine import Db
from ...state.tables import endings, lives
from ...state.tables.lives import LifeRow
from ..ending.control import Control
from ..home.open_home import Home
from .lease import Node
from .others import LOOKS

log = Log(__name__)


async def begin_life(home: Home, node: Node, control: Control) -> bool:
    """Begin this life. Return True if the former one of this home crashed. Raises `NodeNameTaken`."""
    database, time = home.database, home.world.time
    rival = await database.write(_begin, home.life, node, time())
    since = trio.current_time()
    if isinstance(rival, LifeRow):
        log.warning("name in use by another home; waiting whether it lives", node=node.name)
    while isinstance(rival, LifeRow):
        with trio.move_on_after(node.lease / LOOKS):
            await control.ending()
            raise NodeNameTaken(node.name)
        if trio.current_time() - since >= node.lease:
            await database.write(lives.end, rival, home.life, time())
        now = await database.write(_begin, home.life, node, time())
        if isinstance(now, LifeRow) and now != rival:
            raise NodeNameTaken(node.name)
        rival = now
    return rival


def _begin(db: Db, life: str, node: Node, at: float) -> bool | LifeRow:
    """Begin a life, and end the former ones of its home. Return True if one of them crashed. If the life of
    another home has its name, return that one, with nothing stored."""
    former = lives.living_in(db, node.home_id) if node.shares else lives.living(db)
    rival = lives.living_named(db, node.name)
    if rival is not None and rival not in former:
        return rival
    for one in former:
        lives.end(db, one, life, at)
    if not lives.begin(db, life, node.name, at, home=node.home_id):
        raise NodeNameTaken(node.name)  # another home has begun in this moment
    return any(endings.of_life(db, one.life) is None for one in former)
