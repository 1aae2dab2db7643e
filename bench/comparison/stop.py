"""One stop of a program, as it is seen from outside: how long it takes, and what became of the turns.

The program runs turns whose model is ours. It is asked to end (SIGTERM). *finishing*: the model completes
all answers half a second later, and the grace is long. *cut*: no answer ends by itself, and the grace is
short; in *stubborn*, each turn runs a command that does not end. The ideal is an end in the moment of the
last answer, or at the end of the grace; what comes after it is the overshoot.

What became of the turns is read from two sides: what the clients saw, and what the program tells its model
when its next life is asked to go on with the same sessions. So it needs no knowledge of how a program stores
anything.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import trio

from ..scripted_model import COMMANDS, ScriptedModel
from ..subjects.subject import Life, Subject, Unavailable
from .clients import ask
from .conditions import Around, around

HELD_WITHIN = 60.0
"""Seconds in which all turns have to run; a program that runs fewer is measured with those."""
NO_PROGRESS = 10.0
"""Seconds without a further turn after which no more of them are expected."""
ENDS_WITHIN = 75.0
"""Seconds after the ideal end after which a program is killed."""
LEFT_AFTER = 1.0
BEFORE_RELEASE = 0.5
RESUMES_WITHIN = 1.5
MOST_RECALLED = 50
"""Sessions that are asked to go on in the next life."""
KINDS = tuple(COMMANDS)

Texts = Mapping[str, str]
"""The message of each session."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A kind of stop."""

    name: str
    count: int
    finish: bool = False
    grace: float = 0.0
    kill: bool = False
    """True if the program is killed (SIGKILL) and not asked to end."""
    tools: bool = False
    """True if each turn runs a command that does not end."""
    condition: str = ""
    """One of `CONDITIONS`."""

    def impossible(self, subject: Subject) -> str:
        """Return the reason why a program cannot be stopped like this; empty if it can."""
        needed = (
            ("cut", bool(self.count) and not self.finish and not self.kill),
            ("tools", self.tools),
            ("platform", self.condition == "wedged platform"),
        )
        return next((subject.cannot[what] for what, is_so in needed if is_so and what in subject.cannot), "")

    def text(self, number: int, life: Life) -> str:
        """Return the text of a turn."""
        if not self.tools:
            return f"held {session_of(number)}"
        kind = KINDS[number % len(KINDS)]
        return f"tool {life.subject.tool} {kind} {life.command_number(number)} {session_of(number)}"


@dataclass(slots=True)
class Stopped:
    """The measurements of one stop."""

    subject: str
    case: str
    count: int
    held: int = 0
    """The number of turns that ran."""
    started_s: float = 0.0
    """From its start until it was ready."""
    answered_s: float | None = None
    """From its start until the first answer was whole; measured before a kill."""
    again_s: float | None = None
    """From the start of its next life until that was ready."""
    resumed_s: float | None = None
    """From the start of that life until the model was asked again for a cut turn; None if it was not."""
    overshoot_ms: float | None = None
    """None if it did not end in time."""
    exit_ms: float | None = None
    durable_ms: float = 0.0
    """From the signal to the last change of a file in its home."""
    whole: int = 0
    """The number of turns whose clients got the whole answer."""
    cut_off: list[str] = field(default_factory=list)
    """Turns that could finish inside the grace, and whose clients did not get the whole answer."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Finished turns that ran again, and cut ones that count as finished."""
    left: list[str] = field(default_factory=list)
    """Processes that were alive a second after its end."""
    phases: Mapping[str, float] = field(default_factory=dict)
    """The milliseconds from the request to the end of each phase, as the program reports them."""
    failed: str = ""
    """The reason if there is no measurement."""

    @property
    def is_hopeless(self) -> bool:
        """Return True if it failed, or did not end until it was killed."""
        return bool(self.failed) or self.overshoot_ms is None


def measure(subject: Subject, stop: Stop, model: ScriptedModel) -> Stopped:
    """Measure one stop of a program."""
    result = Stopped(subject.name, stop.name, stop.count, failed=stop.impossible(subject))
    if result.failed:
        return result
    try:
        with subject.home() as home:
            texts, finished = _stop(subject, stop, model, home, result)
            if subject.stores and stop.count:
                _recall(subject, model, home, texts, finished, result)
    except Unavailable as error:
        result.failed = str(error)
    return result


def _stop(
    subject: Subject, stop: Stop, model: ScriptedModel, home: Path, result: Stopped
) -> tuple[Texts, set[str]]:
    """Stop the program. Return what its turns were asked, of those that ran; and the finished ones."""
    grace = stop.grace if not stop.finish else 30.0
    with (
        around(stop.condition) as beside,
        subject.life(home, model.port, grace, telegram=beside.telegram, environ=beside.environ) as life,
    ):
        result.started_s = life.started_in
        texts = {session_of(number): stop.text(number, life) for number in range(stop.count)}
        whole = trio.run(_run_and_stop, life, stop, model, texts, beside, result)
        if not stop.kill and result.exit_ms is not None:
            result.phases = dict(subject.phases(home))
        result.left = _left(life)
    asked = model.times()
    ran = {session: text for session, text in texts.items() if text in asked}
    result.whole = len(whole)
    if not stop.finish:
        result.wrong = sorted(whole)
        return ran, set()
    result.cut_off = sorted(ran.keys() - whole)
    return ran, whole


def _left(life: Life) -> list[str]:
    until = time.monotonic() + LEFT_AFTER
    while (left := life.children()) and time.monotonic() < until:
        time.sleep(0.05)
    return left


async def _run_and_stop(
    life: Life, stop: Stop, model: ScriptedModel, texts: Texts, beside: Around, result: Stopped
) -> set[str]:
    """Run the turns and stop the program. Return the sessions whose clients got the whole answer."""
    whole: set[str] = set()
    model.times()
    if stop.kill:
        result.answered_s = await _first_answer(life)
        model.times()
    model.hold()
    async with trio.open_nursery() as nursery:
        for session, text in texts.items():
            nursery.start_soon(_ask, life, session, text, whole)
        result.held = await _held(model.asked, stop.count)
        if stop.tools:
            result.held = await _held(lambda: len(life.commands()), stop.count)
        beside.strike()
        began, began_at = time.monotonic(), time.time()
        (life.kill if stop.kill else life.stop)()
        ideal = began + (stop.grace if stop.count else 0.0)
        if stop.finish and stop.count:
            await trio.sleep(BEFORE_RELEASE)
            ideal = model.release()
        ended = await _end(life, ideal)
        if ended is not None:
            result.exit_ms, result.overshoot_ms = (ended - began) * 1000, (ended - ideal) * 1000
        result.durable_ms = max(0.0, _last_change(life.home) - began_at) * 1000
        with trio.move_on_after(1):  # the last words are on their way
            while len(whole) < result.held and stop.finish:  # noqa: ASYNC110 - of another process
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    return whole


def session_of(number: int) -> str:
    """Return the name of a session."""
    return f"bench-{number}"


async def _first_answer(life: Life) -> float | None:
    """Return the seconds from the start of the program until its first answer was whole."""
    with trio.move_on_after(HELD_WITHIN):
        if await ask(life, "first", "quick first"):
            return time.monotonic() - life.began
    return None


async def _ask(life: Life, session: str, text: str, whole: set[str]) -> None:
    """Ask, and note the session if the whole answer arrives."""
    if await ask(life, session, text):
        whole.add(session)


async def _held(running: Callable[[], int], count: int) -> int:
    """Wait until all turns run, or no more of them begin. Return their number."""
    held, since = 0, time.monotonic()
    with trio.move_on_after(HELD_WITHIN):
        while held < count and (not held or time.monotonic() - since < NO_PROGRESS):
            await trio.sleep(0.05)
            now = running()
            if now > held:
                held, since = now, time.monotonic()
        await trio.sleep(0.5)
    return held


async def _end(life: Life, ideal: float) -> float | None:
    """Wait for the end of the program, and return its time; None if it has to be killed."""
    within = max(0.0, ideal - time.monotonic()) + ENDS_WITHIN
    with trio.move_on_after(within):
        fd = os.pidfd_open(life.pid)
        try:
            await trio.lowlevel.wait_readable(fd)
        finally:
            os.close(fd)
        ended = time.monotonic()
        life.process.wait()
        return ended
    return None


def _last_change(home: Path) -> float:
    return max(
        (path.lstat().st_mtime for path in home.rglob("*") if path.name != "bench-output.txt"), default=0.0
    )


def _recall(
    subject: Subject, model: ScriptedModel, home: Path, texts: Texts, finished: set[str], result: Stopped
) -> None:
    """Start the program again, and ask it to go on with its sessions."""
    model.release()
    with subject.life(home, model.port, 0.0) as life:
        result.again_s = life.started_in
        trio.run(_go_on, life, texts, model, finished, result)


async def _go_on(life: Life, texts: Texts, model: ScriptedModel, finished: set[str], result: Stopped) -> None:
    await trio.sleep(RESUMES_WITHIN)
    resumed = model.times()
    result.wrong += [text for text in resumed if text.split()[-1] in finished]
    result.resumed_s = min((one.head - life.began for one in resumed.values()), default=None)
    whole: set[str] = set()
    sessions = list(texts)[:MOST_RECALLED]
    with trio.move_on_after(HELD_WITHIN):
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(_ask, life, session, f"recall {session}", whole)
    times = model.times()
    for session in sessions:
        text, told = texts[session], times.get(f"recall {session}")
        if told is None or not told.asked_before.get(text):
            result.lost.append(session)
        elif told.asked_before[text] > 1 or told.answered_before.get(text, 0) > 1:
            result.doubled.append(session)
        elif session in finished and not told.answered_before.get(text):
            result.lost.append(f"the answer in {session}")
