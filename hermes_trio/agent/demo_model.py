"""The demo: a model for the first five minutes, without network and key, that shows what the gateway does.

It is used by the same loop and with the same tools as a real model, and knows only the request: the last
message, or the last results, determine its text and its tool calls. An answer is an iterator of items and of
pauses in seconds; only `stream` waits.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import AsyncIterator, Generator, Iterator, Sequence
from contextlib import asynccontextmanager

import msgspec
import trio

from ..base.world import World
from ..state.tables.transcript import ToolCall
from .providers.model import Finished, Item, ModelRequest, Reason, TextDelta, ToolCallReady
from .providers.model_messages import AssistantMessage, Message, ToolResult, UserMessage

ABOUT = (
    "I am the demo: no model, no network, only this program. Try:\n"
    "- **count to 10**: I count slowly, so that you can stop me (/stop, or Ctrl-C in the terminal)\n"
    "- **work**: I am busy for a minute, so that you can restart the gateway in the middle\n"
    "- **run**: I start a real process and show what it writes; it ends with my turn, however that ends\n"
    "- **ask**: I ask you something, and wait for the answer\n"
    "- **danger**: I want to do something that needs your yes; it does no harm\n"
    "- anything else: I repeat it, a few words at a time\n\n"
    "For a real model put its key into the environment (OPENAI_API_KEY or ANTHROPIC_API_KEY), or its "
    "server into config.yaml:\n\n"
    "```yaml\nmodel:\n  provider: openai\n  base_url: http://localhost:8080/v1\n  name: your-model\n```\n"
)

_COUNT = re.compile(r"\bcount\b(?:\D*(\d{1,3}))?", re.IGNORECASE)
_NUMBER = re.compile(r"\d+$", re.MULTILINE)
_WORK = re.compile(r"\bwork\b", re.IGNORECASE)
_RUN = re.compile(r"^\W*run\b", re.IGNORECASE)
_ASK = re.compile(r"^\W*ask\b", re.IGNORECASE)
_DANGER = re.compile(r"^\W*danger\b", re.IGNORECASE)
_HELLO = re.compile(r"^\W*(hi|hello|hey|help|who are you|what are you)\b", re.IGNORECASE)
_FILE = re.compile(r"^\[Sent along: (.*?)(?: \([^)]*\))?(?:: /|; ).*\]$\n?", re.MULTILINE)
_NOTE = re.compile(r"\[System note:[^\[\]]*\]\s*")

_LINES = "import time\nfor n in range(5): print('line', n + 1, flush=True); time.sleep(1)"
_QUESTION = "What is your favourite colour?"
_COLOURS = ("red", "green", "blue")
_REMOVES = 'made="$(mktemp -d)" && rm -rf "$made" && echo "made and removed: $made"'


Step = Item | float
"""An item of the answer, or a pause in seconds."""


class DemoModel:
    """A model that is a small program."""

    name = "demo"

    def __init__(self, world: World) -> None:
        self._world = world

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Item]]:
        """Answer the request."""
        yield _Answer(_steps(request, self._world.new_id()))


class _Answer:
    """The items of the answer, each after the pauses before it."""

    def __init__(self, steps: Iterator[Step]) -> None:
        self._steps = steps

    def __aiter__(self) -> _Answer:
        return self

    async def __anext__(self) -> Item:
        await trio.lowlevel.checkpoint()
        for step in self._steps:
            if not isinstance(step, float):
                return step
            await trio.sleep(step)
        raise StopAsyncIteration


def _steps(request: ModelRequest, call_id: str) -> Iterator[Step]:
    """Answer the messages after the model's last one: results, or messages of people."""
    messages = request.messages
    at = max((number for number, one in enumerate(messages) if isinstance(one, AssistantMessage)), default=-1)
    latest = messages[at + 1 :]
    results = [one.content for one in latest if isinstance(one, ToolResult)]
    if results:
        yield from _stream(_results_text(messages[at], results), pause=0.02)
        if meanwhile := _said(latest):
            yield from _stream(f"\n\nYou said meanwhile: {meanwhile}", pause=0.05)
        yield Finished("stop")
        return
    if not _said(messages[-1:]):
        # Only a note of the gateway: a cut turn is resumed. The message to answer is further up.
        yield TextDelta("Where was I? ")
    said, before = _said(latest), ""
    if not said:
        said = _said_last(messages)
        before = cut.text if isinstance(cut := messages[at], AssistantMessage) else ""
    reason = yield from _react(said, before, request, call_id)
    yield Finished(reason)


def _said(messages: Sequence[Message]) -> str:
    """Return the text of people in these messages, without the notes of the gateway."""
    texts = (_NOTE.sub("", one.text).strip() for one in messages if isinstance(one, UserMessage))
    return "\n".join(text for text in texts if text)


def _said_last(messages: Sequence[Message]) -> str:
    """Return the last text of people; consecutive messages belong together."""
    together: list[Message] = []
    for one in reversed(messages):
        if _said([one]):
            together.insert(0, one)
        elif together:
            break
    return _said(together)


def _results_text(answer: Message, results: Sequence[str]) -> str:
    """Return the results of the calls in this answer, as text for the person."""
    if isinstance(answer, AssistantMessage) and any(call.name == "clarify" for call in answer.calls):
        return f"You answered: {results[0]}"
    shown = "\n".join(result.strip() for result in results)
    return f"```\n{shown}\n```\nThat is what came of it."


def _react(said: str, before: str, request: ModelRequest, call_id: str) -> Generator[Step, None, Reason]:
    """Do what the text asks for; return the reason for the end of the answer. `before` is the text of a cut
    answer that is continued."""

    def call(text: str, tool: str, arguments: object) -> Generator[Step, None, Reason]:
        if all(spec.name != tool for spec in request.tools):
            yield TextDelta(f"For that I need the tool {tool!r}, and it is not among those I was given.")
            return "stop"
        yield TextDelta(text)
        yield ToolCallReady(ToolCall(call_id, tool, msgspec.json.encode(arguments).decode()))
        return "tool_calls"

    if counting := _COUNT.search(said):
        reached = _NUMBER.findall(before) or [0]
        yield from _count(int(reached[-1]) + 1, int(counting[1] or 10))
    elif _WORK.search(said):
        yield from _work()
    elif _RUN.match(said):
        command = shlex.join([sys.executable, "-c", _LINES])
        return (yield from call("Running a process for five seconds.", "terminal", {"command": command}))
    elif _ASK.match(said):
        question = {"question": _QUESTION, "choices": _COLOURS}
        return (yield from call("I have a question.", "clarify", question))
    elif _DANGER.match(said):
        text = "I make a directory outside of my sandbox and remove it again. That needs your yes."
        return (yield from call(text, "terminal", {"command": _REMOVES, "needs": ["everything"]}))
    elif _HELLO.match(said):
        yield from _stream(ABOUT, pause=0.02)
    else:
        files, text = _FILE.findall(said), _FILE.sub("", said).strip()
        unseen = f"I am the demo, and cannot see what you sent: {', '.join(files)}." if files else ""
        spoken = f"You said: {text}" if text or not files else ""
        yield from _stream("\n\n".join(filter(None, (spoken, unseen))), pause=0.05)
    return "stop"


def _count(first: int, last: int) -> Iterator[Step]:
    """Count up, one number per second."""
    for number in range(first, last + 1):
        yield TextDelta(f"{number}\n")
        yield 1.0
    yield TextDelta("Done.")


def _work() -> Iterator[Step]:
    """Be busy for a minute."""
    yield TextDelta("Working for a minute")
    for _ in range(12):
        yield 5.0
        yield TextDelta(" .")
    yield TextDelta(" done.")


def _stream(text: str, *, pause: float) -> Iterator[Step]:
    """Yield a text word by word."""
    for piece in re.findall(r"\s*\S+|\s+$", text):
        yield TextDelta(piece)
        yield pause
