"""What only a person may ask for: everything that says, answers, changes or ends something.

Who holds the key is not always the owner. A command of the agent can read it from the home and send it, so a
request from this machine is refused if a process that the agent runs has sent it: a run never answers its own
approval, and never speaks or decides in the owner's name. To look (GET) needs the key and nothing else.
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
    """Refuse what a process sends that the agent runs. With `children` these are all descendants of this
    process; a sender that is `gone` already is refused too, unless the route ends something and gives no yes.
    A request from another machine costs nothing."""
    theirs, ours = request.scope.get("client"), request.scope.get("server")
    if theirs is None or ours is None or (theirs[0] and not is_on_this_machine(theirs[0])):
        return
    sender = Sender.GONE  # a connection that was reset does not tell where it came from
    if theirs[0]:
        with worker("sender") as runner:
            sender = await finished(runner, partial(sender_of, theirs, ours, children=children))
    if sender is Sender.AGENT or (sender is Sender.GONE and not may_be_gone):
        raise Refusal(
            403,
            "sent_by_agent",
            "A process that the agent runs has sent this, and only a person may.",
            "Ask the person to do it in the chat, on the page, or in a terminal of their own.",
        )
