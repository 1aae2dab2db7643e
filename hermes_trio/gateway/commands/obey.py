"""The effects of the chat commands. A command is obeyed at once, also in the middle of a turn, and never sent
to a model. Its row is stored as done, so it is obeyed once and never repeated: before it is obeyed or, for
the commands in `STORED_WITH_EFFECT`, in the transaction of its effect.

The reply is sent before the effect becomes visible: a person who stops a turn reads the reply before the last
words of the turn.

A command may touch all parts of the gateway; it waits for no turn, except for a client that waits for
replies.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from functools import partial

import trio

from ...base.errors import error_text, is_expected
from ...base.messages import HomeChannel, MessageEvent
from ...log import Log
from ...state.db.engine import Db
from ...state.rules.undo import UndoneExchange, undo
from ...state.tables import inbox, meta, sessions
from ...state.tables.approvals import ALWAYS
from ...state.tables.inbox import Stored
from ...state.tables.turns import Outcome
from ..ending.endings_table import Cause, Ending, Supervisor
from ..ending.shutdown import Shutdown
from ..home.open_home import Home
from ..intake.mailbox import Mailbox
from ..links.access import ADMIN_COMMANDS, Access
from ..outbound import texts
from ..outbound.announcements import remember_requester
from ..outbound.chats import Chats
from ..outbound.rows import Chat
from ..session.running_turns import BACKGROUND
from ..session.session import Mode
from ..session.work import Work
from ..turn.agent_function import Compresses, TellsModel
from ..turn.open_question import DENY, OpenQuestion
from ..turn.questions import give_answer
from . import status
from .parse import Command
from .schedule_command import schedule_command
from .stop import Step, nothing, reset_session, stop_session
from .table import COMMANDS

log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Invocation:
    """A command that a person gave: the person, the place, and where the replies go."""

    key: str
    event: MessageEvent
    rest: str
    access: Access
    reply: Callable[[str], None]
    """Send a reply: to the chat, or to the client that gave the command."""
    is_owner: bool = False
    """True if it came through a door that asks for the owner's key."""
    first: Step = nothing
    """The storing of a command that is stored with its effect."""

    async def is_admin(self) -> bool:
        return self.is_owner or await self.access.is_admin(self.event.source)

    async def may_approve(self, question: OpenQuestion) -> bool:
        """Return True if this person may answer this approval."""
        return self.is_owner or await self.access.may_approve(self.event.source, question.asked_of)

    def message(self, text: str, name: str) -> tuple[MessageEvent, str | None]:
        """Return a message of the same person with this text, and its message key, which differs from the
        command's: both are recognised if the command comes again."""
        key = self.event.message_key
        return replace(self.event, text=text, kind="text"), f"{name}:{key}" if key else None


@dataclass(frozen=True, slots=True)
class Commands:
    """Obeys the chat commands of a gateway."""

    home: Home
    chats: Chats
    shutdown: Shutdown
    access: Access
    mailbox: Mailbox
    work: Work

    async def obey(
        self,
        command: Command,
        key: str,
        event: MessageEvent,
        replies: list[str] | None = None,
        *,
        first: Step = nothing,
    ) -> None:
        """Obey a command, and reply in the chat. With `replies`, the command came through a door that asks
        for a key, and the replies are appended there. `first` stores a command that is stored with its
        effect."""
        reply = replies.append if replies is not None else partial(self.chats.reply, event)
        is_owner = replies is not None
        call = Invocation(key, event, command.rest, self.access, reply, is_owner, first)
        if command.name not in COMMANDS:
            call.reply(texts.unknown_command(command.name))
        elif command.name in ADMIN_COMMANDS and not await call.is_admin():
            call.reply(texts.only_admins(command.name, event.source.platform))
        else:
            await _HANDLERS[command.name](self, call)

    # --- information ---

    async def help(self, call: Invocation) -> None:
        await trio.lowlevel.checkpoint()
        call.reply("\n".join(f"/{name} {known.help}" for name, known in COMMANDS.items() if known.help))

    async def status(self, call: Invocation) -> None:
        call.reply(await status.status(self.home, self.chats, self.shutdown, self.work.running, call.key))

    async def usage(self, call: Invocation) -> None:
        call.reply(status.usage(await self.home.store.get_session_entry(call.key)))

    async def whoami(self, call: Invocation) -> None:
        source, is_admin = call.event.source, await call.is_admin()
        call.reply(status.whoami(source, call.key, is_admin=is_admin))

    async def model(self, call: Invocation) -> None:
        await trio.lowlevel.checkpoint()
        agent: object = self.work.agent
        about = agent.about if isinstance(agent, TellsModel) else ""
        call.reply(texts.model(self.home.config.model, about, call.rest))

    async def schedule(self, call: Invocation) -> None:
        call.reply(await schedule_command(self.home, call.event.source, call.rest))

    # --- ending and repeating ---

    async def stop(self, call: Invocation) -> None:
        everything = call.rest.lower() == "all"
        running, dropped = await stop_session(
            self.home, self.work.running, call.key, with_background=everything, first=call.first
        )
        # The turn is cancelled, and its last words follow this reply.
        call.reply(texts.stopped(running, dropped))

    async def new(self, call: Invocation) -> None:
        work = self.work
        dropped = await reset_session(self.home, work.running, work.background, call.key, first=call.first)
        call.reply(texts.new_session(dropped))

    async def undo(self, call: Invocation) -> None:
        home = self.home
        unread = await home.database.write(inbox.drop_newest, call.key, home.world.time())
        if unread is not None:  # no turn has begun with it
            call.reply(texts.taken_back(unread.text))
            return

        async def job() -> None:
            removed = await home.database.write(_remove_exchange, call.key, home.world.time())
            call.reply(texts.nothing_to_take_back() if removed is None else texts.taken_back(removed.text))

        self.work.running.end(call.key, Outcome.STOPPED)
        await self.work.sessions.after_turn(call.key, job)

    async def retry(self, call: Invocation) -> None:
        home = self.home
        if await home.database.read(inbox.count_pending, call.key):
            call.reply(texts.still_waits())
            return

        async def job() -> None:
            own_key, at = home.world.new_id(), home.world.time()
            event, stored = await home.database.write(_repeat_message, call, own_key, at)
            if stored is None:
                call.reply(texts.nothing_to_take_back())
                return
            notice = self.mailbox.meet(call.key, event, stored, "queue")
            if notice is not None:
                call.reply(notice)

        self.work.running.end(call.key, Outcome.STOPPED)
        await self.work.sessions.after_turn(call.key, job)

    # --- messages with a mode ---

    async def queue(self, call: Invocation) -> None:
        await self._post(call, "queue")

    async def steer(self, call: Invocation) -> None:
        await self._post(call, "steer")

    async def _post(self, call: Invocation, mode: Mode) -> None:
        if not call.rest:
            call.reply(texts.needs_text(mode))
            return
        event, name = call.message(call.rest, mode)
        notice = await self.mailbox.take(call.key, event, mode, message_key=name)
        if notice is not None:
            call.reply(notice)

    async def background(self, call: Invocation) -> None:
        if not call.rest:
            call.reply(texts.needs_text("background"))
            return
        event, name = call.message(call.rest, "background")
        key = BACKGROUND + self.home.world.new_id()
        notice = await self.mailbox.take(
            key, event, "queue", message_key=name, at_once=texts.works_in_background()
        )
        if notice is not None:
            call.reply(notice)

    # --- approvals ---

    async def approve(self, call: Invocation) -> None:
        words = call.rest.lower().split()
        await self._decide(call, next((word for word in words if word in ("session", "always")), "once"))

    async def deny(self, call: Invocation) -> None:
        if call.rest.lower() != "always":
            await self._decide(call, DENY)
        elif await call.is_admin():
            call.reply(texts.permissions_removed(await self.home.database.write(meta.drop, ALWAYS)))
        else:
            call.reply(texts.may_not_approve(call.event.source.platform))

    async def _decide(self, call: Invocation, decision: str) -> None:
        source = call.event.source
        open_here = self._approvals(call)
        approvals = [question for question in open_here if await call.may_approve(question)]
        if not approvals and (open_here or not await call.is_admin()):
            call.reply(texts.may_not_approve(source.platform))
            return
        chosen = approvals if "all" in call.rest.lower().split() else approvals[:1]
        by = source.participant or ""
        answered = [await give_answer(self.home, question, decision, by=by) for question in chosen]
        call.reply(texts.decided(decision, sum(answered)) if any(answered) else texts.no_approval_open())

    def _approvals(self, call: Invocation) -> list[OpenQuestion]:
        """Return the open approvals, oldest first: of this conversation, else of anybody in this place. In a
        group where each person has a session, the one who may approve is not the one who asked."""
        running = self.work.running
        own = [one for one in running.open_questions(call.key) if one.kind == "approval"]
        return own or sorted(running.approvals_in(call.event.source), key=lambda one: one.at)

    # --- the gateway ---

    async def restart(self, call: Invocation) -> None:
        await trio.lowlevel.checkpoint()
        control, running = self.shutdown.control, len(self.work.running)
        grace = self.home.config.agent.restart_drain_timeout
        if control.current is not None:
            call.reply(texts.ending_already(running))
        elif self.shutdown.supervised_by is Supervisor.HOST:
            call.reply(texts.restart_is_for_the_host())
        else:
            call.reply(texts.restart_asked(running, grace))
            remember_requester(self.home, call.event)
            control.ask(Ending(Cause.RESTART, grace, asked_by=call.key, requester=call.event))

    async def sethome(self, call: Invocation) -> None:
        source = call.event.source
        if self.chats.traits(Chat.of(source)).own_door:
            await trio.lowlevel.checkpoint()
            call.reply(texts.no_notices_here())
            return
        channel = HomeChannel(source.platform, source.chat_id, source.chat_name, source.thread_id)
        await self.chats.home_channels.set((source.platform, source.account), channel)
        call.reply(texts.home_channel_set())

    async def compress(self, call: Invocation) -> None:
        home = self.home
        agent: object = self.work.agent
        entry = await home.store.get_session_entry(call.key)
        if entry is None or not isinstance(agent, Compresses):
            call.reply(texts.nothing_to_compress())
            return

        async def job() -> None:
            try:
                rows = (await home.reader.with_transcript(entry)).rows
                done = await agent.compress(entry, rows, home.database, call.rest)
            except Exception as error:  # as in a turn: any error of an agent is only reported in the chat
                log.warning(
                    "agent failed",
                    session=entry.session_id,
                    error=error_text(error),
                    exc_info=not is_expected(error),
                )
                call.reply(texts.failed(error, home.masking))
            else:
                call.reply(
                    home.masking(texts.compressed(done.before, done.after, done.trouble))
                    if done
                    else texts.nothing_to_compress()
                )

        # A model takes its time, and the session waits for it. The sender of the command is a link, which has
        # other messages to receive, or a client, which waits for the reply.
        session = self.work.sessions.wake(call.key)
        if session is None:
            call.reply(texts.not_while_held())
        else:
            done = session.between_turns(job)
            if call.is_owner:
                await done.wait()

    async def start(self, call: Invocation) -> None:
        """Ignore the text that some platforms send when a person opens a chat."""
        await trio.lowlevel.checkpoint()


_HANDLERS: dict[str, Callable[[Commands, Invocation], Awaitable[None]]] = {
    name: getattr(Commands, name) for name in COMMANDS
}


def _remove_exchange(db: Db, key: str, at: float) -> UndoneExchange | None:
    """Remove the last exchange of a session, and return its texts."""
    entry = sessions.open_by_key(db, key)
    return undo(db, entry.session_id, at) if entry is not None else None


def _repeat_message(db: Db, call: Invocation, own_key: str, at: float) -> tuple[MessageEvent, Stored | None]:
    """Remove the last exchange and store its message anew: both, or neither."""
    removed = _remove_exchange(db, call.key, at)
    if removed is None:
        return call.event, None
    event, name = call.message(removed.text, "retry")
    event = replace(event, attachments=removed.attachments, reply_to_text=None)
    return event, inbox.store(db, event, session_key=call.key, own_key=own_key, at=at, message_key=name)
