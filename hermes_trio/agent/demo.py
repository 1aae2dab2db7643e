"""An agent for the first five minutes: it needs no network and no key, and shows what the gateway does.

It streams its answers, counts slowly, works for a minute, runs a real process, and says how a real model
is connected.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import trio

from ..host.groups import Process
from ..messages import MessageEvent
from ..state.transcript import Message


class Speaker(Protocol):
    """What the demo uses of a turn."""

    @property
    def said(self) -> Sequence[MessageEvent]: ...
    @property
    def history(self) -> Sequence[Message]: ...

    async def say(self, text: str) -> None: ...
    def running(self, command: Sequence[str]) -> AbstractAsyncContextManager[Process]: ...


ABOUT = (
    "I am the demo: no model, no network, only this program. Try:\n"
    "- **count to 10**: I count slowly, so that you can stop me (/stop, or Ctrl-C in the terminal)\n"
    "- **work**: I am busy for a minute, so that you can restart the gateway in the middle\n"
    "- **run**: I start a real process and show what it writes; it ends with my turn, however that ends\n"
    "- anything else: I repeat it, a few words at a time\n\n"
    "For a real model put its key into the environment (OPENAI_API_KEY or ANTHROPIC_API_KEY), or its "
    "server into config.yaml:\n\n"
    "```yaml\nmodel:\n  provider: openai\n  base_url: http://localhost:8080/v1\n  name: your-model\n```\n"
)

_COUNT = re.compile(r"\bcount\b(?:\D*(\d{1,3}))?", re.IGNORECASE)
_WORK = re.compile(r"\bwork\b", re.IGNORECASE)
_RUN = re.compile(r"^\W*run\b", re.IGNORECASE)
_HELLO = re.compile(r"^\W*(hi|hello|hey|help|who are you|what are you)\b", re.IGNORECASE)


async def demo(turn: Speaker) -> None:
    """Answer one message. What was said is the answer."""
    said = "\n".join(event.text for event in turn.said)
    if not turn.said:
        # A cut turn is taken up again: what it was to answer stands in the transcript.
        asked = [row for row in turn.history if row.role == "user"]
        said = "\n".join(row.content for row in asked if row.turn_id == asked[-1].turn_id)
        await turn.say("Where was I? ")
    if counting := _COUNT.search(said):
        await _count(turn, int(counting[1] or 10))
    elif _WORK.search(said):
        await _work(turn)
    elif _RUN.match(said):
        await _run(turn)
    elif _HELLO.match(said):
        await _stream(turn, ABOUT, pause=0.02)
    else:
        await _stream(turn, f"You said: {said}", pause=0.05)


async def _count(turn: Speaker, end: int) -> None:
    for number in range(1, end + 1):
        await turn.say(f"{number}\n")
        await trio.sleep(1)
    await turn.say("Done.")


async def _work(turn: Speaker) -> None:
    await turn.say("Working for a minute")
    for _ in range(12):
        await trio.sleep(5)
        await turn.say(" .")
    await turn.say(" done.")


async def _run(turn: Speaker) -> None:
    program = "import sys, time\nfor n in range(5): print('line', n + 1, flush=True); time.sleep(1)"
    async with turn.running([sys.executable, "-c", program]) as process:
        await turn.say("Running a process for five seconds.\n")
        code = await process.wait()
        text = process.output.tail.decode(errors="replace")
    await turn.say(f"```\n{text.strip()}\n```\nIt ended with exit code {code}.")


async def _stream(turn: Speaker, text: str, *, pause: float) -> None:
    for piece in re.findall(r"\s*\S+|\s+$", text):
        await turn.say(piece)
        await trio.sleep(pause)
