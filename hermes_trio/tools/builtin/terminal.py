"""The tool `terminal`: run a command in the turn and wait for it, or in the background, where it belongs to
the session.

A command in the turn starts in the directory in which the one before it ended: `cd` holds for the next. On
exit it writes its directory to a file. Processes that it leaves running are killed with it. A process that
has to outlive the call is started in the background, and a command that tries it in another way is refused
before it runs.
"""

from __future__ import annotations

import os
import re
import shlex
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from ...base.recent import Recent
from ...host.loop.scoped_task import beside
from ...host.processes.process_groups import ChildProcess
from ..approval import Permissions
from ..needs import needed
from ..output import MARGIN, MOST, fitted
from ..paths import PathRefused, open_to_read
from ..safety.judge import LONGEST, ShellCommand, UnreadableCommand, commands_of
from ..sandbox.session_sandbox import SessionSandbox
from ..sandbox.views import Grants
from ..tool import Result, Tool, ToolFailed, Workplace

LONGEST_WAIT = 600
"""Longest wait for a command, in seconds."""
TIMED_OUT = 124
LONGEST_PATH = 4096
MOST_REMEMBERED = 1000
"""Number of sessions whose directory is remembered."""
HEAD = MOST * 2 // 5 * 4 + MARGIN
"""Bytes at the beginning of an output that hold all characters that are shown of it."""

_DETACH = frozenset({"nohup", "disown", "setsid"})
_RUNS_ON = re.compile(
    r"(?:(?:sudo|npx|bunx|exec|poetry run|uv run|pipenv run|bundle exec) )*(?:\S*/)?(?:"
    r"(?:npm|pnpm|yarn|bun)(?: run)? (?:start|dev|serve|preview|watch)\b|"
    r"python[0-9.]* -m (?:http\.server|uvicorn|gunicorn|hypercorn|flask run)|"
    r"(?:python[0-9.]* )?\S*manage\.py runserver|flask\b.* run|django-admin runserver|"
    r"(?:uvicorn|gunicorn|hypercorn|daphne|nodemon|http-server|live-server|ngrok|redis-server|mongod|postgres|"
    r"mysqld|caddy run|hugo server|streamlit run|jupyter(?:-| )(?:lab|notebook)|rails s(?:erver)?|php -S|"
    r"next (?:dev|start)|webpack serve|webpack-dev-server)\b|vite(?: dev| serve| preview|$| --)|"
    r"(?:docker|podman)(?: |-)compose\b(?!.* (?:-d|--detach)\b).* up\b|tail\b.* -[0-9n]*[fF]\b|watch )"
)
_ASKS_ONLY = re.compile(r" (?:--help|-h|--version|-V)\b")
_MEANINGS = {
    ("grep|egrep|fgrep|rg|ag", 1): "no line matched",
    ("diff|cmp", 1): "there are differences",
    ("test|\\[|\\[\\[", 1): "the condition is false",
    ("curl", 6): "the name of the host is unknown",
    ("curl", 7): "nothing answered there",
    ("curl", 22): "the server answered with an error",
    ("curl", 28): "it took too long",
    ("curl", 56): "no data came, or the proxy refused a host that was not granted",
    ("pytest|py.test", 1): "tests failed",
    ("pytest|py.test", 5): "there were no tests",
    ("timeout", 124): "the command took too long",
    (".*", 126): "it cannot be executed",
    (".*", 127): "there is no such command",
    (".*", 130): "it was interrupted",
    (".*", 137): "it was killed, perhaps because memory ran out",
    (".*", 139): "it crashed",
    (".*", 143): "it was ended by a signal",
}


class TerminalArguments(msgspec.Struct, frozen=True):
    command: Annotated[str, Meta(min_length=1, max_length=LONGEST, description="For the shell.")]
    background: Annotated[
        bool, Meta(description="Keep it running after this call: for servers, watchers, long work.")
    ] = False
    timeout: Annotated[
        Annotated[int, Meta(ge=1)] | None,
        Meta(description=f"Seconds to wait, at most {LONGEST_WAIT}; not in the background."),
    ] = None
    workdir: Annotated[
        str | None,
        Meta(description="The directory of this command; by default the one of the last `cd`."),
    ] = None
    needs: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=4096)]],
        Meta(
            max_length=8,
            description="What it needs beyond its sandbox, which a person is asked to allow: `network HOST` "
            "or `network HOST:PORT` for each host that it connects to by http or https (a proxy answers 403 "
            "for all others), `network` for anything else, `write PATH`, or `everything`. It may read most "
            "files without, and write in the work directory and in $TMPDIR.",
        ),
    ] = []
    notify_on_complete: Annotated[
        bool, Meta(description="In the background: you are told when it ends, so you need not ask.")
    ] = False
    watch_patterns: Annotated[
        list[Annotated[str, Meta(min_length=1)]],
        Meta(max_length=20, description="In the background: you are told of lines that hold one of these."),
    ] = []


class Terminal:
    """The tool that runs commands, and the current directory of each session."""

    def __init__(self, permissions: Permissions | None = None) -> None:
        """By default the tool has permissions of its own; the toolbox shares one object between the tools."""
        self._cwd = Recent[str, Path](MOST_REMEMBERED)
        self._permissions = permissions or Permissions()

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool(
                "terminal",
                "Runs a command and returns its output and its exit code. `cd` holds for the next call; "
                "variables do not. Use background for a command that does not end by itself, and the tool "
                "`process` to look after it.",
                TerminalArguments,
                self._run,
                within=None,  # a person may be asked first, and then the command has its own time
            ),
        )

    async def _run(self, arguments: TerminalArguments, place: Workplace) -> Result:
        limit = arguments.timeout or min(int(place.config.terminal.timeout), LONGEST_WAIT)
        if limit > LONGEST_WAIT:
            raise ToolFailed(f"The longest timeout is {LONGEST_WAIT} s. Use background=true, then `process`.")
        commands = await trio.to_thread.run_sync(_commands_of, arguments.command, abandon_on_cancel=True)
        if not arguments.background and (why := _why_not_in_foreground(commands)):
            raise ToolFailed(why)
        cwd = await self._directory(arguments, place)
        # Elsewhere there is no sandbox of ours from which a command could be let out.
        asked = arguments.needs if place.sandbox.remote is None else ()
        needs = await trio.to_thread.run_sync(needed, asked, cwd, abandon_on_cancel=True)
        grants = await self._permissions.grant(arguments.command, needs, place, cwd=cwd)
        if arguments.background:
            return await _start(arguments, place, cwd, grants)
        return await self._finish(arguments, place, cwd, limit, commands, grants)

    async def _directory(self, arguments: TerminalArguments, place: Workplace) -> Path:
        """Return the directory in which this command starts."""
        here = self._cwd.get(place.session_id, place.cwd)
        find = partial(_found_directory, place.sandbox, here, arguments.workdir)
        return await trio.to_thread.run_sync(find, abandon_on_cancel=True)

    async def _finish(
        self,
        arguments: TerminalArguments,
        place: Workplace,
        cwd: Path,
        limit: float,
        commands: list[ShellCommand],
        grants: Grants,
    ) -> Result:
        """Run a command until it ends or its time is over; again if its sandbox could not be set up, because
        something in the file system went at that moment."""
        run = await _run_to_its_end(arguments.command, place, cwd, limit, grants)
        if run.code == 1 and run.directory is None and place.sandbox.was_not_set_up(run.process.output.tail):
            run = await _run_to_its_end(arguments.command, place, cwd, limit, grants)
        code, now, text = run.code, run.directory, await output_of(run.process, place)
        if run.took_too_long:
            ended = f"it took longer than {limit:.0f} s and was ended; use background=true for long commands"
            return Result(f"{text}\n[exit code {TIMED_OUT}: {ended}]".lstrip("\n"), is_error=True)
        moved = ""
        if arguments.workdir is None and now is not None and now != cwd:
            self._cwd[place.session_id] = now
            moved = f"; now in {now}"
        code = 128 - code if code is not None and code < 0 else code
        return Result(f"{text}\n[exit code {_described(code, commands)}{moved}]".lstrip("\n"))


@dataclass(frozen=True, slots=True)
class _Run:
    """One run of a command."""

    process: ChildProcess
    code: int | None
    took_too_long: bool
    directory: Path | None
    """Its last directory; None if its shell did not end by itself."""


async def _run_to_its_end(script: str, place: Workplace, cwd: Path, limit: float, grants: Grants) -> _Run:
    sandbox = place.sandbox
    if os.name == "posix":
        write_directory = f"pwd -P >| {sandbox.directory_note(grants)}"
        script = f"trap {shlex.quote(write_directory)} EXIT\n{script}"
    code: int | None = TIMED_OUT
    directory_file: Path | None = None
    try:
        async with place.running(script, cwd=cwd, grants=grants) as process:
            directory_file = sandbox.temporary / f".cwd-{process.group_id}"
            with trio.move_on_after(limit) as patience:
                async with beside(partial(report_activity, process, place)):
                    code = await process.wait()
        now = await trio.to_thread.run_sync(_read_directory, directory_file, abandon_on_cancel=True)
    finally:
        if directory_file is not None:
            directory_file.unlink(missing_ok=True)  # noqa: ASYNC240 - also when cancelled, without waiting
    return _Run(process, code, patience.cancelled_caught, now)


async def _start(arguments: TerminalArguments, place: Workplace, cwd: Path, grants: Grants) -> Result:
    notify = arguments.notify_on_complete
    background = await place.start_background(
        arguments.command,
        cwd=cwd,
        grants=grants,
        notify=notify,
        watch=() if notify else arguments.watch_patterns,
    )
    pid = f" (pid {background.process.id.pid})" if place.sandbox.remote is None else ""
    text = f"Started {background.id}{pid} in {cwd}."
    if notify:
        text += " You will be told when it ends."
    if notify and arguments.watch_patterns:
        text += " It is not watched: watch_patterns and notify_on_complete exclude each other."
    elif arguments.watch_patterns:
        text += " You will be told of lines that match, while this turn runs and until the next one begins."
    return Result(text)


def _commands_of(command: str) -> list[ShellCommand]:
    """Return the commands of a line; none if it cannot be read, which the judge says to the person who has to
    allow it. It may take a second; call it in a thread."""
    try:
        return commands_of(command)
    except UnreadableCommand:
        return []


def _why_not_in_foreground(commands: list[ShellCommand]) -> str | None:
    """Return why a command does not belong in the foreground, in words for a model; None if it does."""
    names = {command.texts[0].rpartition("/")[2] for command in commands if command.words}
    if got := names & _DETACH:
        return (
            f"{min(got)} does not work here: processes that a command leaves running are killed with it. "
            "Use background=true."
        )
    if commands and commands[-1].in_background:
        return "A command that ends in & would be killed at once. Use background=true and leave out the &."
    for command in commands:
        text = " ".join(command.texts)
        if not command.in_background and _RUNS_ON.match(text) and not _ASKS_ONLY.search(text):
            return f"This does not end by itself: {text[:100]}. Use background=true, then `process`."
    return None


async def report_activity(process: ChildProcess, place: Workplace) -> None:
    """Report activity of the turn while a process writes."""
    seen = 0
    while (total := await process.output.beyond(seen)) > seen:
        seen = total
        place.active()


async def output_of(process: ChildProcess, place: Workplace) -> str:
    """Return the output of a process so far, shortened and without secrets."""
    output = process.output
    total, tail = output.total, output.tail
    before, head = total - len(tail), b""
    if before:
        size = min(before, HEAD)
        head = await trio.to_thread.run_sync(_read_head, output.path, size, abandon_on_cancel=True)
    if len(head) == before:
        return fitted("", (head + tail).decode("utf-8", "replace"), place.masking)
    texts = head.decode("utf-8", "replace"), tail.decode("utf-8", "replace")
    return fitted(*texts, place.masking, total=total)


def _read_head(path: Path, size: int) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(size)
    except OSError:
        return b""


def _found_directory(sandbox: SessionSandbox, here: Path, workdir: str | None) -> Path:
    """Return the directory of a command: `workdir`, seen from `here`, else `here`, or the work directory if
    that is gone. It is resolved once, so that the command runs in the directory that a person is shown."""
    if sandbox.remote is not None:
        there = here / workdir if workdir is not None else here
        return there if not (workdir or "").startswith("~") else Path(workdir or "")
    if workdir is not None:
        here /= os.path.expanduser(workdir)
    elif not sandbox.outside(here).is_dir():
        here = sandbox.room.work
    return here.resolve()


def _read_directory(path: Path) -> Path | None:
    try:
        fd, _ = open_to_read(path)
    except (OSError, PathRefused):  # the command did not exit normally
        return None
    with open(fd, encoding="utf-8", errors="surrogateescape") as file:
        directory = Path(file.read(LONGEST_PATH).removesuffix("\n"))
    return directory if directory.is_absolute() else None  # `pwd` prints nothing if the directory is gone


def _described(code: int | None, commands: list[ShellCommand]) -> str:
    """Return an exit code and its meaning, if that is well known."""
    if code is None:
        return "unknown"
    name = commands[-1].texts[0].rpartition("/")[2] if commands and commands[-1].words else ""
    meaning = next(
        (text for (names, of), text in _MEANINGS.items() if of == code and re.fullmatch(names, name)), ""
    )
    return f"{code}: {meaning}" if meaning else str(code)
