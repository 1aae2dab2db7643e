"""One stop of a program, as it is seen from outside: how long it takes, and what became of the turns.

The program runs turns whose model is ours. It is asked to end (SIGTERM). *finishing*: the model completes all
answers half a second later, and the grace is long. *cut*: no answer ends by itself, and the grace is short.
The ideal is an end in the moment of the last answer, or at the end of the grace; what comes after it is the
overshoot.

What became of the turns is read from two sides: what the clients saw, and what the program tells its model
when its next life is asked to go on with the same sessions. So it needs no knowledge of how a program stores
anything.
"""

from __future__ import annotations

import json
import os
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import trio

from ..scripted_model import ScriptedModel
from ..subjects.subject import Life, Subject, Unavailable

HELD_WITHIN = 60.0
"""Seconds in which all turns have to run; a program that runs fewer is measured with those."""
NO_PROGRESS = 30.0
ENDS_WITHIN = 75.0
"""Seconds after the ideal end after which a program is killed."""
LEFT_AFTER = 1.0
BEFORE_RELEASE = 0.5
RESUMES_WITHIN = 1.5
MOST_RECALLED = 50
"""Sessions that are asked to go on in the next life."""


@dataclass(frozen=True, slots=True)
class Stop:
    """A kind of stop."""

    name: str
    count: int
    finish: bool = False
    grace: float = 0.0
    kill: bool = False
    """True if the program is killed (SIGKILL) and not asked to end."""


@dataclass(slots=True)
class Stopped:
    """The measurements of one stop."""

    subject: str
    stop: str
    count: int
    held: int = 0
    """The number of turns that ran."""
    started_s: float = 0.0
    """From its start until it was ready."""
    again_s: float | None = None
    """The same in its next life."""
    resumed_s: float | None = None
    """From the start of that life until the model was asked again for a cut turn; None if it was not."""
    overshoot_ms: float | None = None
    """None if it did not end in time."""
    exit_ms: float | None = None
    durable_ms: float = 0.0
    """From the signal to the last change of a file in its home."""
    whole: int = 0
    """The number of turns whose clients got the whole answer."""
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    """Finished turns that ran again, and cut ones that count as finished."""
    left: list[str] = field(default_factory=list)
    """Processes that were alive a second after its end."""
    failed: str = ""
    """The reason if there is no measurement."""

    def as_record(self) -> dict[str, object]:
        """Return it for a line of JSON."""
        return asdict(self)


def measure(subject: Subject, stop: Stop, model: ScriptedModel) -> Stopped:
    """Measure one stop of a program."""
    result = Stopped(subject.name, stop.name, stop.count)
    if subject.uncut and stop.count and not (stop.finish or stop.kill):
        result.failed = subject.uncut
        return result
    try:
        with subject.home() as home:
            _stop(subject, stop, model, home, result)
            if subject.stores and stop.count:
                _recall(subject, stop, model, home, result)
    except Unavailable as error:
        result.failed = str(error)
    return result


def _stop(subject: Subject, stop: Stop, model: ScriptedModel, home: Path, result: Stopped) -> None:
    with subject.life(home, model.port, stop.grace if not stop.finish else 30.0) as life:
        result.started_s = life.started_in
        trio.run(_run_and_stop, life, stop, model, home, result)
        result.left = _left(life)


def _left(life: Life) -> list[str]:
    until = time.monotonic() + LEFT_AFTER
    while (left := life.children()) and time.monotonic() < until:
        time.sleep(0.05)
    return left


async def _run_and_stop(life: Life, stop: Stop, model: ScriptedModel, home: Path, result: Stopped) -> None:
    whole: set[str] = set()
    async with trio.open_nursery() as nursery:
        model.times()
        model.hold()
        for session in _sessions(stop):
            nursery.start_soon(_ask, life, session, _text(session), whole)
        result.held = await _held(model, stop.count)
        began, began_at = time.monotonic(), time.time()
        (life.kill if stop.kill else life.stop)()
        ideal = began + (stop.grace if stop.count else 0.0)
        if stop.finish and stop.count:
            await trio.sleep(BEFORE_RELEASE)
            ideal = model.release()
        ended = await _end(life, ideal)
        if ended is not None:
            result.exit_ms, result.overshoot_ms = (ended - began) * 1000, (ended - ideal) * 1000
        result.durable_ms = max(0.0, _last_change(home) - began_at) * 1000
        with trio.move_on_after(1):  # the last words are on their way
            while len(whole) < result.held and stop.finish:  # noqa: ASYNC110 - of another process
                await trio.sleep(0.01)
        nursery.cancel_scope.cancel()
    result.whole = len(whole)
    result.wrong = [] if stop.finish else sorted(whole)


def _sessions(stop: Stop) -> list[str]:
    return [f"bench-{number}" for number in range(stop.count)]


def _text(session: str) -> str:
    return f"held {session}"


async def _ask(life: Life, session: str, text: str, whole: set[str]) -> None:
    """Ask, and note the session if the whole answer arrives."""
    try:
        async with await trio.open_tcp_stream("127.0.0.1", life.port) as stream:
            await stream.send_all(life.subject.request(session, f"Please. [[{text}]]"))
            got = b""
            while more := await stream.receive_some(65536):
                got += more
                if b"data: [DONE]" in got:
                    break
    except OSError:
        return
    except trio.BrokenResourceError:
        return
    if b"data: [DONE]" in got and f"end of [({text})]".encode() in _joined(got):
        whole.add(session)


def _joined(stream: bytes) -> bytes:
    """Return the words of a stream of events, in which they may be in pieces."""
    words = []
    for line in stream.split(b"\n"):
        if line.startswith(b"data: {"):
            try:
                choices = json.loads(line[6:].decode()).get("choices") or [{}]
            except ValueError:
                continue
            words.append(choices[0].get("delta", {}).get("content") or "")
    return "".join(words).encode()


async def _held(model: ScriptedModel, count: int) -> int:
    """Wait until all turns run, or no more of them begin. Return their number."""
    held, since = 0, time.monotonic()
    with trio.move_on_after(HELD_WITHIN):
        while held < count and time.monotonic() - since < NO_PROGRESS:
            await trio.sleep(0.05)
            asked = model.asked()
            if asked > held:
                held, since = asked, time.monotonic()
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


def _recall(subject: Subject, stop: Stop, model: ScriptedModel, home: Path, result: Stopped) -> None:
    """Start the program again, and ask it to go on with its sessions."""
    finished = set(_sessions(stop)) if stop.finish and result.whole == stop.count else set()
    model.times()
    model.release()
    with subject.life(home, model.port, 0.0) as life:
        result.again_s = life.started_in
        trio.run(_go_on, life, stop, model, finished, result)


async def _go_on(life: Life, stop: Stop, model: ScriptedModel, finished: set[str], result: Stopped) -> None:
    began = time.monotonic() - life.started_in
    await trio.sleep(RESUMES_WITHIN)
    resumed = model.times()
    result.wrong += [text for text in resumed if text.split()[-1] in finished]
    result.resumed_s = min((one.head - began for one in resumed.values()), default=None)
    whole: set[str] = set()
    sessions = _sessions(stop)[:MOST_RECALLED]
    with trio.move_on_after(HELD_WITHIN):
        async with trio.open_nursery() as nursery:
            for session in sessions:
                nursery.start_soon(_ask, life, session, f"recall {session}", whole)
    times = model.times()
    for session in sessions:
        text, told = _text(session), times.get(f"recall {session}")
        if told is None or not told.asked_before.get(text):
            result.lost.append(session)
        elif told.asked_before[text] > 1 or told.answered_before.get(text, 0) > 1:
            result.doubled.append(session)
        elif session in finished and not told.answered_before.get(text):
            result.lost.append(f"the answer in {session}")
