"""What a page is told beside the events of runs: that a session is another one than a moment ago, and how
the gateway is.

The journals tell what happens in a run. That a message waits, that a turn has begun and its model says
nothing yet, that somebody renamed a session: of that a page is told only where to look again. So nothing has
to be kept for those who come later, and being told twice does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import trio

from ...base.errors import StoreError
from ...log import Log
from ...state.tables import sessions

if TYPE_CHECKING:
    from ...gateway.facade import Gateway
    from ...gateway.turn.handle import TurnHandle

HEARTBEAT = 15.0

log = Log(__name__)


class Changed:
    """What has changed, for one who watches and is woken for it."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._sessions: dict[str, str] = {}
        self._gateway = True
        self.wake = wake
        wake()

    def take(self, gateway: Gateway) -> list[dict[str, Any]]:
        """What to tell, be it nothing."""
        changed, self._sessions = self._sessions, {}
        told, self._gateway = self._gateway, False
        news = [how_it_is(gateway)] if told else []
        return news + [{"event": event, "session_id": session_id} for session_id, event in changed.items()]

    def note(self, session_id: str | None, *, deleted: bool = False) -> None:
        """This session has changed, or is not there any more; None for the gateway itself."""
        if session_id is None:
            self._gateway = True
        else:
            self._sessions[session_id] = "session.deleted" if deleted else "session.changed"
        self.wake()


class Changes:
    """Everybody who watches."""

    def __init__(self) -> None:
        self._watching: set[Changed] = set()

    @contextmanager
    def watching(self, wake: Callable[[], None]) -> Iterator[Changed]:
        """Watch, for as long as the block. How the gateway is comes first."""
        changed = Changed(wake)
        self._watching.add(changed)
        try:
            yield changed
        finally:
            self._watching.discard(changed)

    def note(self, session_id: str | None, *, deleted: bool = False) -> None:
        """Tell everybody."""
        for changed in self._watching:
            changed.note(session_id, deleted=deleted)

    async def beat(self) -> None:
        """Wake everybody now and then, until cancelled: who has nothing to say then says that. One clock
        for all of them; a deadline for each wait of each of them costs as much as what they wait for."""
        while True:
            await trio.sleep(HEARTBEAT)
            for changed in self._watching:
                changed.wake()


async def note_turns(gateway: Gateway, changes: Changes) -> None:
    """Note every session in which a turn begins or ends, and every change of the gateway, until cancelled."""
    known: Mapping[str, TurnHandle | None] = {}
    while True:
        version = gateway.home.board.version
        now = dict(gateway.work.running.items())
        changes.note(None)
        for key in {*known, *now}:
            if known.get(key) is not now.get(key):
                await _note(gateway, changes, key)
        known = now
        await gateway.home.board.changed_since(version)


async def _note(gateway: Gateway, changes: Changes, key: str) -> None:
    try:
        entry = await gateway.home.database.read(sessions.open_by_key, key)
    except StoreError as error:
        log.warning("a page was not told of a change", session=key, error=str(error))
    else:
        if entry is not None:
            changes.note(entry.session_id)


def how_it_is(gateway: Gateway) -> dict[str, Any]:
    """How the gateway is, as a page is told it."""
    status, ending = gateway.home.board.status, gateway.control.current
    return {
        "event": "gateway.changed",
        "at": gateway.home.world.time(),
        "instance": status.instance,
        "state": status.gateway_state,
        "ready": gateway.control.takes_turns,
        "held": gateway.control.held,
        "ending": ending.kind if ending is not None else None,
        "deadline": status.deadline,
        "active_agents": len(gateway.work.running),
        "platforms": status.platforms,
    }
