"""The time that the stop of one turn takes: until the connection to its model is closed, until the processes
of its command are gone, and until the next turn of the session reaches the model.

    python -m bench cancel --peers

A turn is stopped by the request that a program has for it, else by closing the connection of its client.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from statistics import median

import trio
from rich.console import Console
from rich.table import Table

from ..scripted_model import ScriptedModel
from ..subjects.ours import HermesTrio
from ..subjects.subject import Life, Subject, Unavailable, post
from .clients import BEFORE_GIVING_UP, ask, until
from .results import results
from .rounds import chosen, grouped, measure_all, parsed, prepared

TURNS = 5
"""Turns that are stopped one after the other in one life."""


@dataclass(frozen=True, slots=True)
class Cancel:
    """A kind of turn that is stopped."""

    name: str
    kind: str = ""
    """The command that it runs, one of `COMMANDS`; left out, its model holds the answer."""


CASES = (
    Cancel("stop while the model answers"),
    Cancel("stop a deaf command", "deaf"),
    Cancel("stop a flood", "loud"),
)


@dataclass(slots=True)
class Cancelled:
    """The milliseconds from the request to stop, for each turn that was stopped; None if it did not happen in
    time."""

    subject: str
    case: str
    closed_ms: list[float | None] = field(default_factory=list)
    """Until the connection to the model was closed."""
    dead_ms: list[float | None] = field(default_factory=list)
    """Until no process of the command was left."""
    next_ms: list[float | None] = field(default_factory=list)
    """Until the model was asked by the next turn of the session."""
    failed: str = ""

    @property
    def is_hopeless(self) -> bool:
        """Return True if it cannot be measured, or nothing happened."""
        return bool(self.failed) or self.is_broken

    @property
    def is_broken(self) -> bool:
        """Return True if a turn did not end, or no other one began."""
        return None in (*self.closed_ms, *self.dead_ms, *self.next_ms)


def main(arguments: Sequence[str] = ()) -> int:
    """Measure all programs that were asked for, and show what was found."""
    given, console = parsed("cancel", arguments), Console()
    subjects = {one: version for one, version in prepared(given, console).items() if one.stores}
    rounds = given.rounds or (1 if given.quick else 3)
    versions = {subject.name: version for subject, version in subjects.items()}
    with results(given.out, "cancel", add=given.add, rounds=rounds, versions=versions) as out:
        measured = measure_all(list(subjects), chosen(given, CASES), measure, rounds, out)
    show(console, measured)
    console.print(f"Results: {given.out}/cancel.jsonl")
    return 1 if any(one.is_broken for one in measured if one.subject == HermesTrio.name) else 0


def measure(subject: Subject, case: Cancel, model: ScriptedModel, turns: int = TURNS) -> Cancelled:
    """Stop some turns of a program, one after the other."""
    result = Cancelled(subject.name, case.name)
    if case.kind and "tools" in subject.cannot:
        result.failed = subject.cannot["tools"]
        return result
    try:
        with subject.home() as home, subject.life(home, model.port, 0.0) as life:
            model.times()
            model.hold()
            for number in range(turns):
                trio.run(_stop_one, life, case, number, model, result)
                if result.is_hopeless:
                    break
    except Unavailable as error:
        result.failed = str(error)
    return result


async def _stop_one(life: Life, case: Cancel, number: int, model: ScriptedModel, result: Cancelled) -> None:
    session, command = f"stopped-{number}", life.command_number(number)
    text = f"tool {life.subject.tool} {case.kind} {command} {session}" if case.kind else f"held {session}"
    async with trio.open_nursery() as nursery:
        stop = await nursery.start(_begin, life, session, text)
        result.failed = await _failed_begin(life, case, text, command, model)
        if not result.failed:
            began = time.monotonic()
            await stop()
            await _follow(life, case, (session, text, command), model, began, result)
        nursery.cancel_scope.cancel()


async def _failed_begin(life: Life, case: Cancel, text: str, command: str, model: ScriptedModel) -> str:
    """Wait until a turn runs. Return the reason if it does not."""
    if await until(lambda: text in model.seen()) is None:
        return "the turn did not begin"
    if case.kind and await until(lambda: command in life.commands()) is None:
        return "the command did not begin"
    await trio.sleep(0.2)
    return ""


async def _follow(
    life: Life,
    case: Cancel,
    of: tuple[str, str, str],
    model: ScriptedModel,
    began: float,
    result: Cancelled,
) -> None:
    """Note when what the turn had is gone, and when the next one runs."""
    session, text, command = of
    follows = f"quick after {session}"

    async def note(into: list[float | None], at: Callable[[], float | None]) -> None:
        await until(lambda: at() is not None)
        found = at()
        into.append(None if found is None else (found - began) * 1000)

    def closed() -> float | None:
        at = model.seen()[text].closed
        return at if math.isfinite(at) else None

    def dead() -> float | None:
        return None if command in life.commands() else time.monotonic()

    def asked() -> float | None:
        return model.seen()[follows].head if follows in model.seen() else None

    async with trio.open_nursery() as nursery:
        nursery.cancel_scope.deadline = trio.current_time() + 2 * BEFORE_GIVING_UP
        nursery.start_soon(ask, life, session, follows)
        nursery.start_soon(note, result.next_ms, asked)
        if case.kind:
            nursery.start_soon(note, result.dead_ms, dead)
        else:
            nursery.start_soon(note, result.closed_ms, closed)


async def _begin(
    life: Life, session: str, text: str, task_status: trio.TaskStatus[Callable[[], object]]
) -> None:
    """Begin a turn, and hand back what stops it."""
    body = life.subject.run_body(session, f"Please. [[{text}]]")
    if body is None:
        with trio.CancelScope() as asking:

            async def hang_up() -> None:
                asking.cancel()
                await trio.lowlevel.checkpoint()

            task_status.started(hang_up)
            await ask(life, session, text)
        return
    run = json.loads(await _answer(life, post("/v1/runs", body, life.subject.headers(session))))["run_id"]

    async def stop() -> None:
        await _answer(life, post(f"/v1/runs/{run}/stop", {}, life.subject.headers(session)))

    task_status.started(stop)


async def _answer(life: Life, request: bytes) -> bytes:
    """Send a request, and return the body of its answer."""
    got = b""
    with trio.move_on_after(BEFORE_GIVING_UP):
        async with await trio.open_tcp_stream("127.0.0.1", life.port) as stream:
            await stream.send_all(request.replace(b"\r\n", b"\r\nConnection: close\r\n", 1))
            async for more in stream:
                got += more
    return got.partition(b"\r\n\r\n")[2]


def show(console: Console, measured: Sequence[Cancelled]) -> None:
    """Print a table."""
    table = Table(title="Stop of one turn, ms: median (most)")
    for name in ("program", "turn", "model closed", "command dead", "next turn"):
        table.add_column(name, overflow="fold")
    for (subject, case), rounds in grouped(measured).items():
        if rounds[0].failed:
            table.add_row(subject, case, rounds[0].failed)
            continue
        table.add_row(
            subject,
            case,
            _cell([ms for one in rounds for ms in one.closed_ms]),
            _cell([ms for one in rounds for ms in one.dead_ms]),
            _cell([ms for one in rounds for ms in one.next_ms]),
        )
    console.print(table)


def _cell(times: Sequence[float | None]) -> str:
    if None in times:
        return f"not in {BEFORE_GIVING_UP:g} s"
    found = [ms for ms in times if ms is not None]
    return f"{median(found):,.0f} ({max(found):,.0f})" if found else "-"
