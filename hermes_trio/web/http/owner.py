"""Refusing requests of the agent's processes that send, answer, change or end something.

The holder of the key is not always the owner: a command of the agent can read the key from the home
directory. So a request from this machine is refused if a process that the agent runs has sent it: a run never
answers its own approval, and never speaks or decides for the owner. Reading (GET) needs only the key.
"""

from __future__ import annotations

from functools import partial

from starlette.requests import Request

from ...host.loop.worker import Worker, finished
from ...host.processes.peers import Sender, is_on_this_machine, sender_of
from .http_errors import Refusal


async def refuse_agents_processes(
    request: Request, worker: Worker, *, children: bool, may_be_gone: bool
) -> None:
    """Refuse a request that a process of the agent has sent. With `children` all descendants of this process
    are the agent's. A sender that has closed its connection is refused too, unless `may_be_gone`: the route
    only ends something. Requests from other machines are not checked."""
    theirs, ours = request.scope.get("client"), request.scope.get("server")
    if theirs is None or ours is None or (theirs[0] and not is_on_this_machine(theirs[0])):
        return
    sender = Sender.GONE  # a connection that was reset has no address any more
    if theirs[0]:
        with worker("sender") as runner:
            sender = await finished(runner, partial(sender_of, theirs, ours, children=children))
    if sender is Sender.AGENT or (sender is Sender.GONE and not may_be_gone):
        raise Refusal(
            403,
            "sent_by_agent",
            "A process of the agent has sent this request, and only a person may.",
            "Ask the person to do it in the chat, on the page, or in a terminal of their own.",
        )
