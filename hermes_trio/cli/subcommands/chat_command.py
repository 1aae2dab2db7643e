"""`hermes-trio chat`: a gateway for one person at this terminal, or for one question from a pipe.

| End of the chat | Effect on the running turn and on waiting messages |
|---|---|
| Ctrl-D | The turn is stopped and the messages are dropped, so nothing is answered later. |
| SIGTERM, a closed terminal, a kill | The turn is cut, and the next start resumes it. |
| a question from a pipe | The command waits for the turn; Ctrl-C and SIGTERM stop it. |
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import click
import msgspec
import trio

from ... import __version__
from ...agent.model_agent import open_agent
from ...base.errors import GatewayError
from ...base.world import World
from ...config.config_file import Loaded, home_directory
from ...config.schema import GatewayConfig, PlatformConfig
from ...gateway.commands import parse
from ...gateway.commands.stop import stop_session
from ...gateway.ending.control import Control
from ...gateway.ending.endings_table import Cause, Ending, Supervisor, consequences
from ...gateway.ending.triggers import signals_we_know, watch_drain_request
from ...gateway.facade import RunningGateway
from ...gateway.outbound.texts import database_damaged
from ...gateway.serve import Setup, serve
from ...host.home.home_lock import refuse_if_busy
from ...host.loop.task_tree import waits_noted, write_tree_on_signal
from ...state.db.engine import Db
from ...state.tables import inbox, turns
from ...state.tables.turns import Outcome
from ..console import GROWING, ME, PERSON, PROMPT, Console, Keyboard, PipedQuestion, Screen, read_question
from ..logs import log_to_file
from ..terminal_output import visible
from .config_command import config_source, load_and_warn

STOP_TIMEOUT = 1.0
"""Seconds for storing that nothing is left to be answered. A hanging disk does not delay the end longer."""


class NotAnswered(GatewayError):
    """The question from the pipe has no answer. The reason was already printed in place of the answer."""

    def __init__(self) -> None:
        super().__init__("The question was not answered, and is not kept. Ask it again.")


@click.command()
def command() -> None:
    """Talk to the agent in this terminal.

    A question can also come from a pipe. The command prints the answer and ends with exit code 0, or with 1
    if there is no answer.
    """
    if sys.stdin is None or sys.stdout is None:
        raise GatewayError(
            "There is no terminal here: standard input or standard output is closed. "
            "Start it in a terminal, or send a question through a pipe."
        )
    home = home_directory(os.environ)
    loaded = load_and_warn()
    refuse_if_busy(home)
    question = None if sys.stdin.isatty() else read_question(sys.stdin.fileno())
    with log_to_file(home, loaded.config, loaded.environ):
        if question is None:
            click.echo(f"hermes-trio {__version__}, {config_source(loaded)}")
            click.echo("/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.")
        config = _for_a_terminal(loaded.config, is_piped=question is not None)
        ending = trio.run(_run_chat, home, replace(loaded, config=config), question)
    if ending is not None and ending.kind == "restart":
        from .run_command import leave  # imported here, because it imports the web

        leave(consequences(ending, Supervisor.NONE).exit)


def _for_a_terminal(config: GatewayConfig, *, is_piped: bool) -> GatewayConfig:
    """Return the configuration with the terminal as its only platform. A pipe cannot answer questions: in it
    an approval is denied at once, and a question of the agent stays without an answer."""
    streaming = msgspec.structs.replace(config.streaming, edit_interval=0.03, cursor=GROWING)
    if is_piped:
        config = msgspec.structs.replace(
            config,
            agent=msgspec.structs.replace(config.agent, clarify_timeout=0),
            approvals=msgspec.structs.replace(config.approvals, timeout=0),
        )
    return msgspec.structs.replace(
        config,
        streaming=streaming,
        platforms={Console.name: PlatformConfig(allow_from="all", allow_admin_from=(PERSON,))},
    )


async def _run_chat(home: Path, loaded: Loaded, question: str | None) -> Ending | None:
    """Run the gateway of the chat until it has ended, and return its ending."""
    with trio.open_signal_receiver(*_signals()) as signals, waits_noted() as waits:
        async with _open_terminal(question) as terminal, trio.open_nursery() as nursery:
            chat = _Chat(home, loaded, terminal, is_piped=question is not None)
            await nursery.start(watch_drain_request, chat.control, home, chat.world)
            await nursery.start(write_tree_on_signal, home, chat.world, waits)
            gateway = await nursery.start(chat.serve, nursery.cancel_scope)
            if gateway.home.database.damaged_copy is not None:
                terminal.report(database_damaged(gateway.home.database.damaged_copy.name))
            nursery.start_soon(chat.leave_after_last_message, gateway)
            async for number in signals:
                await chat.obey_signal(gateway, signal.Signals(number))
    if question is None:
        with suppress(OSError):  # the terminal was closed
            click.echo()
    elif not chat.is_answered:
        raise NotAnswered
    return chat.control.current


@dataclass(frozen=True, slots=True)
class _Terminal:
    """The input and output of a chat."""

    keyboard: Keyboard
    screen: Screen
    notices: Screen
    """The output for lines that are no part of an answer."""
    prompt: str
    """The prompt that the console prints; empty if the keyboard prints it."""

    def report(self, text: str) -> None:
        """Print a line that is no part of an answer."""
        self.notices.write(f"{visible(text)}\n")
        self.notices.flush()


@dataclass(slots=True)
class _Chat:
    """One run of the gateway in a terminal or for a pipe."""

    home: Path
    loaded: Loaded
    terminal: _Terminal
    is_piped: bool
    world: World = field(default_factory=World)
    control: Control = field(default_factory=Control)
    last_message: trio.Event = field(default_factory=trio.Event)
    """Set when the person sends no further message."""
    is_answered: bool = True
    """False if the question from the pipe has no answer."""

    async def serve(self, scope: trio.CancelScope, *, task_status: trio.TaskStatus[RunningGateway]) -> None:
        """Run the gateway with the console as its only platform, and cancel `scope` when it has ended."""
        # A closed output of a pipe means that no answer is wanted, as a signal does.
        on_gone = partial(signal.raise_signal, signal.SIGTERM) if self.is_piped else self._leave
        console = Console(
            self.last_message.set,
            on_gone,
            self.world.new_id,
            keyboard=self.terminal.keyboard,
            screen=self.terminal.screen,
            prompt=self.terminal.prompt,
        )
        report = self.terminal.report
        await serve(
            Setup(
                self.home,
                self.loaded.config,
                agent=open_agent(self.loaded, self.loaded.environ, self.world, tell=report),
                adapters=[console],
                world=self.world,
            ),
            control=self.control,
            task_status=task_status,
        )
        scope.cancel(reason="the gateway has ended")

    async def leave_after_last_message(self, gateway: RunningGateway) -> None:
        """End the gateway after the last message: at once in a terminal, after the answer for a pipe."""
        await self.last_message.wait()
        if self.is_piped:
            await _wait_for_turns(gateway)
            self.is_answered = await gateway.home.database.read(_is_answered)
        await _stop_turns(gateway)
        self._leave()

    async def obey_signal(self, gateway: RunningGateway, number: signal.Signals) -> None:
        """Stop the running turn, restart, or leave, as the signal asks."""
        handles = gateway.work.running.handles()
        if self.is_piped:
            self.is_answered = False
            await _stop_turns(gateway)
            self._leave()
        elif number.name == "SIGUSR1":
            grace = self.loaded.config.agent.restart_drain_timeout
            self.control.ask(Ending(Cause.RESTART, grace, asked_by=number.name))
        elif number.name in ("SIGTERM", "SIGHUP") or not handles:
            self._leave()
        else:  # Ctrl-C stops the running turn, and leaves if there is none
            for handle in handles:
                handle.end(Outcome.STOPPED)

    def _leave(self) -> None:
        self.control.ask(Ending(Cause.PLANNED, grace=0, asked_by="terminal"))


def _signals() -> list[signal.Signals]:
    """Return the signals that end a turn or the chat. SIGHUP means that the terminal was closed."""
    hang_up = getattr(signal, "SIGHUP", None)
    return [*signals_we_know(), hang_up] if hang_up else signals_we_know()


@asynccontextmanager
async def _open_terminal(question: str | None) -> AsyncIterator[_Terminal]:
    """Open the input line of the terminal; for a question from a pipe, the standard streams."""
    if question is not None:
        yield _Terminal(PipedQuestion(question), sys.stdout, sys.stderr, prompt="")
        return
    from ..line_editor import open_line_editor  # imported here: it takes 0.2 s

    async with open_line_editor() as editor:
        yield _Terminal(editor, editor, editor, prompt="" if editor.draws else PROMPT)


async def _stop_turns(gateway: RunningGateway) -> None:
    """Stop the running turn and drop the waiting messages: nobody is left to read an answer."""
    with trio.move_on_after(STOP_TIMEOUT):
        await stop_session(
            gateway.home, gateway.work.running, gateway.home.store.key_of(ME), with_background=True
        )


async def _wait_for_turns(gateway: RunningGateway) -> None:
    """Wait until every message of the console has its answer, or until no turn can begin any more."""
    while gateway.control.takes_turns:
        version = gateway.home.board.version
        waiting = await gateway.home.database.read(inbox.waiting_keys, Console.name, Console.account)
        if not waiting and not gateway.work.running:
            return
        await gateway.home.board.changed_since(version)


def _is_answered(db: Db) -> bool:
    """Return whether a turn answered the latest message; a command needs no turn."""
    last = inbox.latest(db, Console.name, Console.account)
    if last is None or last.turn_id is None:
        return last is not None and parse.parse(last.event) is not None
    turn = turns.get(db, last.turn_id)
    return turn is not None and turn.outcome is Outcome.ANSWERED
