"""A run that the program around a gateway began: its message is stored, its events are followed, and the
block around it ends it.

It runs on Trio, and touches the mailbox, the runs and their journals.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

import msgspec
import trio

from ..base.errors import GatewayError
from ..base.events import KNOWN, Event
from ..base.ids import path_safe_id
from ..base.messages import MessageEvent, SessionSource
from ..gateway.ending.endings_table import MARGIN
from ..gateway.facade import RunningGateway
from ..gateway.intake.requests import NoTurnsNow, Posted, deliver, store_request
from ..gateway.operations.api_sessions import SessionUnreachable
from ..gateway.operations.conversation_entry import ConversationInput, Conversations, RequestTarget
from ..gateway.operations.run_follower import HEARTBEAT, RunFollower, follow
from ..gateway.operations.run_state import Runs
from ..gateway.turn.attachments import keep_upload
from ..gateway.turn.questions import give_answer
from ..journal.broadcast import Subscription
from ..journal.record import Record
from ..state.rules.store import key_of

HOST = "host"
"""The name under which an answer of the program is stored."""


class FollowedRun:
    """The events of one run, from its first to its last."""

    def __init__(self, gateway: RunningGateway, runs: Runs, posted: Posted, watch: Subscription) -> None:
        self.run_id = posted.run_id
        self._gateway, self._runs, self._watch = gateway, runs, watch
        self._unread: list[Event] = []
        self._follower = RunFollower(self._note, trio.lowlevel.checkpoint, trio.lowlevel.checkpoint)

    @property
    def has_end(self) -> bool:
        """True when the last event was heard."""
        return self._follower.has_end

    async def next(self) -> Sequence[Event]:
        """Wait for the next events, and return them; return none after the last one."""
        while not self._unread and not self.has_end:
            records: Sequence[Record] | None = None
            with trio.move_on_after(HEARTBEAT):
                records = await self._watch.next()
            if records:
                await self._follower.hear(records)
            elif records is not None or await self._is_over():
                # Too slow, or an end that was not told: the rest is in the journal.
                await follow(self._runs, self.run_id, self._follower)
                if self._watch.ended:
                    break
        unread, self._unread = self._unread, []
        return unread

    async def answer(self, request_id: str, answer: str) -> bool:
        """Answer an approval or a question of this run. Return False if it is not open any more, or if this
        is no answer to it."""
        state = await self._runs.state(self.run_id)
        open_ones = state.task.questions if state is not None and state.task is not None else ()
        asked = next((one for one in open_ones if one.id == request_id), None)
        meant = asked.answer_in(answer) if asked is not None else None
        if asked is None or meant is None:
            return False
        return await give_answer(self._gateway.home, asked, meant, by=HOST)

    async def end(self) -> None:
        """End the run if it goes on, and wait until its turn has ended."""
        if self.has_end:
            return
        deadline = self._gateway.shutdown.deadline(MARGIN, before_end=1.0)
        # An error of ours: the gateway has ended, and the run with it.
        with trio.CancelScope(deadline=deadline, shield=True), suppress(GatewayError):
            state = await self._runs.state(self.run_id)
            await self._runs.stop(self.run_id)
            if state is not None:
                await self._gateway.work.turn_ended(state.session_key)

    async def _is_over(self) -> bool:
        state = await self._runs.state(self.run_id)
        return state is None or state.is_over

    async def _note(self, record: Record) -> None:
        event = record.payload
        if not isinstance(event, Event):  # it was read from the journal
            with suppress(msgspec.ValidationError):  # a payload of an unknown shape costs only this event
                event = msgspec.convert(event, KNOWN.get(record.event, Event))
        if type(event) in KNOWN.values():
            self._unread.append(event)
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def begin_run(
    gateway: RunningGateway, place: str | SessionSource, text: str, *, ends_with_block: bool
) -> AsyncIterator[FollowedRun]:
    """Store a message, and follow its run during the block. Raises `OperationRefused`, `NoTurnsNow` and
    `TooManyWait`."""
    home = gateway.home
    runs = Runs(home.database, home.world, home.journals, gateway.work.running, home.owner, gateway.node.look)
    run_id = home.world.new_id()
    with home.journals.live.watching(run_id) as watch:  # before the first event
        posted = await _post(gateway, place, text, run_id)
        run = FollowedRun(gateway, runs, posted, watch)
        try:
            yield run
        finally:
            # A message that answered a question belongs to a run of somebody else.
            if ends_with_block and posted.run_id == run_id:
                await run.end()  # noqa: ASYNC102 - it shields its awaits


async def _post(gateway: RunningGateway, place: str | SessionSource, text: str, run_id: str) -> Posted:
    """Store and deliver a message to a session, or to the chat of a source."""
    home, control, mailbox = gateway.home, gateway.control, gateway.mailbox
    database, config, world = home.database, home.config, home.world
    connections = gateway.chats.connections
    if isinstance(place, str):
        conversations = Conversations(
            database,
            config,
            world,
            control,
            connections,
            partial(deliver, mailbox),
            lambda _: None,
            home.path,
            partial(keep_upload, home),
            home.owner,
        )
        target = RequestTarget(path_safe_id(place), None, "")
        return (await conversations.enter(ConversationInput(text), target, run_id)).posted
    if (place.platform, place.account) not in connections:
        raise SessionUnreachable
    if not control.takes_turns:
        raise NoTurnsNow
    event = MessageEvent(place, text, run_id=run_id)
    key, at = key_of(place, config), world.time()
    request = await database.write(store_request, event, key, at, home.owner)
    return await deliver(mailbox, request)
