"""Events for pages beside those of runs: a session has changed, and how the gateway is.

Journals have the events of runs. Other changes, such as a waiting message, a turn that has begun without
output, or a new title, only tell a page which session to read again. So nothing is kept for pages that
connect later, and a repeated event does no harm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import trio

from ...base.world import World
from ...gateway.ending.control import Control
from ...gateway.session.running_turns import RunningTurns
from ...gateway.turn.agent_function import TellsModel
from ...gateway.turn.handle import TurnHandle
from ...host.home.status_board import StatusBoard
from ...log import Log

HEARTBEAT = 15.0

log = Log(__name__)


class ChangeListener:
    """The changes that one listener has not taken yet."""

    def __init__(self, status: Callable[[], dict[str, Any]], wake: Callable[[], None]) -> None:
        self._status = status
        self._sessions: dict[str, str] = {}
        self._gateway_changed = True
        self.wake = wake
        wake()

    def take(self) -> list[dict[str, Any]]:
        """Return the events since the last call."""
        changed, self._sessions = self._sessions, {}
        gateway_changed, self._gateway_changed = self._gateway_changed, False
        news = [self._status()] if gateway_changed else []
        return news + [{"event": event, "session_id": session_id} for session_id, event in changed.items()]

    def note(self, session_id: str | None, *, deleted: bool = False) -> None:
        """Note that this session has changed or was deleted; None stands for the gateway itself."""
        if session_id is None:
            self._gateway_changed = True
        else:
            self._sessions[session_id] = "session.deleted" if deleted else "session.changed"
        self.wake()


class ChangeFeed:
    """The listeners of one gateway."""

    def __init__(self, status: Callable[[], dict[str, Any]]) -> None:
        """`status` returns the event that says how the gateway is."""
        self._status = status
        self._listeners: set[ChangeListener] = set()

    @contextmanager
    def listening(self, wake: Callable[[], None]) -> Iterator[ChangeListener]:
        """Listen for as long as the block. The first event says how the gateway is."""
        listener = ChangeListener(self._status, wake)
        self._listeners.add(listener)
        try:
            yield listener
        finally:
            self._listeners.discard(listener)

    def note(self, session_id: str | None, *, deleted: bool = False) -> None:
        """Tell all listeners that this session has changed or was deleted; None stands for the gateway."""
        for listener in self._listeners:
            listener.note(session_id, deleted=deleted)

    async def beat(self) -> None:
        """Wake all listeners now and then, until cancelled, so that a silent stream sends a heartbeat. One
        clock for all of them is cheaper than a deadline for each wait."""
        while True:
            await trio.sleep(HEARTBEAT)
            for listener in self._listeners:
                listener.wake()


async def note_turns(feed: ChangeFeed, running: RunningTurns) -> None:
    """Note each session in which a turn begins or ends, until cancelled."""
    known: Mapping[str, tuple[TurnHandle, str]] = {}
    while True:
        now = {key: (handle, handle.session_id) for key, handle in running.items()}
        for key in {*known, *now}:
            if known.get(key) != now.get(key):
                for _, session_id in filter(None, (known.get(key), now.get(key))):
                    if session_id:
                        feed.note(session_id)
        known = now
        await running.changed.wait()


async def note_gateway(feed: ChangeFeed, board: StatusBoard) -> None:
    """Note each change of the gateway, until cancelled."""
    while True:
        version = board.version
        feed.note(None)
        await board.changed_since(version)


def gateway_status(
    board: StatusBoard,
    control: Control,
    running: RunningTurns,
    world: World,
    warning: str | None,
    agent: object,
) -> dict[str, Any]:
    """Return the event that says how the gateway is. `warning` is for its owner."""
    model = {"name": agent.model, "about": agent.about} if isinstance(agent, TellsModel) else None
    status, ending = board.status, control.current
    return {
        "event": "gateway.changed",
        "at": world.time(),
        "instance": status.instance,
        "state": status.gateway_state,
        "ready": control.takes_turns,
        "held": control.held,
        "ending": ending.kind if ending is not None else None,
        "deadline": status.deadline,
        "active_agents": len(running),
        "platforms": status.platforms,
        "warning": warning,
        "model": model,
    }
