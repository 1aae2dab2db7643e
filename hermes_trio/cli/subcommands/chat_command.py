"""`hermes-trio chat`: a gateway in this terminal, with one person in it; or one question from a pipe.

| how it is left | what becomes of a turn that runs, and of messages that wait |
|---|---|
| Ctrl-D | the turn is stopped, and the messages are dropped: nothing is answered later, unasked |
| SIGTERM, a closed terminal, a kill | the turn is cut, and the next start goes on with it |
| a question from a pipe | the turn is waited for, as long as a turn may take; Ctrl-C and SIGTERM stop it |
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
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
from ...gateway.facade import Gateway
from ...gateway.outbound.texts import database_damaged
from ...gateway.serve import serve
from ...host.home.home_lock import refuse_if_busy
from ...host.loop.task_tree import waits_noted, write_tree_on_signal
from ...state.tables import inbox, turns
from ...state.tables.turns import Outcome
from ..console import GROWING, ME, PERSON, PROMPT, Console, Keyboard, Question, Screen, read_question
from ..logs import log_to_file
from ..terminal_output import visible
from .config_command import load_and_warn, whereabouts

LETS_GO_WITHIN = 1.0
"""Seconds for storing that nothing is left to be answered; a disk that hangs keeps nobody here."""


class NotAnswered(GatewayError):
    """The question from the pipe has no answer; what went wrong has been shown in its place."""

    def __init__(self) -> None:
        super().__init__("The question was not answered, and is not kept. Ask it again.")


@click.command()
def command() -> None:
    """Talk to the agent in this terminal.

    A question can also come from a pipe: it is answered, and the command ends with 0; with 1 if there was no
    answer.
    """
    if sys.stdin is None or sys.stdout is None:
        raise GatewayError("There is no terminal here: standard input or standard output is closed.")
    home = home_directory(os.environ)
    loaded = load_and_warn()
    refuse_if_busy(home)
    question = None if sys.stdin.isatty() else read_question(sys.stdin.fileno())
    with log_to_file(home, loaded.config, loaded.environ):
        if question is None:
            click.echo(f"hermes-trio {__version__}, {whereabouts(loaded)}")
            click.echo("/help lists commands, Ctrl-C stops an answer, Ctrl-D leaves.")
        config = _for_a_terminal(loaded.config, is_asked_once=question is not None)
        ending = trio.run(_chat, home, replace(loaded, config=config), question)
    if ending is not None and ending.kind == "restart":
        from .run_command import leave  # here: it brings the web along

        leave(consequences(ending, Supervisor.NONE).exit)


def _for_a_terminal(config: GatewayConfig, *, is_asked_once: bool) -> GatewayConfig:
    """Return the same configuration with nobody in it but the person at the terminal. Who asks through a
    pipe cannot be asked anything: there an approval is a no, and a question has no answer."""
    streaming = msgspec.structs.replace(config.streaming, edit_interval=0.03, cursor=GROWING)
    if is_asked_once:
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


async def _chat(home: Path, loaded: Loaded, question: str | None) -> Ending | None:
    control, world, no_more = Control(), World(), trio.Event()

    def leave() -> None:
        control.ask(Ending(Cause.PLANNED, grace=0, asked_by="terminal"))

    answered = True
    with trio.open_signal_receiver(*_signals()) as signals, waits_noted() as waits:
        async with _terminal(question) as (keyboard, screen, prompt), trio.open_nursery() as nursery:
            await nursery.start(watch_drain_request, control, home, world)
            await nursery.start(write_tree_on_signal, home, world, waits)
            # Who closes the pipe of the answer wants none, which is what a signal says.
            gone = leave if question is None else partial(signal.raise_signal, signal.SIGTERM)
            console = Console(
                no_more.set, gone, world.new_id, keyboard=keyboard, screen=screen, prompt=prompt
            )
            tell = _line_by_line(screen if question is None else sys.stderr)

            async def serving(task_status: trio.TaskStatus[Gateway]) -> None:
                await serve(
                    home,
                    loaded.config,
                    agent=open_agent(loaded, loaded.environ, world, tell=tell),
                    adapters=[console],
                    control=control,
                    world=world,
                    task_status=task_status,
                )
                nursery.cancel_scope.cancel(reason="the gateway has ended")

            gateway = await nursery.start(serving)
            if gateway.home.database.damaged_copy is not None:
                tell(database_damaged(gateway.home.database.damaged_copy.name))

            async def leave_after_the_last_message() -> None:
                nonlocal answered
                await no_more.wait()
                if question is not None:
                    await _settled(gateway)
                    answered = await gateway.home.database.read(_is_answered)
                await _let_go(gateway)
                leave()

            nursery.start_soon(leave_after_the_last_message)
            async for number in signals:
                name = signal.Signals(number).name
                tasks = gateway.work.running.handles()
                if question is not None:
                    answered = False
                    await _let_go(gateway)
                    leave()
                elif name == "SIGUSR1":
                    grace = loaded.config.agent.restart_drain_timeout
                    control.ask(Ending(Cause.RESTART, grace, asked_by=name))
                elif name in ("SIGTERM", "SIGHUP") or not tasks:
                    leave()
                else:  # Ctrl-C stops what runs; with nothing to stop, it leaves
                    for task in tasks:
                        task.end(Outcome.STOPPED)
    if question is None:
        with suppress(OSError):  # the terminal was closed
            click.echo()
    elif not answered:
        raise NotAnswered
    return control.current


def _signals() -> list[signal.Signals]:
    """Return the signals that end something here. SIGHUP says that the terminal was closed."""
    hang_up = getattr(signal, "SIGHUP", None)
    return [*signals_we_know(), hang_up] if hang_up else signals_we_know()


@asynccontextmanager
async def _terminal(question: str | None) -> AsyncIterator[tuple[Keyboard, Screen, str]]:
    """Open where messages come from and where answers go, with the prompt that the console has to show."""
    if question is not None:
        yield Question(question), sys.stdout, ""
        return
    from ..line_editor import open_line_editor  # here: it takes 0.2 s to load

    async with open_line_editor() as editor:
        yield editor, editor, "" if editor.draws else PROMPT


def _line_by_line(screen: Screen) -> Callable[[str], object]:
    def tell(text: str) -> None:
        screen.write(f"{visible(text)}\n")
        screen.flush()

    return tell


async def _let_go(gateway: Gateway) -> None:
    """Stop the turn that runs, and drop what waits: nobody is here any more to read an answer."""
    with trio.move_on_after(LETS_GO_WITHIN):
        await stop_session(
            gateway.home, gateway.work.running, gateway.home.store.key_of(ME), with_background=True
        )


async def _settled(gateway: Gateway) -> None:
    """Wait until everything that was said here is dealt with, or until no turn may begin any more."""
    while gateway.control.takes_turns:
        version = gateway.home.board.version
        waiting = await gateway.home.database.read(inbox.waiting_keys, Console.name, Console.account)
        if not waiting and not gateway.work.running:
            return
        await gateway.home.board.changed_since(version)


def _is_answered(db: sqlite3.Connection) -> bool:
    """Whether the message that came last was answered by a turn; a command needs none."""
    last = inbox.latest(db, Console.name, Console.account)
    if last is None or last.turn_id is None:
        return last is not None and parse.parse(last.event) is not None
    turn = turns.get(db, last.turn_id)
    return turn is not None and turn.outcome is Outcome.ANSWERED
