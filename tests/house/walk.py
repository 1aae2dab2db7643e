"""The way of one message, and of one `/stop`, through the code: calls, files, and hops between files.

Each runs on the stage of the tests, with the platform in memory, work of threads done inline and Trio's clock
that jumps, so the figures are the same in each run. A call of a function is counted once, not again when its
coroutine goes on. Lambdas and comprehensions do not count.
"""

from __future__ import annotations

import dis
import itertools
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path
from types import FrameType
from typing import Any

import trio
import trio._core._run
from trio.testing import MockClock

import hermes_platforms
import hermes_trio
from hermes_trio.base.world import World
from hermes_trio.platform.contract import Traits
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Agent, Stage, everyone

from .source import Measure, Source

RESUME = dis.opmap["RESUME"]

PLUMBING = (
    "hermes_trio.testing.*",  # the platform in memory: the world outside
    "hermes_trio.platform.base_link",  # the link of that platform
    "hermes_trio.base.world",
    "hermes_trio.base.byte_cache",  # a dictionary with a limit; the tree before kept nothing
    "hermes_trio.base.pulse",  # events that can happen again; the tree before used `trio.Event`, not counted
    "hermes_trio.log",
    "hermes_trio.host.*worker",  # batches for threads
    "hermes_trio.host.*private_files",  # opening and syncing files
    "hermes_trio.host.*json_files",
    "hermes_trio.host.*file_lock",
    "hermes_trio.state.*store_retry",  # retries; the tree before had them where a store is called
    "hermes_trio.state.*database",  # transactions; their steps are counted
    "hermes_trio.state.*opening",
    "hermes_trio.state.*identity",
)
"""Modules that are left out. The stars let a module keep its place here when it moves to a sub-package.

Chosen so that the figures for one message are near those of an earlier count on the tree of 2026-11-19:
386 calls, 49 files and 227 hops; here they are 382, 48 and 240.
"""


@dataclass
class Walk:
    """The recorded calls, in their order."""

    calls: list[tuple[str, str]] = field(default_factory=list)
    """Module and qualified name of the function."""

    @property
    def files(self) -> int:
        return len({module for module, _ in self.calls})

    @property
    def hops(self) -> int:
        """Calls whose file differs from that of the call before."""
        return sum(one[0] != other[0] for one, other in itertools.pairwise(self.calls))

    def steps(self) -> tuple[str, ...]:
        """One line for each stay in a file."""
        stays = itertools.groupby(self.calls, key=lambda call: call[0])
        return tuple(f"{module}: {', '.join(name for _, name in calls)}" for module, calls in stays)


def measures(source: Source) -> list[Measure]:
    """Measure both walks. A pattern of the plumbing that matches no module must follow a module that moved:
    until then the figures are too high."""
    names = [module.name for module in source.code]
    stale = tuple(p for p in PLUMBING if not any(fnmatchcase(name, p) for name in names))
    rows = [Measure("plumbing patterns that match no module", len(stale), 0, stale)]
    for what, walk in (("one message", walk_of("hello")), ("one /stop", walk_of("/stop"))):
        rows += [
            Measure(f"calls for {what}", len(walk.calls), None, walk.steps()),
            Measure(f"files for {what}", walk.files),
            Measure(f"hops between files for {what}", walk.hops),
        ]
    return rows


def walk_of(text: str) -> Walk:
    """The walk of this text, said in a chat of its own in a gateway that has answered another chat before (so
    that caches are filled and imports are done). A `/stop` finds a turn that hangs."""
    roots = [Path(package.__path__[0]) for package in (hermes_trio, hermes_platforms)]
    with tempfile.TemporaryDirectory() as folder, _tasks_in_order():
        return trio.run(_told, text, _stage(Path(folder)), roots, clock=MockClock(autojump_threshold=0))


async def _told(text: str, stage: Stage, roots: Sequence[Path]) -> Walk:
    """Play the scene on the stage, and record what the text causes."""
    stage.agent.on("hello", Script().says("Hello there."))
    stage.agent.on("hang", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hello", chat="7")
        if text == "/stop":
            await stage.says("hang")
        await trio.sleep(10)
        with recorded(roots) as walk:
            await stage.says(text)
            await trio.sleep(2)
        last = stage.platform.chat("42").last or ""
        if not last.startswith("⚡ Stopped." if text == "/stop" else "Hello there."):
            raise AssertionError(f"{text} was not answered as expected: {last}")
    return walk


def _stage(folder: Path) -> Stage:
    """Build a stage in which time and ids are the same in each run."""
    start = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
    ids = itertools.count(1)
    world = World(
        now=lambda: start + timedelta(seconds=trio.current_time()),
        new_id=lambda: f"{next(ids):08x}",
        jitter=lambda: 0.0,
        zone=UTC,
    )
    return Stage(
        folder / "home", world, MemoryPlatform(traits=Traits(edits=True, typing=True)), Agent(), everyone()
    )


@contextmanager
def recorded(roots: Sequence[Path], plumbing: Sequence[str] = PLUMBING) -> Iterator[Walk]:
    """Record the calls of functions that are defined in the packages at `roots`, in this thread."""
    walk, names = Walk(), dict[str, str | None]()

    def module_of(file: str) -> str | None:
        for root in roots:
            if Path(file).is_relative_to(root):
                name = ".".join(Path(file).relative_to(root.parent).with_suffix("").parts)
                return None if any(fnmatchcase(name, pattern) for pattern in plumbing) else name
        return None

    def record(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event != "call" or code.co_name.startswith("<") or not _begins(frame):
            return
        if code.co_filename not in names:
            names[code.co_filename] = module_of(code.co_filename)
        if (module := names[code.co_filename]) is not None:
            walk.calls.append((module, code.co_qualname))

    sys.setprofile(record)
    try:
        yield walk
    finally:
        sys.setprofile(None)


def _begins(frame: FrameType) -> bool:
    """Tell whether a function begins, rather than a coroutine or generator goes on. The frame is then at a
    RESUME instruction, and the lowest two bits of its argument are 0."""
    code, at = frame.f_code.co_code, frame.f_lasti
    return code[at] == RESUME and code[at + 1] & 3 == 0


@contextmanager
def _tasks_in_order() -> Iterator[None]:
    """Let Trio run its tasks in the order in which they were woken: otherwise it draws the order by lot."""
    loop: Any = trio._core._run
    former, loop._ALLOW_DETERMINISTIC_SCHEDULING = loop._ALLOW_DETERMINISTIC_SCHEDULING, True
    loop._r.seed(0)
    try:
        yield
    finally:
        loop._ALLOW_DETERMINISTIC_SCHEDULING = former
        loop._r.seed()
