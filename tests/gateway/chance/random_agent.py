"""Behaviours of the agent in a random story."""

from __future__ import annotations

import trio

from hermes_trio.base.events import ToolCompleted, ToolStarted
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.transcript import ToolCall

BEHAVIOURS = [
    "plain",
    "stream",
    "long",
    "slow",
    "tools",
    "hang",
    "resist",
    "raise",
    "ask",
    "may",
    "silence",
    "empty",
    "other",
    "busy",
    "file",
]
"""Behaviours; the first word of a message selects one."""


async def behave(turn: TurnContext, behaviour: str) -> str | None:
    """Behave in this way, and return the answer."""
    tag = f"[{turn.run_id}]"
    if behaviour == "slow":
        await trio.sleep(3)
    await turn.requesting()
    match behaviour:
        case "plain":
            return f"{tag} plainly."
        case "empty":
            return ""
        case "raise":
            await turn.say(f"{tag} I try. ")
            raise ValueError(f"trouble in {tag}")
        case "silence":
            await trio.sleep_forever()
        case "ask":
            await turn.say(f"{tag} I ask. ")
            await turn.ask("Which one?", ["this", "that"], within=100)
        case "may":
            await turn.may("rm everything")
        case "busy":
            with turn.not_now("I write"):
                await trio.sleep(10)
        case "file":
            await turn.send_file("file.txt", b"what it says", "Check.")
    for number in range(100 if behaviour == "long" else 4):
        await turn.say(f"word {number} " if number else f"{tag} ")
        await trio.sleep(0.7)
        if behaviour == "tools":
            call = ToolCall(f"call-{number}", "terminal", "{}")
            await turn.calls(turn.segment, call)
            await turn.emit(ToolStarted(call.name, call.id))
            await trio.sleep(1)
            await turn.emit(ToolCompleted(call.name, call.id))
            await turn.result(call, "done")
            await turn.steered()
    if behaviour in ("hang", "resist"):
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1 if behaviour == "resist" else 0, shield=True):
                await trio.sleep_forever()
    return f"{tag} another text." if behaviour == "other" else None
