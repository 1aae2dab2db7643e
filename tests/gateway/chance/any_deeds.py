"""What an agent does in a story that chance writes."""

from __future__ import annotations

import trio

from hermes_trio.base.events import ToolCompleted, ToolStarted
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.transcript import ToolCall

DEEDS = [
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
"""What it may do about a message, whose first word says it."""


async def done(turn: TurnContext, deed: str) -> str | None:
    """Do this about what was said; the answer."""
    tag = f"[{turn.run_id}]"
    if deed == "slow":
        await trio.sleep(3)
    await turn.requesting()
    match deed:
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
            await turn.send_file("file.txt", b"what it says", "Look.")
    for number in range(100 if deed == "long" else 4):
        await turn.say(f"word {number} " if number else f"{tag} ")
        await trio.sleep(0.7)
        if deed == "tools":
            call = ToolCall(f"call-{number}", "terminal", "{}")
            await turn.calls(turn.segment, call)
            await turn.emit(ToolStarted(call.name, call.id))
            await trio.sleep(1)
            await turn.emit(ToolCompleted(call.name, call.id))
            await turn.result(call, "done")
            await turn.steered()
    if deed in ("hang", "resist"):
        try:
            await trio.sleep_forever()
        finally:
            with trio.move_on_after(1 if deed == "resist" else 0, shield=True):
                await trio.sleep_forever()
    return f"{tag} another text." if deed == "other" else None
