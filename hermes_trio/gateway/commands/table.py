"""Chat commands: they go to the session's control at once, also in the middle of a turn, and are never
sent to a model. A command is done when it is stored: it happens once and never replays.

What is to be said is said first, and done then: who stops a turn reads so before the turn's last words.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import trio

from ...base.errors import is_expected, said_by
from ...base.messages import HomeChannel, MessageEvent
from ...log import Log
from ...state.rules.undo import Said, undo
from ...state.tables import inbox, meta, sessions
from ...state.tables.approvals import ALWAYS
from ...state.tables.inbox import Stored
from ...state.tables.turns import Outcome
from ..ending.endings_table import Cause, Ending, Supervisor
from ..intake import chat_intake
from ..intake.access import ADMIN_COMMANDS
from ..outbound import texts
from ..outbound.announcements import address_of, remember_requester, say_home
from ..outbound.rows import Chat
from ..session.registry import BACKGROUND
from ..session.session import Mode
from ..turn.context import Compresses, TellsModel
from ..turn.questions import DENY, OpenQuestion, answer, anybodys_approvals, waiting
from . import status
from .parse import Command, Invocation
from .stop import begin_anew, let_go, stop

if TYPE_CHECKING:
    from ..parts import Gateway

log = Log(__name__)


async def obey(
    gateway: Gateway, given: Command, key: str, event: MessageEvent, replies: list[str] | None = None
) -> None:
    """Do what was asked, and say so: in the chat, or into `replies`."""
    known = COMMANDS.get(given.name)
    asking = Invocation(gateway, key, event, given.rest, replies)
    if known is None:
        asking.reply(texts.unknown_command(given.name))
    elif given.name in ADMIN_COMMANDS and not await asking.is_admin():
        asking.reply(texts.only_admins(given.name, event.source.platform))
    else:
        await known.obey(asking)


async def _help(asking: Invocation) -> None:
    asking.reply("\n".join(f"/{name} {known.help}" for name, known in COMMANDS.items() if known.help))


async def _status(asking: Invocation) -> None:
    asking.reply(await status.status(asking.gateway, asking.key))


async def _usage(asking: Invocation) -> None:
    entry = await asking.gateway.store.get_session_entry(asking.key)
    asking.reply(status.usage(entry))


async def _whoami(asking: Invocation) -> None:
    source, is_admin = asking.event.source, await asking.is_admin()
    asking.reply(status.whoami(source, asking.key, is_admin=is_admin))


async def _stop(asking: Invocation) -> None:
    running, dropped = await let_go(asking.gateway, asking.key, all_beside=asking.rest.lower() == "all")
    # The turn is cancelled and has not said its last words yet: those come behind this.
    asking.reply(texts.stopped(running, dropped))


async def _new(asking: Invocation) -> None:
    asking.reply(texts.new_session(await begin_anew(asking.gateway, asking.key)))


async def _undo(asking: Invocation) -> None:
    gateway, at = asking.gateway, asking.gateway.world.time()
    unread = await gateway.database.write(inbox.drop_newest, asking.key, at)
    if unread is not None:  # nobody has begun with it
        asking.reply(texts.taken_back(unread.text))
        return

    async def job() -> None:
        said = await gateway.database.write(_take_back, asking.key, gateway.world.time())
        asking.reply(texts.nothing_to_take_back() if said is None else texts.taken_back(said.text))

    stop(gateway, asking.key, Outcome.STOPPED)
    await gateway.sessions.after_turn(asking.key, job)


async def _retry(asking: Invocation) -> None:
    gateway = asking.gateway
    if await gateway.database.read(inbox.count_pending, asking.key):
        asking.reply(texts.waits_still())
        return

    async def job() -> None:
        event, stored = await gateway.database.write(_again, asking)
        if stored is None:
            asking.reply(texts.nothing_to_take_back())
            return
        told = chat_intake.meet(gateway, asking.key, event, stored, "queue")
        if told is not None:
            asking.reply(told)

    stop(gateway, asking.key, Outcome.STOPPED)
    await gateway.sessions.after_turn(asking.key, job)


def _take_back(db: sqlite3.Connection, key: str, at: float) -> Said | None:
    entry = sessions.open_by_key(db, key)
    return undo(db, entry.session_id, at) if entry is not None else None


def _again(db: sqlite3.Connection, asking: Invocation) -> tuple[MessageEvent, Stored | None]:
    """Take back what was said last, and let it be said anew: both, or neither."""
    key, world = asking.key, asking.gateway.world
    said = _take_back(db, key, world.time())
    if said is None:
        return asking.event, None
    event, name = asking.anew(said.text, "retry")
    event = replace(event, attachments=said.attachments, reply_to_text=None)
    return event, inbox.store(
        db, event, session_key=key, own_key=world.new_id(), at=world.time(), message_key=name
    )


async def _queue(asking: Invocation) -> None:
    await _say(asking, "queue")


async def _steer(asking: Invocation) -> None:
    await _say(asking, "steer")


async def _say(asking: Invocation, mode: Mode) -> None:
    """What stands behind the command is a message, and this is what becomes of it."""
    if not asking.rest:
        asking.reply(texts.needs_text(mode))
        return
    event, name = asking.anew(asking.rest, mode)
    told = await chat_intake.take(asking.gateway, asking.key, event, mode, message_key=name)
    if told is not None:
        asking.reply(told)


async def _background(asking: Invocation) -> None:
    if not asking.rest:
        asking.reply(texts.needs_text("background"))
        return
    event, name = asking.anew(asking.rest, "background")
    key = BACKGROUND + asking.gateway.world.new_id()
    told = await chat_intake.take(
        asking.gateway, key, event, "queue", message_key=name, at_once=texts.works_beside()
    )
    if told is not None:
        asking.reply(told)


async def _approve(asking: Invocation) -> None:
    given = asking.rest.lower().split()
    await _decide(asking, next((word for word in given if word in ("session", "always")), "once"))


async def _deny(asking: Invocation) -> None:
    if asking.rest.lower() == "always":
        await _allow_no_longer(asking)
    else:
        await _decide(asking, DENY)


async def _allow_no_longer(asking: Invocation) -> None:
    """Take back what was ever allowed for always."""
    if await asking.is_admin():
        asking.reply(texts.asks_again(await asking.gateway.database.write(meta.drop, ALWAYS)))
    else:
        asking.reply(texts.may_not_approve(asking.event.source.platform))


async def _decide(asking: Invocation, decision: str) -> None:
    gateway, source = asking.gateway, asking.event.source
    open_here = _approvals(asking)
    approvals = [asked for asked in open_here if await asking.may_approve(asked)]
    if not approvals and (open_here or not await asking.is_admin()):
        asking.reply(texts.may_not_approve(source.platform))
        return
    chosen = approvals if "all" in asking.rest.lower().split() else approvals[:1]
    answered = [await answer(gateway, asked, decision, by=source.participant or "") for asked in chosen]
    asking.reply(texts.decided(decision, sum(answered)) if any(answered) else texts.nothing_asked())


def _approvals(asking: Invocation) -> list[OpenQuestion]:
    """What waits for a yes, the oldest first: in this conversation, else in anybody's here. In a group
    where each has a session, who may approve is not who has asked."""
    gateway, source = asking.gateway, asking.event.source
    own = [asked for asked in waiting(gateway, asking.key) if asked.kind == "approval"]
    return own or sorted(anybodys_approvals(gateway, source), key=lambda asked: asked.at)


async def _restart(asking: Invocation) -> None:
    gateway = asking.gateway
    grace = gateway.config.agent.restart_drain_timeout
    if gateway.control.current is not None:
        asking.reply(texts.ending_already(len(gateway.sessions.running)))
        return
    if gateway.supervised_by is Supervisor.HOST:
        asking.reply(texts.restart_is_for_the_host())
        return
    asking.reply(texts.restart_asked(len(gateway.sessions.running), grace))
    remember_requester(gateway, asking.event)
    gateway.control.ask(Ending(Cause.RESTART, grace, asked_by=asking.key, requester=asking.event))


async def _sethome(asking: Invocation) -> None:
    gateway, source = asking.gateway, asking.event.source
    if gateway.traits(Chat.of(source)).own_door:
        asking.reply(texts.no_chat_here())
        return
    home = HomeChannel(source.platform, source.chat_id, source.chat_name, source.thread_id)
    await gateway.database.write(say_home, address_of(source), home)
    gateway.home_channels[address_of(source)] = home
    asking.reply(texts.home_is_here())


async def _model(asking: Invocation) -> None:
    agent: object = asking.gateway.agent
    about = agent.about if isinstance(agent, TellsModel) else ""
    asking.reply(texts.model(asking.gateway.config.model, about, asking.rest))


async def _compress(asking: Invocation) -> None:
    gateway = asking.gateway
    entry = await gateway.store.get_session_entry(asking.key)
    agent: object = gateway.agent
    if entry is None or not isinstance(agent, Compresses):
        asking.reply(texts.nothing_to_compress())
        return

    async def job() -> None:
        try:
            history = await gateway.history(entry)
            done = await agent.compress(entry, history, gateway.database, asking.rest)
        except Exception as error:  # as in a turn: whatever an agent raises is told, and no more
            log.warning(
                "the agent raised",
                session=entry.session_id,
                error=said_by(error),
                exc_info=not is_expected(error),
            )
            asking.reply(texts.failed(error, gateway.masking))
        else:
            asking.reply(gateway.masking(texts.compressed(done)) if done else texts.nothing_to_compress())
        finally:
            over.set()

    # A model takes its time. The session's actor waits for it: whoever gave the command is a link, which
    # has others to listen to, or at a door of ours, where nobody else waits.
    over = trio.Event()
    actor = gateway.sessions.wake(asking.key)
    if actor is None:
        asking.reply(texts.not_while_held())
    else:
        actor.jobs.append(job)
        if asking.replies is not None:
            await over.wait()


async def _start(asking: Invocation) -> None:
    """What some platforms send when a person opens a chat: not meant as anything."""
    await trio.lowlevel.checkpoint()


@dataclass(frozen=True, slots=True)
class Known:
    """A command there is. Without help it is not listed."""

    obey: Callable[[Invocation], Awaitable[None]]
    help: str = ""


COMMANDS = {
    "help": Known(_help, "lists the commands"),
    "status": Known(_status, "says what is going on here"),
    "stop": Known(_stop, "ends what is running and drops what waits (/stop all: also in the background)"),
    "new": Known(_new, "begins a new session"),
    "retry": Known(_retry, "answers your last message again"),
    "undo": Known(_undo, "forgets your last message and its answer"),
    "queue": Known(_queue, "TEXT waits for its turn without interrupting"),
    "steer": Known(_steer, "TEXT goes into the turn that runs"),
    "background": Known(_background, "TEXT is worked on beside this conversation"),
    "approve": Known(_approve, "lets happen what is waiting for a yes (session, always, all)"),
    "deny": Known(_deny, "refuses it (always: takes back what was ever allowed for always)"),
    "model": Known(_model, "says which model answers"),
    "compress": Known(_compress, "shortens what the model is sent of this session (TEXT: what matters most)"),
    "usage": Known(_usage, "says what this session has used"),
    "sethome": Known(_sethome, "has this chat told when the gateway goes down, and when a restart is over"),
    "whoami": Known(_whoami, "says who you are to the gateway"),
    "restart": Known(_restart, "restarts the gateway"),
    "start": Known(_start),
}
