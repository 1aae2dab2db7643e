"""Refusing requests of the agent's processes, with whatever key.

The holder of the key is not always the owner: a person may have shown it to the agent, or a command without a
sandbox may read it. So a request from this machine is refused if a process that the agent runs has sent it: a
run never answers its own approval, never speaks or decides for the owner, and reads no other session.

Requests that arrive together share one look at the processes. A connection is looked at once: who holds it
could only give it away.
"""

from __future__ import annotations

from collections.abc import Sequence

import outcome
from starlette.requests import Request

from ...host.loop.worker import Batcher, Pending, Runner
from ...host.processes.peers import Connection, Sender, is_on_this_machine, senders_of
from .connection import NOTES
from .http_errors import Refusal

MOST_AT_ONCE = 256
_NOT_AGENTS = "not sent by the agent"


class OwnerCheck:
    """The check of one server. With `children` all descendants of this process are the agent's."""

    def __init__(self, runner: Runner, *, children: bool) -> None:
        self._children = children
        self._looks: Batcher[Connection, Sender] = Batcher(runner, self._look, limit=MOST_AT_ONCE)

    async def refuse_agents_processes(self, request: Request, *, may_be_gone: bool) -> None:
        """Refuse a request that a process of the agent has sent. A sender that has closed its connection is
        refused too, unless `may_be_gone`: the route only reads or ends something. Requests from other
        machines are not checked."""
        theirs, ours = request.scope.get("client"), request.scope.get("server")
        if theirs is None or ours is None:
            return
        notes: set[str] = request.scope.get("extensions", {}).get(NOTES, set())
        if _NOT_AGENTS in notes or (theirs[0] and not is_on_this_machine(theirs[0])):
            return
        # A connection that was reset has no address any more.
        sender = await self._looks.performed((theirs, ours)) if theirs[0] else Sender.GONE
        if sender is Sender.OTHER:
            notes.add(_NOT_AGENTS)
        elif sender is Sender.AGENT or not may_be_gone:
            raise Refusal(
                403,
                "sent_by_agent",
                "A process of the agent has sent this request, and only a person may.",
                "Ask the person to do it in the chat, on the page, or in a terminal of their own.",
            )

    def _look(self, batch: Sequence[Pending[Connection, Sender]]) -> None:
        senders = senders_of([pending.item for pending in batch], children=self._children)
        for pending, sender in zip(batch, senders, strict=True):
            pending.result = outcome.Value(sender)
