"""The router: one event in, one decision, and its effects.

A sender without access is refused first. `route` is pure: it decides the kind of an event from the event and
the open questions. `Router.accept` performs the effects. An event is stored before it is acknowledged to its
platform. A command is obeyed at once, also in the middle of a turn. An answer goes to the turn that asked.
Any other message waits in the inbox for its session.

The router may touch the access rules, the mailbox and the commands; it starts no turn itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum
from functools import partial

from ..base.errors import GatewayError
from ..base.messages import MessageEvent
from ..log import Log
from ..platform.contract import STOPPED_DRAFT
from ..state.tables import pairing
from .commands.obey import Commands
from .commands.parse import SAYING, STORED_WITH_EFFECT, Command, parse
from .home.open_home import Home
from .intake.mailbox import Mailbox, SeenBefore
from .links.access import Access
from .links.link import Connection
from .outbound import texts
from .outbound.chats import Chats
from .outbound.rows import Chat, draft_number
from .turn.open_question import PRESS, OpenQuestion, parse_press
from .turn.questions import give_answer

log = Log(__name__)


class Kind(Enum):
    """The kind of an event that is no command."""

    UNREADABLE = "unreadable"
    PRESS = "press"
    STOP = "stop"
    ANSWER = "answer"
    MESSAGE = "message"


def route(event: MessageEvent, questions: Iterable[OpenQuestion]) -> Kind | Command:
    """Decide the kind of an event of a sender with access. `questions` are the open questions of its
    session."""
    if event.kind == "unreadable":
        return Kind.UNREADABLE
    if event.kind == "callback" and event.text.startswith(PRESS):
        return Kind.PRESS
    if event.kind == "callback" and event.text.startswith(STOPPED_DRAFT):
        return Kind.STOP
    command = parse(event)
    if command is not None:
        return command
    if event.kind != "internal" and any(question.answer_in(event.text) is not None for question in questions):
        return Kind.ANSWER
    return Kind.MESSAGE


@dataclass(frozen=True, slots=True)
class Router:
    """Takes in the events of all links."""

    home: Home
    chats: Chats
    access: Access
    mailbox: Mailbox
    commands: Commands

    async def accept(self, connection: Connection, event: MessageEvent, *, at_door: bool = True) -> None:
        """Take in an event. After the return it is stored and may be acknowledged. If another gateway owns
        the chat, that one decides what the event is, and then takes it in not `at_door`."""
        source, running = event.source, self.mailbox.work.running
        if event.kind != "unreadable" and not await self.access.may_talk(source):
            await self._refuse(event)
            return
        key = self.home.store.key_of(source)
        kind = route(event, running.open_questions(key))
        # A message is stored by the transaction that finds its owner.
        if at_door and kind is not Kind.MESSAGE and await self.mailbox.told_owner(key, event):
            return
        if kind is Kind.UNREADABLE:
            why = event.text.partition("\n")[0]
            log.error("unreadable event kept in the inbox", platform=source.platform, why=why)
            await self.mailbox.store_done(key, event)
            return
        if self.chats.gone.reasons:
            await self.chats.gone.remove(Chat.of(source))
        if isinstance(kind, Command):
            await self._obey(kind, key, event)
        elif kind is Kind.PRESS:
            await self._press(connection, key, event)
        elif kind is Kind.STOP:
            await self._stop_draft(key, event)
        else:
            await self._message(connection, key, event, kind, at_door=at_door)

    async def _message(
        self, connection: Connection, key: str, event: MessageEvent, kind: Kind, *, at_door: bool
    ) -> None:
        mailbox = self.mailbox
        finds_owner = at_door and kind is Kind.MESSAGE
        stored = await (mailbox.store_or_tell if finds_owner else mailbox.store)(key, event)
        if stored is None or stored.seen_before:
            return
        source = event.source
        log.info("message received", platform=source.platform, chat=source.chat_id, key=key)
        self.chats.mark(event)
        if kind is Kind.ANSWER:
            # The platform does not send a stored event again, so a step that the disk refuses is repeated
            # here.
            answer = partial(mailbox.answer, key, stored.inbox_id, event)
            if await connection.stored(answer):
                return
        notice = mailbox.meet(key, event, stored, self.home.config.display.busy_input_mode)
        if notice is not None:
            mailbox.tell(key, event, notice)

    async def _obey(self, command: Command, key: str, event: MessageEvent) -> None:
        if command.name in STORED_WITH_EFFECT:
            with suppress(SeenBefore):
                first = self.mailbox.storing_once(key, event)
                await self.commands.obey(command, key, event, first=first)
            return
        stored = await self.mailbox.store_done(key, event)
        # The message in a command gets a row of its own, which may still be missing when the command comes
        # again.
        if stored.seen_before and not (command.name in SAYING and command.rest):
            return
        try:
            await self.commands.obey(command, key, event)
        except GatewayError as error:
            log.error("command failed", command=command.name, error=str(error))
            self.chats.reply(event, texts.command_failed(command.name, error))

    async def _press(self, connection: Connection, key: str, event: MessageEvent) -> None:
        """Take a press of a button as an answer. A press that answers no open question never will, so it does
        not wait for a turn."""
        stored = await self.mailbox.store_done(key, event)
        if stored.seen_before:
            return
        running = self.mailbox.work.running
        question_id, value = parse_press(event.text)
        # People with the right to approve may do so for others; a question is asked of one person.
        here = [*running.open_questions(key), *running.approvals_in(event.source)]
        question = next((one for one in here if one.id == question_id), None)
        if question is not None and not await self.mailbox.may_answer(event, question):
            self.chats.reply(event, texts.may_not_approve(event.source.platform))
            return
        answer = question.answer_in(value) if question is not None else None
        if question is not None and answer is not None:
            by = event.source.participant or ""
            give = partial(give_answer, self.home, question, answer, by=by)
            if await connection.stored(give):
                return
        self.chats.reply(event, texts.question_closed())

    async def _stop_draft(self, key: str, event: MessageEvent) -> None:
        """Obey a press of the stop button of a draft, if its turn still runs: the next turn is another
        draft."""
        handle = self.mailbox.work.running.handle(key)
        if handle is not None and event.text == f"{STOPPED_DRAFT}{draft_number(handle.run_id)}":
            await self._obey(Command("stop"), key, event)
        else:
            await self.mailbox.store_done(key, event)

    async def _refuse(self, event: MessageEvent) -> None:
        """Store nothing of a sender without access; a stranger may be shown a pairing code. The event is
        acknowledged all the same: else it would come again for ever."""
        source = event.source
        log.info("access refused", platform=source.platform, user=source.user_id)
        code = await self.access.new_code(source)
        if code is not None:
            # A notice is stored nowhere, and so the code is not stored either.
            self.chats.reply(event, texts.pairing_code(code, pairing.VALID))
