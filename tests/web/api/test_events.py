"""The event stream: each event is in the journal before it is sent, and missing ones are announced."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.base.events import MessageDelta
from hermes_trio.base.world import World
from hermes_trio.gateway.serve import FLUSH_WITHIN
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, inline_worker, worker_thread
from hermes_trio.journal import broadcast, replay
from hermes_trio.journal.writer import open_journals
from hermes_trio.state.tables import turns
from hermes_trio.testing import Script
from hermes_trio.web.api import event_routes, session_changes
from hermes_trio.web.http.connection import Message
from tests.web.conftest import KEY, Heard, WebStage, client, hearing


async def test_the_events_of_the_stream_are_those_of_the_journal(web_stage: WebStage) -> None:
    web_stage.agent.on("hello", Script().says("Hello there.", pieces=4).calls("terminal", preview="ls"))
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        posted = (await http.post("/api/sessions/one/messages", json={"text": "hello"})).json()
        await heard.until("run.completed")
        assert heard.text == "Hello there."
        path = gateway.home.path / "journal" / "one" / f"{posted['run_id']}.jsonl"
        written = [json.loads(line) for line in path.read_text().splitlines()]
        assert heard.ids == [record["event_id"] for record in written]
        for (_, data), record in zip(heard.frames, written, strict=True):
            assert {name: data[name] for name in ("event", "run_id", "session_id", "seq")} == {
                name: record[name] for name in ("event", "run_id", "session_id", "seq")
            }
            assert data["at"] == record["created_at"]


async def test_no_event_is_sent_before_it_is_in_the_journal(tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    async with open_journals(tmp_path, World(), worker=inline_worker) as journals:
        with journals.live.watching() as watch, await journals.open_run("s", "r") as run:

            async def look() -> None:
                while records := await watch.next():
                    in_file = (tmp_path / "s" / "r.jsonl").read_text().count("\n")
                    seen.append((records[-1].seq, in_file))

            async with trio.open_nursery() as nursery:
                nursery.start_soon(look)
                for number in range(20):
                    await run.append(MessageDelta(str(number)))
                run.append_nowait(MessageDelta("last"))
                await journals.end_subscriptions()
    assert seen[-1] == (21, 21)
    assert all(heard <= in_file for heard, in_file in seen)


async def test_a_client_that_reconnects_gets_exactly_the_missed_events(web_stage: WebStage) -> None:
    go_on = trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.say("one ")
        await turn.say("two ")
        if turn.said[0].text == "wait":
            await go_on.wait()
        await turn.say("three")
        return "one two three"

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http):
        async with hearing(http) as heard:
            await http.post("/api/sessions/slow/messages", json={"text": "wait"})
            await heard.until("message.delta", 2)
            cursor = heard.ids[-1]
        await http.post("/api/sessions/other/messages", json={"text": "quick"})
        async with hearing(http) as beside:  # a second listener, to know when the run is over
            go_on.set()
            await beside.until("run.completed", 2 if "run.completed" in beside.names else 1)
            await web_stage.until(lambda: not web_stage.gateway.work.running)  # type: ignore[union-attr]
        async with hearing(http, cursor) as again:
            await again.until("run.completed", 2)
            assert len(set(again.ids)) == len(again.ids), "no event twice"
            assert set(again.ids).isdisjoint(heard.ids), "no event of the first stream"
            slow = [data["seq"] for _, data in again.frames if data["session_id"] == "slow"]
            other = [data["seq"] for _, data in again.frames if data["session_id"] == "other"]
            assert (slow, other) == ([3, 4], [1, 2, 3, 4])
            assert "gap" not in again.names


async def test_a_cursor_works_in_the_next_life_and_a_cut_run_has_an_end(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (_, http), hearing(http) as heard:
        posted = (await http.post("/api/sessions/one/messages", json={"text": "hang"})).json()
        await heard.until("message.delta")
        cursor = heard.ids[-1]
    web_stage.agent.on("hang", Script().says("All done."))
    async with web_stage.served() as (_, http), hearing(http, cursor) as again:
        await again.until("run.completed")
        first, *later = [data for _, data in again.frames]
        assert (first["event"], first["code"]) == ("run.failed", "interrupted")
        assert (first["run_id"], first["seq"]) == (posted["run_id"], 2)
        assert {data["run_id"] for data in later} != {posted["run_id"]}
        assert again.text == "All done."
        assert "gap" not in again.names


async def test_the_begin_and_the_end_of_a_turn_name_its_new_session(web_stage: WebStage) -> None:
    web_stage.agent.on("wait", Script().says("I begin.").takes(0.1).says("I end."))
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await web_stage.platform.says("wait")
        await heard.until("run.completed")
        await web_stage.until(lambda: len(named(heard)) >= 2)
        assert set(named(heard)) == {web_stage.entry().session_id}


def named(heard: Heard) -> list[str]:
    """Return the sessions of the changes that were heard."""
    return [change["session_id"] for change in heard.changes if change["event"] == "session.changed"]


async def test_the_last_event_says_that_the_gateway_ends(web_stage: WebStage) -> None:
    web_stage.worker = worker_thread
    web_stage.agent.on("hang", Script().says("I begin.").hangs())
    async with web_stage.served() as (gateway, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hang"})
        await heard.until("message.delta")
        gateway.stop(restart=True, grace=0)
        await heard.over.wait()
        assert heard.names == ["message.delta", "run.failed", "gateway.ending"]
        assert heard.frames[-1][1]["kind"] == "restart"
        await web_stage.until(lambda: web_stage.ended_at is not None)


async def test_a_listener_does_not_keep_the_gateway_from_ending(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http), hearing(http), hearing(http):
        began = trio.current_time()
        gateway.stop(grace=60)
        await web_stage.until(lambda: web_stage.ended_at is not None)
        assert (web_stage.ended_at or 0) - began < 30


@pytest.mark.parametrize(
    "cursor", ["nonsense", "no-such-run:3", "../../etc/passwd:1", "run:-1", "run:" + "9" * 30]
)
async def test_an_invalid_cursor_replays_open_runs_from_their_start(web_stage: WebStage, cursor: str) -> None:
    web_stage.agent.on("hang", Script().says("I begin.", pieces=3).hangs())
    async with web_stage.served() as (_, http):
        async with hearing(http) as heard:
            await http.post("/api/sessions/one/messages", json={"text": "hang"})
            await heard.until("message.delta", 3)
        async with hearing(http, cursor) as again:
            await again.until("message.delta", 3)
            assert again.names[0] == "gap"
            assert again.ids == heard.ids
        async with hearing(http) as fresh:
            await fresh.until("message.delta", 3)
            assert fresh.ids == heard.ids
            assert "gap" not in fresh.names


async def test_a_cursor_that_is_too_old_replays_open_runs_from_their_start(web_stage: WebStage) -> None:
    web_stage.agent.on("hang", Script().says("I begin.", pieces=3).hangs())
    async with web_stage.served() as (_, http):
        async with hearing(http) as heard:
            going_on = await http.post("/api/sessions/one/messages", json={"text": "hang"})
            await heard.until("message.delta", 3)
        cursor = heard.ids[0]
        for number in range(event_routes.MOST_RUNS + 1):
            await http.post(f"/api/sessions/other-{number}/messages", json={"text": "hello"})
        await web_stage.until(lambda: len(web_stage.agent.left) == event_routes.MOST_RUNS + 1)
        async with hearing(http, cursor) as again:
            await again.until("message.delta", 3)
            assert again.names[0] == "gap"
            told = [data for _, data in again.frames if data.get("run_id") == going_on.json()["run_id"]]
            assert [data["seq"] for data in told] == [1, 2, 3]


async def test_a_cursor_beyond_the_end_replays_its_run_from_the_start(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http):
        async with hearing(http) as heard:
            run_id = (await http.post("/api/sessions/one/messages", json={"text": "hi"})).json()["run_id"]
            await heard.until("run.completed")
        async with hearing(http, f"{run_id}:99") as again:
            await again.until("run.completed")
            assert again.names[0] == "gap"
            assert again.ids == heard.ids


async def test_missing_events_are_announced_by_a_gap(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, http):
        async with hearing(http) as heard:
            await http.post("/api/sessions/one/messages", json={"text": "first"})
            await heard.until("run.completed")
            cursor = heard.ids[0]
            run_id = (await http.post("/api/sessions/two/messages", json={"text": "next"})).json()["run_id"]
            await heard.until("run.completed", 2)
        path = gateway.home.path / "journal" / "two" / f"{run_id}.jsonl"
        lines = path.read_bytes().splitlines(keepends=True)
        path.write_bytes(b"".join([b"garbage\n", *lines[1:]]))
        async with hearing(http, cursor) as again:
            await again.until("run.completed")
            gaps = [data for _, data in again.frames if data["event"] == "gap"]
            assert gaps == [{"event": "gap", "session_id": "two", "run_id": run_id}]
            assert not [data for _, data in again.frames if data.get("session_id") == "two"][1:]


async def test_a_long_run_is_replayed_from_its_start_and_a_too_long_one_harms_no_other(
    tmp_path: Path,
) -> None:
    async with open_journals(tmp_path, World(), worker=inline_worker) as journals:
        with await journals.open_run("s", "long") as run:
            await run.append(*[MessageDelta("x")] * 20_000)
        with await journals.open_run("s", "huge") as run:
            for _ in range(9):
                await run.append(MessageDelta("x" * (replay.MOST_MISSED // 8)))
        huge, long = replay.KnownRun("s", "huge"), replay.KnownRun("s", "long")
        found = await journals.missed([huge, long], "")
        assert [record.event_id for record in found.records] == [f"long:{seq}" for seq in range(1, 20_001)]
        assert found.gaps == [huge], "a gap, and no part of the run"
        found = await journals.missed([huge, long], "huge:5")
        assert [record.event_id for record in found.records] == [f"huge:{seq}" for seq in range(6, 10)]
        assert (found.gaps, found.whole) == ([], True)


async def test_a_client_that_reads_nothing_is_cut_off_and_can_reconnect(tmp_path: Path) -> None:
    async with open_journals(tmp_path, World(), worker=inline_worker) as journals:
        with journals.live.watching(most=10) as slow, journals.live.watching(most=100) as quick:
            with await journals.open_run("s", "r") as run:
                for number in range(30):
                    await run.append(MessageDelta(str(number)))
            assert [record.seq for record in await slow.next()] == list(range(1, 11))
            assert slow.cut
            assert await slow.next() == []
            assert [record.seq for record in await quick.next()] == list(range(1, 31))
            assert not quick.cut
        found = await journals.missed([replay.KnownRun("s", "r")], "r:10")
        assert [record.seq for record in found.records] == list(range(11, 31))


async def test_a_slow_client_gets_its_unread_events_and_then_cut(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        for _ in range(broadcast.MOST_UNREAD + 10):
            await turn.say(".")
        return "done"

    web_stage.agent = agent  # type: ignore[assignment]
    sent: list[bytes] = []
    reads, hears = trio.Event(), trio.Event()

    async def send(message: Message) -> None:
        sent.append(message.get("body", b""))
        if b"run_id" in sent[-1]:
            hears.set()
            await reads.wait()

    async def receive() -> Message:
        await trio.sleep_forever()

    async with web_stage.served() as (_, http), trio.open_nursery() as nursery:
        assert web_stage.web is not None
        nursery.start_soon(web_stage.web.opened.application, asked("/api/events"), receive, send)
        await web_stage.until(lambda: b": connected" in b"".join(sent))
        await http.post("/api/sessions/one/messages", json={"text": "long"})
        await hears.wait()
        await web_stage.until(lambda: [turn.outcome for turn in turns_of(web_stage)] == ["answered"])
        reads.set()
    got = b"".join(sent)
    assert got.endswith(b'data: {"event":"cut"}\n\n')
    assert b"run.completed" not in got
    seqs = [int(seq) for seq in re.findall(rb"^id: \w+:(\d+)$", got, re.MULTILINE)]
    assert seqs == list(range(1, len(seqs) + 1)), "the events have no hole"
    assert len(seqs) > broadcast.MOST_UNREAD, "the kept events are sent"


async def test_events_written_during_the_replay_are_sent_once(web_stage: WebStage) -> None:
    held: list[Callable[[], None]] = []

    @contextmanager
    def slow(name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def later(job: Any, done: Any) -> None:
                held.append(lambda: runner(job, done))

            yield later if name == "journal-reader" else runner

    web_stage.worker = slow
    async with web_stage.served() as (_, http), hearing(http) as heard:
        await http.post("/api/sessions/one/messages", json={"text": "hello"})
        await web_stage.until(lambda: [turn.outcome for turn in turns_of(web_stage)] == ["answered"])
        assert heard.frames == []
        await http.post("/api/sessions/two/messages", json={"text": "hello"})
        await web_stage.until(lambda: len(web_stage.agent.left) == 2)
        held.pop()()
        await heard.until("run.completed", 2)
        assert len(heard.ids) == len(set(heard.ids)) == 4


async def test_a_client_that_reads_nothing_does_not_keep_the_gateway_from_ending(
    web_stage: WebStage, autojump_clock: MockClock
) -> None:
    async def agent(turn: TurnContext) -> str:
        for _ in range(60):  # more than the system buffers for a client that does not read
            await turn.say("x" * 500_000)
        return "done"

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (gateway, http):
        assert web_stage.web is not None
        port = int(web_stage.web.address.rpartition(":")[2])
        async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
            await stream.send_all(
                b"GET /api/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n\r\n"
                % KEY.encode()
            )
            assert b": connected" in await stream.receive_some(10_000)
            await http.post("/api/sessions/one/messages", json={"text": "long"})
            await web_stage.until(lambda: [turn.outcome for turn in turns_of(web_stage)] == ["answered"])
            began = trio.current_time()
            gateway.stop(grace=60)
            await web_stage.until(lambda: web_stage.ended_at is not None)
            assert (web_stage.ended_at or 0) - began == pytest.approx(FLUSH_WITHIN, abs=0.1)


async def test_a_run_whose_process_was_killed_has_an_end_for_listeners(tmp_path: Path) -> None:
    async with open_journals(tmp_path, World(), worker=inline_worker) as journals:
        with await journals.open_run("s", "r") as run:
            await run.append(MessageDelta("one"), MessageDelta("two"))
        dead = replay.KnownRun("s", "r", cut_at=World().time())
        [end] = (await journals.missed([dead], "r:2")).records
        assert (end.event_id, end.event, end.payload["code"]) == ("r:3", "run.failed", "interrupted")
        after = await journals.missed([dead], "r:3")
        assert (after.records, after.whole) == ([], True), "its id was sent, so it is a cursor"
        answered = replay.KnownRun("s", "r", over=True)
        found = await journals.missed([answered], "r:1")
        assert ([record.seq for record in found.records], found.gaps) == ([2], [answered])


async def test_a_silent_event_stream_sends_heartbeats(web_stage: WebStage, autojump_clock: MockClock) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        began = trio.current_time()
        await web_stage.until(lambda: heard.comments.count("heartbeat") == 1)
        assert trio.current_time() - began == pytest.approx(session_changes.HEARTBEAT, abs=1)


async def test_a_listener_that_hangs_up_is_removed(web_stage: WebStage) -> None:
    async with web_stage.served() as (gateway, _):
        assert web_stage.web is not None
        for _ in range(3):
            async with client(web_stage.web) as other, hearing(other):
                assert gateway.home.journals.live.watchers == 1
            await web_stage.until(lambda: gateway.home.journals.live.watchers == 0)


def asked(path: str) -> Message:
    """Return the scope of a request with the key."""
    headers = [(b"host", b"127.0.0.1"), (b"authorization", f"Bearer {KEY}".encode())]
    return {
        "type": "http",
        "method": "GET",
        "path": path,
        "query_string": b"",
        "headers": headers,
        "client": ("127.0.0.1", 1),
    }


def turns_of(stage: WebStage) -> list[turns.TurnRow]:
    """Return all turns."""
    db = sqlite3.connect(stage.home / "gateway.db")
    try:
        return turns.of_session(db, "one")
    finally:
        db.close()
