"""`hermes-trio chat`: a chat with the agent in this terminal, or one question from a pipe.

The running gateway of the home answers. Where none runs, the command runs one until it ends.

| End of the chat | Running gateway | Gateway of our own |
|---|---|---|
| Ctrl-D, /quit, Ctrl-C while nothing runs | The turn goes on. | The turn is stopped, messages are dropped. |
| SIGTERM, a closed terminal, a kill | The turn goes on. | The turn is cut, and the next start resumes it. |
| a question from a pipe | Ctrl-C and SIGTERM stop its turn. | the same |
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Awaitable, Callable
from contextlib import suppress

import click
import trio

from ...base.errors import GatewayError
from ...base.world import World
from ...config.config_file import home_directory
from ...gateway.commands.table import command_menu
from ...gateway.ending.endings_table import Ending, Supervisor, consequences
from ...host.home.home_lock import is_locked
from .config_command import load_and_warn

STOP_TIMEOUT = 1.0
"""Seconds for stopping the turn at the end. A hanging disk does not delay the end longer."""


@click.command()
@click.option("--session", metavar="ID", help="Continue this session.")
@click.option("--new", is_flag=True, help="Begin a new session; otherwise the last one goes on.")
def command(session: str | None, new: bool) -> None:
    """Talk to the agent in this terminal.

    The running gateway of the home answers, and the same session goes on in the page. Where no gateway runs,
    the command runs one until it ends.

    A question can also come from a pipe. The command prints the answer and ends with exit code 0, or with 1
    if there is no answer.
    """
    if sys.stdin is None or sys.stdout is None:
        raise GatewayError(
            "There is no terminal here: standard input or standard output is closed. "
            "Start it in a terminal, or send a question through a pipe."
        )
    if not sys.stdin.isatty():
        from ..terminal.one_question import read_text

        question = read_text(sys.stdin.fileno())
        if not question.strip():
            raise GatewayError(
                "There is no question: standard input is empty. "
                "Write one to it, or start the chat in a terminal."
            )
        ask_once(question, session, goes_on=not new)
        return
    ending = trio.run(_chat, session, new)
    if ending is not None and ending.kind == "restart":
        from .run_command import leave

        leave(consequences(ending, Supervisor.NONE).exit)


def ask_once(text: str, session: str | None, *, goes_on: bool) -> None:
    """Print the answer to one question. Raises `NotAnswered`. `goes_on` is for the last session of a
    terminal."""
    from ..terminal.one_question import NotAnswered

    if not trio.run(_ask, text, session, goes_on):
        raise NotAnswered


async def _chat(session_id: str | None, new: bool) -> Ending | None:
    """Talk in the terminal, and return the ending of a gateway of our own."""
    from ..terminal.chat import OWN_COMMANDS, Chat, last_session_id, new_session_id
    from ..terminal.completion import MessageCompleter
    from ..terminal.conversation import Conversation
    from ..terminal.gateway_api import open_api
    from ..terminal.home_gateway import GatewayPlace, with_gateway
    from ..terminal.line_editor import open_line_editor
    from ..terminal.screen import screen_of
    from ..terminal.typed_history import FILE, TypedHistory

    home, loaded, world = home_directory(os.environ), load_and_warn(), World()
    completer = MessageCompleter({**command_menu(), **OWN_COMMANDS})

    async def talk(place: GatewayPlace) -> None:
        async with (
            open_line_editor(TypedHistory(home / FILE), completer) as editor,
            open_api(place.address, place.key) as api,
        ):
            known = session_id or (None if new else await last_session_id(api))
            session = Conversation(known or new_session_id(world))
            chat = Chat(
                api, screen_of(editor), editor, session, place.address, place.is_own, world, place.notices
            )
            if await _until_signal(chat.run, chat.stop) and place.is_own:
                with trio.move_on_after(STOP_TIMEOUT):
                    await chat.stop()
        with suppress(OSError):  # the terminal was closed
            click.echo()
            if not place.is_own and chat.session.run_id and is_locked(home):
                click.echo("The turn goes on in the gateway. `hermes-trio chat` shows it again.")

    return await with_gateway(home, loaded, talk)


async def _ask(text: str, session_id: str | None, goes_on: bool) -> bool:
    """Ask a question, and return whether it was answered."""
    from ..terminal.chat import last_session_id, new_session_id
    from ..terminal.conversation import Conversation
    from ..terminal.gateway_api import open_api
    from ..terminal.home_gateway import GatewayPlace, with_gateway
    from ..terminal.one_question import OneQuestion
    from ..terminal.screen import PipeScreen

    is_answered, world = False, World()

    async def talk(place: GatewayPlace) -> None:
        nonlocal is_answered
        async with open_api(place.address, place.key) as api:
            known = session_id or (await last_session_id(api) if goes_on else None)
            session = Conversation(known or new_session_id(world))
            question = OneQuestion(api, PipeScreen(), session, text, world)
            try:
                if not await _until_signal(question.run, None):
                    with trio.move_on_after(STOP_TIMEOUT):
                        await question.stop()
            except* OSError:  # the output was closed: no answer is wanted
                with trio.move_on_after(STOP_TIMEOUT):
                    await question.stop()
            is_answered = question.is_answered

    await with_gateway(home_directory(os.environ), load_and_warn(), talk)
    return is_answered


async def _until_signal(
    job: Callable[[], Awaitable[None]], stop_turn: Callable[[], Awaitable[bool]] | None
) -> bool:
    """Run a job until it ends or a signal ends it. Return whether a person ended it. Ctrl-C stops a running
    turn first, if `stop_turn` can."""
    left_by_person = False
    hang_up = getattr(signal, "SIGHUP", signal.SIGTERM)
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM, hang_up) as signals:
        async with trio.open_nursery() as nursery:

            async def run() -> None:
                nonlocal left_by_person
                await job()
                left_by_person = True
                nursery.cancel_scope.cancel(reason="the chat has ended")

            nursery.start_soon(run)
            async for number in signals:
                if number == signal.SIGINT and stop_turn is not None:
                    if await stop_turn():
                        continue
                    left_by_person = True
                break
            nursery.cancel_scope.cancel(reason="a signal ends the chat")
    return left_by_person
