"""Background processes: matches in their output and ends, who is notified of them, and how often."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import msgspec
import pytest
import trio
from trio.testing import MemorySendStream, MockClock, memory_stream_one_way_pair

from hermes_trio.config.schema import DisplayConfig
from hermes_trio.gateway.processes.background import KEPT_FOR, MOST
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.host.processes.process_groups import ChildProcess
from hermes_trio.host.processes.spool import TAIL, Output, Spool
from hermes_trio.tools.background_process import LONGEST_LINE, BackgroundProcess, OutputWatch
from tests.host.children.kinds import alive, soon, token, until
from tests.stage import KEY, Stage, everyone, settled
from tests.tools.bench import Bench

posix = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")


# The watch over an output, on the virtual clock.


@dataclass
class FakeProcess:
    """A stand-in for a process; only its output is real."""

    output: Output
    into: MemorySendStream
    exit_code: int | None = None
    told: list[tuple[float, str]] = field(default_factory=list)
    kept: BackgroundProcess = field(init=False)

    def __post_init__(self) -> None:
        self.kept = BackgroundProcess("proc_1", "s", "key", "make", cast(ChildProcess, self), 0.0, Path())

    async def writes(self, text: str | bytes) -> None:
        await self.into.send_all(text.encode() if isinstance(text, str) else text)
        await settled()

    def hears(self, text: str) -> None:
        self.told.append((trio.current_time(), text))


@pytest.fixture
async def fake(tmp_path: Path, autojump_clock: MockClock) -> AsyncIterator[FakeProcess]:
    into, stream = memory_stream_one_way_pair()
    with inline_worker("spool") as runner:
        spool = Spool(tmp_path / "spool")
        spool.open()
        output = Output(stream, spool, runner)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(output.pump)
            yield FakeProcess(output, into)
            nursery.cancel_scope.cancel()
        spool.close()


@asynccontextmanager
async def watching(fake: FakeProcess, *patterns: str) -> AsyncIterator[OutputWatch]:
    watch = OutputWatch(fake.kept, patterns)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run, fake.hears)
        await settled()
        yield watch
        nursery.cancel_scope.cancel()


async def test_a_matching_line_is_reported_when_it_is_complete(fake: FakeProcess) -> None:
    async with watching(fake, "READY", "listening on"):
        await fake.writes("starting\nREA")
        assert fake.told == []
        await fake.writes("DY at 8000\nother\nready\n")
        ((_, text),) = fake.told
        assert text == "Background process proc_1 (make) wrote:\nREADY at 8000"
        await trio.sleep(15)
        await fake.writes("now listening on 1\n")
        assert fake.told[1][1].endswith("\nnow listening on 1")


async def test_one_match_in_fifteen_seconds_is_reported_and_the_third_excess_ends_the_watch(
    fake: FakeProcess,
) -> None:
    async with watching(fake, "x") as watch:
        await fake.writes("x1\n")
        for number in (2, 3):
            await trio.sleep(14.9 / 3)
            await fake.writes(f"x{number}\n")
        await trio.sleep(15)
        await fake.writes("x4\n")
        assert [text[-2:] for _, text in fake.told] == ["x1", "x4"], "the interval begins anew"
        for number in (5, 6):
            await fake.writes(f"x{number}\n")
        assert (watch.is_over, fake.kept.notify) == (False, False)
        await fake.writes("x7\n")
        assert (watch.is_over, fake.kept.notify) == (True, True), "its end is reported instead"
        assert "no longer watched" in fake.told[2][1]
        assert watch.told == len(fake.told), "each notification has its own number"
        await trio.sleep(60)
        await fake.writes("x8\n")
        assert len(fake.told) == 3


async def test_a_reported_match_is_limited_in_lines_and_characters(fake: FakeProcess) -> None:
    async with watching(fake, "x"):
        await fake.writes("x\n" * 30)
        assert fake.told[0][1].count("\nx") == 20
        await trio.sleep(20)
        await fake.writes("x" * 5000 + "\n")
        assert fake.told[1][1].count("x") == 2000


async def test_a_match_ends_with_a_whole_word(fake: FakeProcess) -> None:
    """Notifications are masked afterwards, and half of a secret would not be recognized."""
    async with watching(fake, "x"):
        for spaces in range(1980, 2001):
            await trio.sleep(20)
            await fake.writes("x" + " " * spaces + "hunter2-hunter2" + " x" * 500 + "\n")
            assert "hunter2-hunter2" in fake.told[-1][1]
            assert set(fake.told[-1][1].partition("wrote:")[2].split()) == {"x", "hunter2-hunter2"}


async def test_output_after_the_end_of_the_process_is_not_reported(fake: FakeProcess) -> None:
    async with watching(fake, "x") as watch:
        fake.exit_code = 0
        await fake.writes("x\n")
        assert fake.told == []
        assert watch.is_over


async def test_a_watch_ends_when_the_process_closes_its_output(fake: FakeProcess) -> None:
    watch = OutputWatch(fake.kept, ["x"])
    await fake.into.aclose()
    with trio.fail_after(5):
        await watch.run(fake.hears)
    assert not watch.is_over


async def test_an_endless_line_takes_limited_memory(fake: FakeProcess) -> None:
    async with watching(fake, "x") as watch:
        for _ in range(100):
            await fake.writes(b"a" * 30_000)
        assert len(watch._rest) <= LONGEST_LINE
        await fake.writes("x\n")
        assert len(fake.told) == 1


async def test_the_parts_around_missed_output_do_not_make_a_line(fake: FakeProcess) -> None:
    watch = OutputWatch(fake.kept, ["ab"])
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run, fake.hears)
        await fake.writes("a")
        nursery.cancel_scope.cancel()
    await fake.writes(b"c" * 3 * TAIL)
    await fake.writes(b"\n" * TAIL + b"b\n")
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch.run, fake.hears)
        await settled()
        nursery.cancel_scope.cancel()
    assert fake.told == []


async def test_a_continued_watch_reports_nothing_twice(fake: FakeProcess) -> None:
    watch = OutputWatch(fake.kept, ["x"])
    for number in range(3):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run, fake.hears)
            await fake.writes(f"x{number}\n")
            nursery.cancel_scope.cancel()
        await trio.sleep(20)
        await fake.writes("-\n")
    assert [text[-2:] for _, text in fake.told] == ["x0", "x1", "x2"]


async def test_too_many_matches_of_all_processes_are_not_reported(stage: Stage) -> None:
    async with stage.life() as gateway:
        for number in range(15):
            assert gateway.work.background.admit_match(str(number)) == str(number)
            await trio.sleep(0.5)
        assert gateway.work.background.admit_match("15") is None
        await trio.sleep(20)
        assert gateway.work.background.admit_match("16") is None
        await trio.sleep(10)
        for number in range(30):
            assert gateway.work.background.admit_match(str(number)) == str(number)
            await trio.sleep(1)


# With real processes.


@pytest.fixture
def mine() -> Iterator[str]:
    """Token in the command lines of this test; afterwards no process with it is alive."""
    yield (number := token())
    soon(lambda: not alive(number))


@pytest.fixture
def bench(real_stage: Stage) -> Bench:
    return Bench(real_stage)


def watched(command: str, *patterns: str) -> dict[str, object]:
    return {"command": command, "background": True, "watch_patterns": list(patterns)}


@posix
async def test_a_match_during_its_turn_goes_into_that_turn_and_begins_none(bench: Bench, mine: str) -> None:
    async with bench.life():
        await bench.do(watched(f"echo READY; exec sleep {mine}", "READY"), {"until": "READY"})
        assert len(bench.within) == 1
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []
        rows = bench.rows(
            "SELECT count(*) FROM messages WHERE role = 'user' AND content LIKE '%wrote:%READY'"
        )
        assert rows == [(1,)]


@posix
async def test_a_match_after_an_answered_turn_begins_one_turn_only(bench: Bench, mine: str) -> None:
    command = f"for i in 1 2 3; do read x; echo READY $i; done; exec sleep {mine}"
    async with bench.life():
        await bench.do(watched(command, "READY"))
        (kept,) = processes_of(bench)
        assert kept.process.stdin is not None
        await kept.process.stdin.send_all(b"go\n")
        await bench.until(lambda: bench.heard)
        await bench.quiet()
        assert "wrote:\nREADY 1" in bench.heard[0]
        await kept.process.stdin.send_all(b"go\ngo\n")
        await bench.until(lambda: b"READY 3" in kept.process.output.tail)
        await trio.sleep(0.5)
        await bench.quiet()
        assert len(bench.heard) == 1


@posix
@pytest.mark.parametrize("ends", ["is stopped", "fails"])
async def test_a_match_after_an_unanswered_turn_begins_no_turn(bench: Bench, mine: str, ends: str) -> None:
    command = f"read x; echo READY; exec sleep {mine}"
    async with bench.life() as gateway:
        last = {"sleep": 300} if ends == "is stopped" else {"sleep": "no number"}
        await bench.begin(watched(command, "READY"), last)
        await bench.until(lambda: alive(mine) or processes_of(bench))
        await bench.until(lambda: processes_of(bench))
        if ends == "is stopped":
            await bench.stage.platform.says("/stop")
        await bench.until(lambda: not gateway.work.running)
        (kept,) = processes_of(bench)
        assert kept.process.stdin is not None
        await kept.process.stdin.send_all(b"go\n")
        await bench.until(lambda: b"READY" in kept.process.output.tail)
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []
        assert kept.is_running, "the process belongs to the session"


@posix
async def test_the_end_of_a_process_is_not_reported_after_its_session(bench: Bench, mine: str) -> None:
    async with bench.life() as gateway:
        await bench.do({"command": f"sleep {mine}", "background": True, "notify_on_complete": True})
        old = await gateway.home.store.get_session_entry(KEY.format("42"))
        assert old is not None
        await gateway.home.store.suspend_session(KEY.format("42"))
        await bench.do({"action": "list"})
        new = await gateway.home.store.get_session_entry(KEY.format("42"))
        assert new is not None
        assert new.session_id != old.session_id
        await until(lambda: not alive(mine))
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []


@posix
async def test_a_person_is_notified_of_an_end_as_configured(bench: Bench) -> None:
    for mode, told in (("all", 2), ("result", 2), ("error", 1), ("off", 0)):
        display = DisplayConfig(background_process_notifications=mode)  # type: ignore[arg-type]
        bench.stage.config = msgspec.structs.replace(everyone(), display=display)
        texts = bench.stage.platform.chat("42").texts
        before = sum(text.startswith("⚙") for text in texts)
        async with bench.life():
            calls = [{"command": f"exit {code}", "background": True} for code in (0, 3)]
            await bench.do(*calls)
            await bench.until(lambda: all(not kept.is_running for kept in processes_of(bench)))
            await bench.until(lambda: all(kept.over.is_set() for kept in processes_of(bench)))
            await trio.sleep(0.3)
        new = [text for text in bench.stage.platform.chat("42").texts if text.startswith("⚙")][before:]
        assert len(new) == told, mode
        assert all("token" not in text for text in new)


@posix
async def test_secrets_in_the_notifications_of_a_process_are_masked(bench: Bench) -> None:
    async with bench.life():
        command = "echo token=abcdefgh1234; : sk-abcdefghijklmnop1234"
        await bench.do({"command": command, "background": True, "notify_on_complete": True})
        await bench.until(lambda: bench.heard)
        await bench.quiet()
        said = "\n".join([*bench.heard, *bench.stage.platform.chat("42").texts])
        assert "abcdefgh" not in said
        assert "⚙ echo token=***" in said


@posix
async def test_ended_processes_are_dropped_from_memory(bench: Bench) -> None:
    async with bench.life():
        for _ in range(3):
            await bench.do(*[{"command": "true", "background": True}] * 30)
        await bench.until(lambda: all(process.over.is_set() for process in processes_of(bench)))
        assert len(processes_of(bench)) == MOST
        (listed,) = await bench.do({"action": "list"})
        assert len(listed.content.splitlines()) == 90, "the rows of ended processes are kept"
        oldest = processes_of(bench)[0]
        oldest.ended_at = (oldest.ended_at or 0) - KEPT_FOR - 1
        assert oldest not in processes_of(bench)


@posix
async def test_a_process_that_could_not_be_started_does_not_count_against_the_limit(bench: Bench) -> None:
    async with bench.life() as gateway:
        results = await bench.do(
            *[{"command": "true", "background": True, "workdir": "nowhere"}] * (MOST + 3)
        )
        assert all("cannot work in" in result.content for result in results)
        assert processes_of(bench) == []
        assert gateway.work.background._room.available_tokens == MOST


def processes_of(bench: Bench) -> list[BackgroundProcess]:
    assert bench.gateway is not None
    ids = [session_id for (session_id,) in bench.rows("SELECT session_id FROM sessions")]
    return [kept for session_id in ids for kept in bench.gateway.work.background.of_session(session_id)]
