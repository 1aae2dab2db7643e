"""The gateway as programs around it see it: the parts that it is made of, and the request to stop it.

Built last, for embedding programs, the command line and the web. No module of the gateway takes it.
"""

from __future__ import annotations

from dataclasses import dataclass

from .commands.obey import Commands
from .ending.control import Control
from .ending.endings_table import Cause, Ending
from .ending.shutdown import Shutdown
from .home.open_home import Home
from .intake.mailbox import Mailbox
from .nodes.lease import ALONE, Node
from .outbound.chats import Chats
from .session.work import Work


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A running gateway."""

    home: Home
    chats: Chats
    work: Work
    shutdown: Shutdown
    mailbox: Mailbox
    commands: Commands
    node: Node = ALONE

    @property
    def control(self) -> Control:
        """The decision that the gateway ends, once there is one."""
        return self.shutdown.control

    def stop(self, *, restart: bool = False, grace: float | None = None, asked_by: str = "") -> bool:
        """Request the end, with the grace of the configuration if none is given. Return False if an earlier
        request stays in force."""
        cause = Cause.RESTART if restart else Cause.PLANNED
        if grace is None:
            grace = self.home.config.agent.restart_drain_timeout
        return self.control.ask(Ending(cause, grace, asked_by))
