"""A trial of a platform in the terminal, without an account: the user is the person in a simulated chat.

The gateway, the model and the adapter are the real ones; only the servers of the platform are simulated, on
this machine. The home of the trial is a temporary directory, so nothing stays of it.
"""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec
import trio

from ...agent.model_agent import open_agent
from ...base.world import World
from ...config.config_file import Loaded
from ...config.schema import PlatformConfig
from ...gateway.ending.control import Control
from ...gateway.ending.endings_table import Cause, Ending
from ...gateway.facade import RunningGateway
from ...gateway.serve import Setup, serve
from ...platform.trial import OpenTrial, Trial, TrialMessage
from ..terminal.chat import Keyboard
from ..terminal_output import visible

STOP = "stop"
"""The button of a draft."""
HINT = "Write to the bot. [LABEL] presses a button, [stop] the stop button of an answer. Ctrl-D leaves.\n"


class Screen(Protocol):
    """The output for the texts of the chat."""

    def write(self, text: str, /) -> object: ...
    def flush(self) -> object: ...


class ChatView:
    """The texts of a chat that are on the screen: each is printed as far as it is new."""

    def __init__(self, placeholder: str) -> None:
        self._placeholder = placeholder
        self._draft = ""
        """Id of the newest draft that has not become a message."""
        self._printed: dict[str, str] = {}
        """The printed text of each message and draft by its id."""

    def news(self, messages: Sequence[TrialMessage]) -> str:
        """Return the output for a chat as it looks now."""
        out = ""
        for message in messages:
            if message.text == self._placeholder:
                continue
            if message.is_draft:
                self._draft = message.id
            draft = self._printed.get(self._draft)
            if draft and message.id not in self._printed and message.text.startswith(draft):
                self._printed[message.id] = self._printed.pop(self._draft)
            out += self._grown(message.id, message.text)
            out += self._grown(f"{message.id} buttons", " ".join(f"[{label}]" for label in message.buttons))
        return out

    def _grown(self, key: str, text: str) -> str:
        before = self._printed.get(key, "")
        if text == before:
            return ""
        self._printed[key] = text
        return text[len(before) :] if before and text.startswith(before) else f"\n{text}"


def act(trial: Trial, line: str) -> str:
    """Do what a typed line says: send it, or press the button that it names. Return a text for the user if
    that is not possible."""
    label = line.strip()[1:-1] if line.strip().startswith("[") and line.strip().endswith("]") else ""
    try:
        if not label:
            trial.say(line)
        elif label == STOP:
            trial.stop()
        else:
            trial.press(label)
    except KeyError:
        return f"There is no button [{label}].\n"
    return ""


async def run_trial(loaded: Loaded, open_trial: OpenTrial, keyboard: Keyboard, screen: Screen) -> None:
    """Run a gateway with the simulated platform, until the user leaves."""
    with tempfile.TemporaryDirectory(prefix="hermes-trio-trial-") as folder:
        async with open_trial() as trial, trio.open_nursery() as person:
            control = Control()
            async with trio.open_nursery() as gateway:
                await gateway.start(_serve, Path(folder), loaded, trial, control)
                _print(screen, HINT)
                person.start_soon(_show, trial, screen)
                person.start_soon(_type, trial, keyboard, screen, control)
                person.start_soon(_leave_on_signal, control)
            person.cancel_scope.cancel(reason="the gateway has ended")


async def _serve(
    home: Path,
    loaded: Loaded,
    trial: Trial,
    control: Control,
    task_status: trio.TaskStatus[RunningGateway],
) -> None:
    platform = PlatformConfig(allow_from="all", allow_admin_from=(trial.person,))
    config = msgspec.structs.replace(loaded.config, platforms={trial.adapter.name: platform})
    world = World()
    agent = open_agent(loaded, loaded.environ, world, tell=lambda text: None)
    setup = Setup(home, config, agent=agent, adapters=[trial.adapter], world=world)
    await serve(setup, control=control, task_status=task_status)


async def _show(trial: Trial, screen: Screen) -> None:
    """Print what is new in the chat, after each change."""
    view = ChatView(trial.adapter.traits.placeholder)
    while True:
        _print(screen, view.news(trial.shown()))
        await trial.changed()


async def _type(trial: Trial, keyboard: Keyboard, screen: Screen, control: Control) -> None:
    """Do what the user types, and leave after the last line."""
    while (line := await keyboard.read()) is not None:
        if line.strip():
            _print(screen, act(trial, line))
    _leave(control)


async def _leave_on_signal(control: Control) -> None:
    with trio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async for _ in signals:
            _leave(control)


def _leave(control: Control) -> None:
    control.ask(Ending(Cause.PLANNED, grace=0, asked_by="terminal"))


def _print(screen: Screen, text: str) -> None:
    if text:
        screen.write(visible(text))
        screen.flush()
