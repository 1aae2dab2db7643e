"""Retention: old data of a home is deleted, and data that is still needed stays."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import msgspec
import pytest
import trio

from hermes_trio.config.retention_section import RetentionConfig
from hermes_trio.config.schema import AgentConfig, GatewayConfig, SessionReset
from hermes_trio.host.processes import process_identity, sweep
from hermes_trio.host.processes.guard import Guard
from hermes_trio.platform.contract import Traits
from hermes_trio.state.tables import processes
from hermes_trio.state.tables.processes import ProcessRow
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage, everyone

DAY = 86400.0
HOUR = 3600.0
SHORT = RetentionConfig(inbox_days=1, outbox_days=2, spool_days=3, journal_days=4, session_days=6)


def with_short_retention(config: GatewayConfig, **changed: Any) -> GatewayConfig:
    return msgspec.structs.replace(config, retention=SHORT, **changed)


def rows(stage: Stage, table: str) -> int:
    with stage.looking() as db:
        (count,) = db.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
    return int(count)


def journals(stage: Stage) -> list[str]:
    return sorted(path.name for path in (stage.home / "journal").glob("*"))


@pytest.mark.sqlite  # it counts the rows of the index of texts, which PostgreSQL makes when it searches
async def test_each_kind_of_data_is_kept_for_its_time_only(stage: Stage) -> None:
    stage.config = with_short_retention(stage.config)
    async with stage.life():
        await stage.says("hello")
        seen = []
        for _ in range(8):
            seen.append(
                (
                    rows(stage, "inbox"),
                    rows(stage, "outbox") > 0,
                    len(journals(stage)),
                    rows(stage, "sessions"),
                )
            )
            await trio.sleep(DAY + 120)
    assert seen == [
        (1, True, 1, 1),
        (0, True, 1, 1),
        (0, False, 1, 1),
        (0, False, 1, 1),
        (0, False, 0, 1),
        (0, False, 0, 1),
        (0, False, 0, 0),
        (0, False, 0, 0),
    ]
    for table in ("turns", "messages", "messages_text", "processes", "approvals"):
        assert rows(stage, table) == 0


async def test_a_session_in_use_keeps_its_old_messages(stage: Stage) -> None:
    stage.config = with_short_retention(stage.config)
    async with stage.life():
        for day in range(14):
            await stage.says(f"day {day}")
            await trio.sleep(DAY)
        assert rows(stage, "sessions") == 1
        assert rows(stage, "messages") == 28
        [directory] = (stage.home / "journal").glob("*")
        assert 4 <= len(list(directory.iterdir())) <= 6


async def test_a_running_turn_keeps_its_journal_and_its_session(stage: Stage) -> None:
    stage.platform = MemoryPlatform(traits=Traits(edits=True))
    one_day = RetentionConfig(journal_days=1, session_days=1)
    agent = AgentConfig(gateway_timeout=0, gateway_notify_interval=0, gateway_timeout_warning=0)
    stage.config = msgspec.structs.replace(everyone(agent), retention=one_day)
    stage.agent.on("work", Script().says("I begin.").takes(9 * DAY).says(" Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(HOUR)
        [journal] = (stage.home / "journal").glob("*/*.jsonl")
        os.utime(journal, (0, 0))  # the process has been silent for long
        await trio.sleep(8 * DAY)
        assert len(journals(stage)) == rows(stage, "sessions") == 1
        await trio.sleep(DAY + HOUR)
        assert stage.platform.chat("42").last == "I begin. Done."


async def test_files_without_a_row_are_deleted_by_their_own_age(stage: Stage) -> None:
    """Files without a row come from a kill between the two writes."""
    stage.config = with_short_retention(stage.config)

    def file(name: str, age: float) -> Path:
        path = stage.home / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")
        at = stage.world.time() - age
        os.utime(path, (at, at))
        return path

    stage.home.mkdir()
    old = [file("journal/gone/r1.jsonl", 5 * DAY), file("spools/p1", 4 * DAY)]
    young = [file("journal/new/r1.jsonl", 3 * DAY), file("spools/p2", 2 * DAY)]
    theirs = [file("journal/notes.txt", 99 * DAY), file("journal/gone too/r1.txt", 99 * DAY)]
    async with stage.life() as gateway:
        await stage.says("start the server")
        row = background_row(stage, "p3", started_at=stage.world.time())
        await gateway.home.database.write(processes.add, row)
        silent = file("spools/p3", 99 * DAY)
        await trio.sleep(HOUR)
        assert [path.exists() for path in (*old, *young, *theirs)] == [False] * 2 + [True] * 4
        assert silent.exists()
        assert not (stage.home / "journal/gone").exists()
        await trio.sleep(2 * DAY)
        assert [path.exists() for path in (*young, *theirs)] == [False] * 2 + [True] * 2


async def test_a_failing_deletion_does_not_prevent_the_others(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    stage.config = with_short_retention(stage.config)
    async with stage.life():
        await stage.says("hello")
        (stage.home / "spools").write_text("no directory")
        await trio.sleep(7 * DAY)
        assert rows(stage, "sessions") == len(journals(stage)) == 0
        await stage.says("hello again")
        assert stage.platform.chat("42").last == "You said: hello again"
    assert "_forget_outputs" in caplog.text


async def test_upkeep_after_a_long_stop_is_done_a_minute_after_the_start(stage: Stage) -> None:
    stage.config = with_short_retention(stage.config)
    async with stage.life():
        await stage.says("hello")
    await trio.sleep(100 * DAY)
    async with stage.life():
        await trio.sleep(59)
        assert rows(stage, "sessions") == 1
        await trio.sleep(2)
        assert rows(stage, "sessions") == rows(stage, "inbox") == len(journals(stage)) == 0
        assert rows(stage, "endings") == 1, "the ending of the former life"


# --- resets, which are decided at the next use of a session ---


def background_row(stage: Stage, name: str, *, started_at: float, pid: int = 1) -> ProcessRow:
    return ProcessRow(name, stage.entry().session_id, "a life", pid, 1.0, "serve", True, started_at)


async def test_a_session_with_an_old_background_process_is_reset(stage: Stage) -> None:
    reset = SessionReset(mode="idle", idle_minutes=60, bg_process_max_age_hours=24)
    stage.config = with_short_retention(stage.config, session_reset=reset)
    async with stage.life() as gateway:
        await stage.says("start the server")
        first = stage.entry().session_id
        await gateway.home.database.write(
            processes.add, background_row(stage, "p1", started_at=stage.world.time())
        )
        await trio.sleep(23 * HOUR)
        await stage.says("is it up?")
        assert stage.entry().session_id == first
        await trio.sleep(2 * HOUR)
        await stage.says("and now?")
        assert stage.entry().session_id != first
        assert stage.entry().auto_reset_reason == "idle"


class LookingGuard:
    """A guard that only looks at the processes."""

    async def look(self) -> sweep.ProcessTable:
        await trio.lowlevel.checkpoint()
        return sweep.THIS_SYSTEM.look()


@asynccontextmanager
async def watched() -> AsyncIterator[Guard]:
    yield cast(Guard, LookingGuard())


async def test_a_process_that_ended_unnoticed_does_not_prevent_a_reset(stage: Stage) -> None:
    stage.guarded = watched
    reset = SessionReset(mode="idle", idle_minutes=60, bg_process_max_age_hours=100_000)
    stage.config = with_short_retention(stage.config, session_reset=reset)
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as server:
        living = process_identity.find(server.pid)
        assert living is not None
        async with stage.life() as gateway:
            ids = {}
            for chat, pid in (("42", 2**30), ("43", living.pid)):
                await stage.says("hello", chat=chat)
                ids[chat] = stage.entry(chat).session_id
                row = ProcessRow(
                    f"p{chat}", ids[chat], gateway.home.life, pid, living.started, "serve", True, time.time()
                )
                await gateway.home.database.write(processes.add, row)
            await trio.sleep(3 * HOUR)
            for chat in ids:
                await stage.says("hello again", chat=chat)
            assert stage.entry("42").session_id != ids["42"]
            assert stage.entry("43").session_id == ids["43"]
        server.communicate(b"\n")
