"""The tools `read_file`, `write_file` and `patch`.

Disk access runs in a thread. A cancelled call leaves its thread at once, and the thread checks for that
before it replaces a file: a turn that has ended writes nothing any more. A file that has changed since this
session read it is not overwritten: somebody else is working on it. A file that runs later, or that programs
obey, is changed only after a person has seen the change and allowed it.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import trio
from msgspec import Meta

from ...base.recent import Recent
from ...masking.redaction import Redact
from ...masking.secret_words import MASK
from ..approval import Permissions
from ..needs import kinds_of
from ..paths import PathRefused, Territory, facts_of, open_to_read, replace, runs_later
from ..sandbox.session_sandbox import SessionSandbox
from ..sandbox.views import Grants
from ..tool import Approval, Result, Tool, ToolFailed, Workplace
from .editing import TextEdit, difference, edited

MOST_LINES = 2000
LONGEST_LINE = 2000
LONGEST_PAGE = 90_000
"""Characters of a page; with its hint the result stays within `LONGEST_RESULT`."""
LARGEST_EDITED = 8 << 20
MOST_REMEMBERED = 4096
"""Number of files whose state is remembered, over all sessions."""
_PIECE = 1 << 16
_PROBE_BYTES = 8192
"""Bytes at the beginning of a file that are checked to tell whether it is text."""

T = TypeVar("T")
PathText = Annotated[str, Meta(description="The file: absolute, or relative to the working directory.")]


class ReadArguments(msgspec.Struct, frozen=True):
    path: PathText
    offset: Annotated[int, Meta(ge=1, description="The first line, counted from 1.")] = 1
    limit: Annotated[int, Meta(ge=1, le=MOST_LINES, description="How many lines.")] = 500


class WriteArguments(msgspec.Struct, frozen=True):
    path: PathText
    content: Annotated[str, Meta(description="The whole new content of the file.")]


class PatchArguments(msgspec.Struct, frozen=True):
    path: PathText
    edits: Annotated[list[TextEdit], Meta(min_length=1, max_length=100, description="All are made, or none.")]


class Files:
    """The tools for files, and the state in which each session last saw a file."""

    def __init__(self, permissions: Permissions | None = None) -> None:
        """By default the tools have permissions of their own; the toolbox shares one object between the
        tools."""
        self._permissions = permissions or Permissions()
        self._seen = Recent[tuple[str, Path], tuple[int, int]](MOST_REMEMBERED)

    @property
    def tools(self) -> tuple[Tool, ...]:
        return (
            Tool(
                "read_file",
                "Reads lines of a text file; each starts with its number and a bar.",
                ReadArguments,
                self._read,
                reads_only=True,
            ),
            Tool(
                "write_file",
                "Writes a whole file, and makes the directories it needs.",
                WriteArguments,
                self._write,
                within=None,  # a person may be asked first
            ),
            Tool(
                "patch",
                "Changes a file: each old_string must occur exactly once and becomes its new_string. "
                "Returns a diff. Read the file first.",
                PatchArguments,
                self._patch,
                within=None,
            ),
        )

    async def _read(self, arguments: ReadArguments, place: Workplace) -> Result:
        territory = place.sandbox.territory
        real, facts, text = await _in_thread(partial(_read, territory, arguments, place.masking))
        self._remember(place, real, facts)
        return Result(text)

    async def _write(self, arguments: WriteArguments, place: Workplace) -> Result:
        seen = partial(self._as_seen, place)
        change = await _in_thread(partial(_written, place.sandbox, arguments, seen, place.masking))
        await self._make(change, place)
        before, lines = change.before, len(arguments.content.splitlines())
        how = "written" if before is None else f"replaced ({before.st_size} bytes before)"
        return Result(f"{change.real} is {how}: {lines} lines, {len(change.data)} bytes.")

    async def _patch(self, arguments: PatchArguments, place: Workplace) -> Result:
        seen = partial(self._as_seen, place)
        change = await _in_thread(partial(_patched, place.sandbox, arguments, seen))
        await self._make(change, place)
        return Result(place.masking(change.difference))

    async def _make(self, change: FileChange, place: Workplace) -> None:
        """Make a change, after a person's yes if it needs one. Nothing is written if the file has changed
        meanwhile."""
        if change.kinds:
            approval = Approval(change.difference, place=str(change.real), kind="change")
            await self._permissions.require(change.kinds, approval, place)
        facts = await _in_thread(partial(_put, change))
        self._remember(place, change.real, facts)

    def _as_seen(self, place: Workplace, real: Path) -> tuple[int, int] | None:
        return self._seen.get((place.session_id, real))

    def _remember(self, place: Workplace, real: Path, facts: os.stat_result) -> None:
        self._seen[place.session_id, real] = _state(facts)


Seen = Callable[[Path], tuple[int, int] | None]


async def _in_thread(job: Callable[[], T]) -> T:
    """Run a job in a thread, which is abandoned when the call is cancelled."""
    try:
        return await trio.to_thread.run_sync(job, abandon_on_cancel=True)
    except PathRefused as error:
        raise ToolFailed(str(error)) from error
    except OSError as error:
        raise ToolFailed(f"{error.filename or 'The file'}: {error.strerror or error}.") from error


def _state(facts: os.stat_result) -> tuple[int, int]:
    return facts.st_mtime_ns, facts.st_size


def _read(territory: Territory, arguments: ReadArguments, redact: Redact) -> tuple[Path, os.stat_result, str]:
    real = territory.find(arguments.path)
    try:
        fd, facts = open_to_read(real)
    except FileNotFoundError:
        raise ToolFailed(f"There is no file {arguments.path}.{_similar(territory, real)}") from None
    with open(fd, "rb") as file:
        if b"\0" in file.read(_PROBE_BYTES):
            raise ToolFailed(f"{arguments.path} is not a text file ({facts.st_size} bytes).")
        file.seek(0)
        last = arguments.offset + arguments.limit
        page: list[str] = []
        size = number = 0
        while raw := file.readline(_PIECE):
            number += 1
            whole = raw
            while not whole.endswith(b"\n") and (whole := file.readline(_PIECE)):
                trio.from_thread.check_cancelled()
            if number % 1000 == 0:
                trio.from_thread.check_cancelled()
            if number < arguments.offset:
                continue
            line = f"{number}|{_shown(raw, redact)}"
            size += len(line) + 1
            if number == last or size > LONGEST_PAGE:
                page.append(f"[There is more: next_offset={number}]")
                break
            page.append(line)
    if not page:
        page = ["[The file is empty.]"] if not number else [f"[The file has {number} lines.]"]
    return real, facts, redact("\n".join(page))


def _shown(raw: bytes, redact: Redact) -> str:
    line = raw.rstrip(b"\r\n").decode("utf-8", "replace")
    # Masked before it is cut: half a secret is not recognised.
    return line if len(line) <= LONGEST_LINE else f"{redact(line)[:LONGEST_LINE]} [the line is longer]"


def _similar(territory: Territory, real: Path) -> str:
    """Return a hint with the names of files there that are similar to this one."""
    try:
        names = [entry.name for _, entry in zip(range(5000), os.scandir(real.parent), strict=False)]
    except OSError:
        return f" There is no directory {real.parent} either."
    near = difflib.get_close_matches(real.name, names, n=3, cutoff=0.6)
    near += [name for name in names if name.casefold() == real.name.casefold() and name not in near]
    allowed = [name for name in near if territory.judge(real.parent / name) is None]
    return f" There is {', '.join(allowed)}." if allowed else ""


def _must_be_as_seen(name: str, now: os.stat_result | None, seen: tuple[int, int] | None) -> None:
    if now is not None and seen is not None and _state(now) != seen:
        raise ToolFailed(f"{name} has changed since you read it. Read it again; nothing was written.")


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file that is about to be made."""

    name: str
    """The path as the model wrote it."""
    real: Path
    before: os.stat_result | None
    """The status of the file that is there; None if there is none."""
    expected: Callable[[], tuple[int, int] | None]
    """Return the state that the file must have when it is replaced; None if any state will do."""
    data: bytes
    difference: str
    kinds: Mapping[str, str]
    """Questions to a person, each with the name under which a yes is stored; empty if it needs none."""


def _written(sandbox: SessionSandbox, arguments: WriteArguments, seen: Seen, redact: Redact) -> FileChange:
    real = sandbox.territory.find(arguments.path, writing=True)
    before, shown, state = facts_of(real), "", None
    if before is not None and MASK in arguments.content and _holds_secret(real, redact):
        raise ToolFailed(
            f"{arguments.path} holds a secret, which you see as {MASK} and would overwrite. Change the "
            "other lines with patch; nothing was written."
        )
    if kinds := _kinds(real, sandbox):
        text = "" if before is None else _text(real, arguments.path)[1]
        shown = _shown_to_person(text, arguments.content)
        state = None if before is None else _state(before)
    expected, data = (lambda: state or seen(real)), _encoded(arguments.content)
    return FileChange(arguments.path, real, before, expected, data, shown, kinds)


def _holds_secret(real: Path, redact: Redact) -> bool:
    fd, _ = open_to_read(real)
    with open(fd, "rb") as file:
        text = file.read(LARGEST_EDITED).decode("utf-8", "replace")
    return redact(text) != text


def _patched(sandbox: SessionSandbox, arguments: PatchArguments, seen: Seen) -> FileChange:
    territory = sandbox.territory
    real = territory.find(arguments.path, writing=True)
    try:
        facts, before = _text(real, arguments.path)
    except FileNotFoundError:
        raise ToolFailed(f"There is no file {arguments.path}.{_similar(territory, real)}") from None
    _must_be_as_seen(arguments.path, facts, seen(real))
    after = edited(before, arguments.edits)
    kinds = _kinds(real, sandbox)
    shown = _shown_to_person(before, after) if kinds else difference(before, after, arguments.path)
    return FileChange(arguments.path, real, facts, lambda: _state(facts), _encoded(after), shown, kinds)


def _kinds(real: Path, sandbox: SessionSandbox) -> Mapping[str, str]:
    """Return what a person has to allow before this file is changed, and the names under which a yes is
    stored."""
    if runs_later(real):
        return {f"changes {real}, which runs later or is obeyed by programs": f"changes {real}"}
    if not sandbox.may_write(real):
        return kinds_of(Grants(writable=(real,)), "")
    return {}


def _shown_to_person(before: str, after: str) -> str:
    """Return a change as it is shown before a yes. The path is shown beside it: a name with a line break
    would look like a line of the change here."""
    return difference(before, after, "the file", whole=True)


def _text(real: Path, name: str) -> tuple[os.stat_result, str]:
    """Return the status and the text of a file that is to be changed."""
    fd, facts = open_to_read(real)
    with open(fd, "rb") as file:
        raw = file.read(LARGEST_EDITED + 1)
    if len(raw) > LARGEST_EDITED:
        raise ToolFailed(f"{name} is too large to be edited ({facts.st_size} bytes). Use a command.")
    try:
        return facts, raw.decode()
    except UnicodeDecodeError as error:
        raise ToolFailed(f"{name} is not UTF-8 text: {error.reason}. Use a command.") from None


def _put(change: FileChange) -> os.stat_result:
    def still() -> None:
        now = facts_of(change.real)
        if change.before is None and now is not None and change.kinds:
            raise ToolFailed(
                f"{change.name} was created by somebody else meanwhile. Read it; nothing was written."
            )
        _must_be_as_seen(change.name, now, change.expected())
        trio.from_thread.check_cancelled()

    return replace(change.real, change.data, still)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "replace")
