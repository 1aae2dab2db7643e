"""The work of one gateway: its agent, its running turns, its sessions and its background processes.

Built in the body of the `work` nursery, complete before it is handed on. A background process wakes sessions,
and a turn starts background processes, so this is the one place that knows both.
"""

from __future__ import annotations

from collections import Counter

import trio

from ...state.tables.turns import Outcome
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from ..links.access import Access
from ..outbound.chats import Chats
from ..processes.background import Background
from ..processes.command import CommandRunner
from ..turn.agent_function import Agent, asks_at_once
from ..turn.run import Turns
from .registry import Sessions
from .running_turns import RunningTurns
from .session import SessionParts


class Work:
    """Everything that runs turns."""

    def __init__(
        self,
        home: Home,
        chats: Chats,
        shutdown: Shutdown,
        access: Access,
        commands: CommandRunner,
        agent: Agent,
        *,
        work: trio.Nursery,
        background: trio.Nursery,
    ) -> None:
        self.agent = agent
        self.running = RunningTurns(home, shutdown)
        self.background = Background(home, chats, commands, self, background)
        turns = Turns(home, chats, shutdown, self.background, agent, asks_at_once(agent))
        self.outcomes: Counter[Outcome] = turns.outcomes
        """Number of turns of this life by outcome."""
        self.sessions = Sessions(
            SessionParts(home, chats, shutdown.control, access, self.running, turns), work
        )

    def wake(self, key: str) -> None:
        """Make the session of this key look into its inbox."""
        self.sessions.wake(key)

    async def turn_ended(self, key: str) -> None:
        """Wait until no turn of this session runs."""
        await self.sessions.turn_ended(key)
