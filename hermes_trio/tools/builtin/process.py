"""The tool `process`: list, read, wait for, kill and feed the background processes of a session.

The model has been told of an end once `wait`, `log` or `poll` has shown it, or `kill` has caused it; then no
notification follows. Processes of a former life ended with that life; their output is still on disk, and
their rows hold how they ended.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

import msgspec
import trio
from msgspec import Meta

from ...host.loop.scoped_task import beside
from ...host.processes.spool import LIMIT
from ...state.tables import processes
from ...state.tables.processes import ProcessRow as Row
from ..approval import Permissions
from ..background_process import BackgroundProcess
from ..needs import shown_grants
from ..output import MARGIN, after_margin, cleaned, fitted, latest
from ..safety.process_input import InputReader, completed, is_answer, is_remote, is_whole, reader_of
from ..safety.verdict import INPUT, one_command
from ..sandbox.views import NOTHING
from ..tool import Approval, Result, Tool, ToolFailed, Workplace
from .terminal import output_of, report_activity

POLLED = 1000
"""Characters at the end of the output that `poll` shows."""
LINES = 200
TAKES_INPUT_WITHIN = 10.0

_CUT = re.compile(r"\n\[\.\.\. \d+ bytes are left out here \.\.\.\]\n")
_WORD = re.compile(rf"\S{{0,{MARGIN}}}")

Action = Literal["list", "poll", "log", "wait", "kill", "write", "submit", "close"]


class ProcessArguments(msgspec.Struct, frozen=True):
    action: Annotated[
        Action,
        Meta(
            description="list: all of them. poll: its state and its last output. log: lines of its output. "
            "wait: until it ends. kill: end it. write: send it input. submit: the same with a new line. "
            "close: end its input."
        ),
    ]
    process_id: Annotated[str | None, Meta(description="Its id, such as proc_…; not for list.")] = None
    data: Annotated[str, Meta(description="For write and submit.")] = ""
    timeout: Annotated[
        Annotated[int, Meta(ge=1)] | None, Meta(description="For wait: seconds, at most terminal.timeout.")
    ] = None
    offset: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description="For log: the first line; else the last ones."),
    ] = None
    limit: Annotated[int, Meta(ge=1, le=5000, description="For log: how many lines.")] = LINES


class Processes:
    """The tool for background processes."""

    def __init__(self, permissions: Permissions | None = None) -> None:
        """By default the tool has permissions of its own; the toolbox shares one object between the tools."""
        self._permissions = permissions or Permissions()

    @property
    def tool(self) -> Tool:
        return Tool(
            "process",
            "Manages the background processes that terminal has started in this session.",
            ProcessArguments,
            self._run,
            within=None,  # a person may be asked first, and then each action has its own time
        )

    async def _run(self, arguments: ProcessArguments, place: Workplace) -> Result:
        return await _run(arguments, place, self._permissions)


async def _run(arguments: ProcessArguments, place: Workplace, permissions: Permissions) -> Result:
    if arguments.action == "list":
        return Result(await _list(place))
    found = await _find(arguments.process_id, place)
    if isinstance(found, Row):
        return await _of_a_former_life(found, arguments, place)
    match arguments.action:
        case "write" | "submit" | "close":
            async with found.input.lock:
                return Result(await _send_input(found, arguments, place, permissions))
        case "kill":
            await _kill(found, place)
        case "wait":
            await _wait(found, arguments, place)
    is_over = not found.is_running
    if is_over:
        await found.process.wait()  # until the rest of its output has been read
    state = _described(found, place)
    if arguments.action == "log":
        text = await _lines(found.process.output.path, arguments, place)
    elif arguments.action == "wait":
        text = await output_of(found.process, place)
    else:
        text = latest(found.last(POLLED + MARGIN), POLLED, place.masking)
    if is_over:
        found.told = True
        await place.database.write(processes.note_seen, found.id, place.world.time())
    return Result(f"{state}\n{text}".rstrip("\n"))


async def _list(place: Workplace) -> str:
    current = place.background()
    former = await _former(place, {one.id for one in current})
    lines = [_described(one, place) for one in current] + [_described_row(row, place) for row in former]
    return "\n".join(lines) or "This session has no background processes."


async def _find(process_id: str | None, place: Workplace) -> BackgroundProcess | Row:
    current = place.background()
    for one in current:
        if one.id == process_id:
            return one
    former = await _former(place, set())
    for row in former:
        if row.process_id == process_id:
            return row
    known = ", ".join([*(one.id for one in current), *(row.process_id for row in former)]) or "none"
    raise ToolFailed(f"This session has no process {process_id or 'without a process_id'}; it has: {known}.")


async def _former(place: Workplace, known: set[str]) -> list[Row]:
    """Return background processes of the session that are only in the database: of a former life, or ended
    long ago."""
    rows = await place.database.read(processes.of_session, place.session_id)
    return [
        row for row in rows if row.background and row.process_id not in known and row.ended_at is not None
    ]


async def _of_a_former_life(row: Row, arguments: ProcessArguments, place: Workplace) -> Result:
    if arguments.action in ("write", "submit", "close"):
        raise ToolFailed(f"{row.process_id} has ended.")
    text = ""
    if row.spool is not None and arguments.action != "kill":
        text = await _lines(Path(row.spool), arguments, place)
    await place.database.write(processes.note_seen, row.process_id, place.world.time())
    return Result(f"{_described_row(row, place)}\n{text}".rstrip("\n"))


async def _lines(path: Path, arguments: ProcessArguments, place: Workplace) -> str:
    """Return lines of an output from its spool file."""
    return await trio.to_thread.run_sync(_read_lines, path, arguments, place, abandon_on_cancel=True)


def _read_lines(path: Path, arguments: ProcessArguments, place: Workplace) -> str:
    try:
        with path.open("rb") as file:
            lines = _whole_words(file.read(2 * LIMIT).decode("utf-8", "replace")).split("\n")
    except OSError:
        return "(Its output has been deleted.)"
    if lines[-1] == "":
        lines.pop()
    first = max(0, len(lines) - arguments.limit) if arguments.offset is None else arguments.offset - 1
    some = lines[first : first + arguments.limit]
    which = f"(lines {first + 1} to {first + len(some)} of {len(lines)})" if some else f"({len(lines)} lines)"
    # The lines before are checked too: a private key has many lines.
    before = "".join(f"{line}\n" for line in lines[max(0, first - MARGIN) : first])[-MARGIN:]
    text = after_margin(before + "\n".join(some), place.masking, margin=len(before))
    return f"{which}\n{fitted('', text, place.masking)}"


def _whole_words(text: str) -> str:
    """Return the text of a spool without the halves of words at its cut: half a secret is not recognised."""
    cut = _CUT.search(text)
    if cut is None:
        return text
    head, tail = text[: cut.start()], text[cut.end() :]
    last = max(head.rfind(" "), head.rfind("\n"), head.rfind("\t"), len(head) - MARGIN) + 1
    first = _WORD.match(tail)
    return head[:last] + cut[0] + tail[first.end() if first else 0 :]


async def _wait(background: BackgroundProcess, arguments: ProcessArguments, place: Workplace) -> None:
    most = place.config.terminal.timeout
    with trio.move_on_after(min(arguments.timeout or most, most)):
        async with beside(partial(report_activity, background.process, place)):
            await background.process.wait()
    # Set before the next checkpoint: the result of this call reports the end, so no notification may follow.
    background.told = background.told or not background.is_running


async def _kill(background: BackgroundProcess, place: Workplace) -> None:
    place.end_background(background)
    await background.over.wait()


async def _permit(
    background: BackgroundProcess, text: str, place: Workplace, permissions: Permissions
) -> None:
    """Return if the process may be given this text, and record the text. Raises `ToolFailed` if not."""
    if background.is_confined:
        return
    given, statement = background.input, background.input.open + text
    exact = f"{background.command}\n# is given:\n{statement}"
    grants = shown_grants(background.grants or NOTHING)
    shown = Approval(exact, place=str(background.cwd), grants=grants)
    match reader_of(background.command, given.judged):
        case InputReader.SHELL:
            before = f"{background.command}\n{given.judged}"
            cwd = await trio.Path.home() if is_remote(background.command) else background.cwd
            whole = completed(statement)
            await permissions.permit(whole, place, cwd=Path(cwd), after=before, shown=shown)
            if is_whole(before + statement):
                given.judged, given.open = given.judged + statement, ""
            else:
                given.open = statement
        case InputReader.UNKNOWN:
            if not is_answer(statement):
                await permissions.require({INPUT: one_command(INPUT, exact)}, shown, place)
            given.open = statement.rpartition("\n")[2]


async def _send_input(
    background: BackgroundProcess, arguments: ProcessArguments, place: Workplace, permissions: Permissions
) -> str:
    stdin = background.process.stdin
    if stdin is None or not background.is_running:
        raise ToolFailed(f"{background.id} takes no more input.")
    text = arguments.data + ("\n" if arguments.action == "submit" else "")
    if arguments.action != "close":
        await _permit(background, text, place, permissions)
    try:
        if arguments.action == "close":
            await stdin.aclose()
            return f"The input of {background.id} is closed."
        with trio.move_on_after(TAKES_INPUT_WITHIN) as patience:
            await stdin.send_all(text.encode())
    except (trio.BrokenResourceError, trio.ClosedResourceError):
        raise ToolFailed(f"{background.id} takes no more input.") from None
    if patience.cancelled_caught:
        raise ToolFailed(f"{background.id} does not read its input; perhaps a part of the text has arrived.")
    return f"{background.id} was given {len(text)} characters."


def _described(background: BackgroundProcess, place: Workplace) -> str:
    now = place.world.time()
    since = (background.ended_at or now) - background.started_at
    code = background.process.exit_code
    pid = f", pid {background.process.id.pid}" if place.sandbox.remote is None else ""
    how = f"running{pid}" if background.is_running else _ended(code)
    return f"{background.id}: {how}; {since:.0f} s; {_command(background.command, place)}"


def _described_row(row: Row, place: Workplace) -> str:
    return f"{row.process_id}: {_ended(row.exit_code)}, some time ago; {_command(row.command, place)}"


def _ended(code: int | None) -> str:
    if code is None:
        return "ended, exit code unknown"
    return f"ended with exit code {code}" if code >= 0 else f"ended by signal {-code} (exit code {code})"


def _command(command: str, place: Workplace) -> str:
    return cleaned(" ".join(command.split()), place.masking)[:200]
