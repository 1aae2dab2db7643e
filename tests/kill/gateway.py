"""A gateway process to be killed by a test: `python gateway.py <home> <witness>`.

It is the real gateway with a scripted agent: the answer repeats the first line of a message, and a second
line is a command to run and the seconds after which the agent stops waiting for it. Every run is recorded in
the witness file, which the gateway does not know.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import trio

from hermes_trio import load_config, open_gateway
from hermes_trio.base.events import ToolCompleted, ToolStarted
from hermes_trio.gateway.links.adapters import find_adapters
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.transcript import ToolCall, TranscriptRow

WITNESS = Path(sys.argv[2])


async def agent(turn: TurnContext) -> None:
    """Answer the messages, or those of the cut turn that is resumed."""
    await turn.requesting()
    asked = [event.text for event in turn.said] or cut(turn.history)
    said = [text.partition("\n")[0] for text in asked]
    for line in said:
        note(f"{turn.run_id} {line}")
    if not turn.said:
        await turn.say("Where was I? ")
    for tool in [text.partition("\n")[2] for text in asked if "\n" in text and turn.said]:
        seconds, command = tool.split(" ", 1)
        await use(turn, command, float(seconds))
    for piece in ("You", " said: ", *"\n".join(said)):
        await turn.say(piece)
        await trio.sleep(0.005)


def cut(history: Sequence[TranscriptRow]) -> list[str]:
    """Return the messages of the cut turn that is resumed."""
    asked = [row for row in history if row.role == "user"]
    return [row.content for row in asked if row.turn_id == asked[-1].turn_id]


async def use(turn: TurnContext, command: str, seconds: float) -> None:
    """Run a command until it ends, or for at most `seconds`."""
    call = ToolCall("call-1", "terminal", command)
    await turn.calls("", call)
    await turn.emit(ToolStarted("terminal", call.id))
    async with turn.running(command) as process:
        with trio.move_on_after(seconds):
            await process.wait()
    await turn.result(call, f"It wrote {process.output.total} bytes.")
    await turn.emit(ToolCompleted("terminal", call.id))


def note(line: str) -> None:
    """Append a line to the witness file, which survives a kill."""
    fd = os.open(WITNESS, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(fd, f"{line}\n".encode())
    os.close(fd)


async def main(home: Path) -> None:
    config = load_config(home, os.environ).config
    async with open_gateway(home, config, agent=agent, adapters=find_adapters(config)):
        await trio.sleep_forever()


if __name__ == "__main__":
    logging.basicConfig(filename=WITNESS.with_name("gateway.log"), level=logging.INFO)
    trio.run(main, Path(sys.argv[1]))
