"""The tool `process`, and the notifications of ends. The processes are real."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import trio

from hermes_trio.config.schema import DisplayConfig, ModelConfig, TerminalConfig
from hermes_trio.gateway.processes.background import MOST
from tests.host.children.kinds import KINDS, alive, soon, token, until
from tests.stage import Stage, everyone
from tests.tools.bench import Bench

pytestmark = pytest.mark.skipif(os.name != "posix", reason="these commands are for a POSIX shell")

LAST = {"process_id": "last"}


@pytest.fixture
def mine() -> Iterator[str]:
    """A number that all processes of the test carry; none of them may be left after it."""
    yield (number := token())
    soon(lambda: not alive(number))


@pytest.fixture
def bench(real_stage: Stage, tmp_path: Path) -> Bench:
    (work := tmp_path / "work").mkdir()
    terminal = TerminalConfig(cwd=str(work), timeout=20)
    real_stage.config = msgspec.structs.replace(everyone(), terminal=terminal)
    return Bench(real_stage)


def background(command: str, **how: object) -> dict[str, object]:
    return {"command": command, "background": True, **how}


async def test_process_shows_state_and_output_without_secrets(bench: Bench, mine: str) -> None:
    async with bench.life():
        command = f"seq 1 500; echo key sk-abcdefghijklmnop1234; exec sleep {mine}"
        started, polled, log, page, listed = await bench.do(
            background(command),
            {"action": "wait", **LAST, "timeout": 1},
            {"action": "log", **LAST},
            {"action": "log", **LAST, "offset": 10, "limit": 3},
            {"action": "list"},
        )
        assert started.content.startswith("Started proc_")
        assert ": running, pid " in polled.content
        assert "\n500\nkey ***" in polled.content
        assert mine not in polled.content.partition("\n")[2]
        assert "(lines 302 to 501 of 501)\n302\n303\n" in log.content
        assert page.content.endswith("(lines 10 to 12 of 501)\n10\n11\n12")
        assert listed.content.startswith("proc_")
        assert f"sleep {mine}" in listed.content
        (polled,) = await bench.do({"action": "poll", **LAST})
        assert len(polled.content) < 1500
        assert polled.content.endswith("500\nkey ***")


async def test_process_sends_input_until_the_process_ends(bench: Bench) -> None:
    async with bench.life():
        results = await bench.do(
            background("while read x; do echo got $x; done; echo over"),
            {"action": "submit", **LAST, "data": "one"},
            {"action": "write", **LAST, "data": "tw"},
            {"action": "write", **LAST, "data": "o\n"},
            {"action": "close", **LAST},
            {"action": "wait", **LAST},
            {"action": "submit", **LAST, "data": "late"},
        )
        assert results[-2].content.endswith("got one\ngot two\nover")
        assert "ended with exit code 0" in results[-2].content
        assert results[-1].is_error
        assert "takes no more input" in results[-1].content


async def test_input_for_a_process_that_does_not_read_fails_in_time(bench: Bench, mine: str) -> None:
    async with bench.life():
        _, given = await bench.do(
            background(f"sleep {mine}"), {"action": "write", **LAST, "data": "x" * 200_000}
        )
        assert given.is_error
        assert "does not read its input" in given.content


@pytest.mark.parametrize("kind", KINDS)
async def test_process_kill_returns_after_all_descendants_are_gone(
    bench: Bench, mine: str, kind: str
) -> None:
    async with bench.life():
        (started,) = await bench.do(background(KINDS[kind].format(t=mine)))
        await until(lambda: alive(mine))
        (killed,) = await bench.do({"action": "kill", **LAST})
        assert alive(mine) == []
        assert ": ended by signal " in killed.content
        again, listed = await bench.do({"action": "kill", **LAST}, {"action": "list"})
        assert ": ended by signal " in again.content
        assert started.content.split()[1] in listed.content


async def test_process_reaches_only_processes_of_its_session(bench: Bench, mine: str) -> None:
    async with bench.life():
        (started,) = await bench.do(background(f"sleep {mine}"))
        name = started.content.split()[1]
        listed, polled, killed = await bench.do(
            {"action": "list"},
            {"action": "poll", "process_id": name},
            {"action": "kill", "process_id": name},
            chat="43",
        )
        assert listed.content == "This session has no background processes."
        assert polled.is_error
        assert killed.is_error
        assert alive(mine)


# Notifications of ends.


@pytest.mark.parametrize("action", ["wait", "log", "poll", "kill"])
async def test_an_end_that_the_model_has_seen_is_not_notified(bench: Bench, action: str) -> None:
    async with bench.life():
        _, _, seen = await bench.do(
            background("echo done", notify_on_complete=True),
            {"action": "wait", **LAST} if action == "wait" else {"command": "sleep 0.5"},
            {"action": action, **LAST},
            {"sleep": 0.5},
        )
        assert "ended with exit code 0" in seen.content
        await bench.quiet()
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []
        assert bench.rows("SELECT told_at IS NOT NULL FROM processes WHERE background") == [(1,)]


@pytest.mark.parametrize("action", ["nothing", "poll"])
async def test_an_end_that_the_model_has_not_seen_is_notified_once(bench: Bench, action: str) -> None:
    async with bench.life():
        looks = [{"action": "poll", **LAST}] if action == "poll" else []
        results = await bench.do(background("read x; echo done; exit 3", notify_on_complete=True), *looks)
        assert all("running" in result.content for result in results[1:])
        await bench.do({"action": "submit", **LAST, "data": "go"})
        await bench.until(lambda: bench.heard)
        await bench.quiet()
        (heard,) = bench.heard
        assert "ended with exit code 3" in heard
        assert heard.rstrip().endswith("done")
        assert bench.rows("SELECT told_at IS NOT NULL FROM processes WHERE background") == [(1,)]
        polled, _ = await bench.do({"action": "poll", **LAST}, {"sleep": 0.5}, {"action": "list"})
        assert "ended with exit code 3" in polled.content
        await bench.quiet()
        assert len(bench.heard) == 1


async def test_an_end_seen_in_the_database_only_is_not_notified(bench: Bench) -> None:
    async with bench.life():
        some: list[dict[str, object]] = [*[background("true")] * 10, {"sleep": 0.5}]
        results = await bench.do(
            background("echo done", notify_on_complete=True),
            *some * (MOST // 10 + 1),
            {"action": "poll", "process_id": "first"},
        )
        assert "some time ago" in results[-1].content, "only its row in the database is left"
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []


async def test_an_end_seen_before_its_notification_is_read_is_not_notified(bench: Bench) -> None:
    bench.stage.config = msgspec.structs.replace(bench.stage.config, display=DisplayConfig("queue"))
    async with bench.life():
        go = Path(bench.stage.config.terminal.cwd or "") / "go"
        command = f"until [ -e {go} ]; do sleep 0.01; done"
        await bench.do(background(command, notify_on_complete=True))
        await bench.begin({"sleep": 0.5}, {"action": "wait", **LAST})
        await bench.until(lambda: bench.gateway and bench.gateway.work.running)
        go.touch()
        await bench.quiet()
        assert "ended with exit code 0" in bench.results[-1].content
        await trio.sleep(0.5)
        await bench.quiet()
        assert bench.heard == []


async def test_an_end_during_a_turn_is_notified_after_the_turn(bench: Bench) -> None:
    async with bench.life():
        await bench.do(background("echo done", notify_on_complete=True), {"sleep": 1})
        await bench.until(lambda: bench.heard)
        await bench.quiet()
        assert len(bench.heard) == 1
        assert bench.within == []


async def test_the_end_of_a_process_killed_with_its_session_is_not_notified(bench: Bench, mine: str) -> None:
    async with bench.life():
        await bench.do(background(f"sleep {mine}", notify_on_complete=True))
        await bench.stage.platform.says("/new")
        await until(lambda: not alive(mine))
        await trio.sleep(0.5)
        assert bench.heard == []
        assert not any("⚙" in text for text in bench.stage.platform.chat("42").texts)


# Across a restart.


async def test_processes_that_ended_with_the_gateway_are_in_the_next_note(bench: Bench, mine: str) -> None:
    async with bench.life():
        await bench.do(background(f"echo begun; sleep {mine}"), background("exit 3"), {"sleep": 0.3})
        await bench.do(background("exit 4"), {"action": "wait", **LAST})
        await bench.quiet()
    assert alive(mine) == []
    async with bench.life():
        listed, unknown = await bench.do({"action": "list"}, {"action": "poll", "process_id": "x"})
        assert unknown.is_error
        names = [line.split(":")[0] for line in listed.content.splitlines()]
        assert len(names) == 3
        note = bench.prompts[-1]
        assert note.startswith("[System note: The gateway was restarted.")
        assert names[0] in note
        assert names[1] in note
        assert "exit code 3" in note
        assert names[2] not in note, "the model knows of this end"
        (log,) = await bench.do({"action": "log", "process_id": names[0]})
        assert log.content.endswith("(lines 1 to 1 of 1)\nbegun")
        assert "[System note:" not in bench.prompts[-1], "the note is given once"
    async with bench.life():
        await bench.do({"action": "list"})
        assert "[System note:" not in bench.prompts[-1]


async def test_a_stopped_turn_does_not_use_up_the_note_of_ended_processes(bench: Bench, mine: str) -> None:
    async with bench.life():
        await bench.do(background(f"sleep {mine}"))
    async with bench.life() as gateway:
        await bench.begin({"sleep": 300})
        await bench.until(lambda: gateway.work.running)
        await bench.until(lambda: "The gateway was restarted" in bench.prompts[-1])
        await bench.stage.platform.says("/stop")
        await bench.quiet()
        await bench.do({"action": "list"})
        assert "The gateway was restarted" in bench.prompts[-1]
        await bench.do({"action": "list"})
        assert "The gateway was restarted" not in bench.prompts[-1]


async def test_a_resumed_turn_is_told_of_its_ended_processes(bench: Bench, mine: str) -> None:
    async with bench.life() as gateway:
        await bench.begin(background(f"sleep {mine}"), {"sleep": 300})
        await until(lambda: alive(mine))
        gateway.stop(grace=0)
    assert alive(mine) == []
    async with bench.life():
        await bench.until(lambda: bench.heard)
        assert "was interrupted by a gateway" in bench.heard[-1]
        assert f"sleep {mine}" in bench.heard[-1]
        assert bench.heard[-1].count("[System note:") == 1


async def test_process_shows_no_half_of_a_secret_where_a_long_output_was_cut(bench: Bench) -> None:
    secret = "hunter2hunter2hunter2hunter2hunter2"
    model = ModelConfig(api_key=secret)
    bench.stage.config = msgspec.structs.replace(bench.stage.config, model=model)
    command = f"yes '{'hunter2' * 5}' | head -n 310000"
    async with bench.life():
        _, waited, log = await bench.do(
            background(command), {"action": "wait", **LAST}, {"action": "log", **LAST}
        )
        count = int(log.content.partition(" of ")[2].partition(")")[0])
        pages = [
            page
            for offset in range(1, count, 4000)
            for page in await bench.do({"action": "log", **LAST, "offset": offset, "limit": 5000})
        ]
        (spool,) = bench.stage.home.glob("spools/proc_*")
        assert b"bytes are left out here" in spool.read_bytes()
    assert len(pages) > 20
    for shown in (waited, log, *pages):
        assert "***" in shown.content
        assert "unter" not in shown.content.partition("\n")[2]


async def test_process_log_hides_a_private_key_that_begins_before_its_first_line(bench: Bench) -> None:
    lines = "".join(f"echo {number}abcdefghABCDEFGH0123456789;" for number in range(20, 34))
    command = f"echo -----BEGIN RSA PRIVATE KEY-----; {lines} sleep 5"
    async with bench.life():
        *_, page = await bench.do(
            background(command),
            {"action": "wait", **LAST, "timeout": 1},
            {"action": "log", **LAST, "offset": 9, "limit": 3},
        )
    assert "(lines 9 to 11 of" in page.content
    assert "abcdefgh" not in page.content.partition("(lines")[2]
