"""Runs: from the 202 of a run to its last event, followed with any cursor."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import trio
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, inline_worker
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.state.tables.turns import Outcome
from hermes_trio.testing import Script
from tests.web.conftest import WebStage, hearing
from tests.web.openai.run_client import begun, events, listening, stands, until

# --- beginning and following -------------------------------------------------------------------------


async def test_a_run_from_its_beginning_to_its_end(web_stage: WebStage) -> None:
    async def agent(turn: TurnContext) -> str:
        turn.usage = Usage(input_tokens=3, output_tokens=2)
        await turn.say("All ")
        await turn.say("done.")
        return "All done."

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http):
        run = await begun(http, input="hello", session_id="mine", unknown={"is": "passed over"})
        assert run["session_id"] == "mine"
        told = await events(http, run)
        assert told.names == ["message.delta", "message.delta", "run.completed"]
        assert told.ids == [f"{run['run_id']}:{seq}" for seq in (1, 2, 3)]
        assert told.frames[-1][1]["output"] == "All done."
        assert told.is_done
        usage = {"input_tokens": 3, "output_tokens": 2, "total_tokens": 5}
        assert told.frames[-1][1]["usage"] == usage
        assert await stands(http, run) == {
            "object": "run",
            "run_id": run["run_id"],
            "session_id": "mine",
            "status": "completed",
            "output": "All done.",
            "error": None,
            "usage": usage,
            "resumed_as": None,
        }
        again = await events(http, run)
        assert again.frames == told.frames, "a finished run has the same events as a running one"


async def test_a_run_is_over_when_all_of_it_is_in_its_journal(web_stage: WebStage) -> None:
    """The row has the end a moment before the journal. A client that reads the run then misses nothing."""
    held: list[Callable[[], None]] = []
    holds = False

    @contextmanager
    def worker(name: str) -> Iterator[Runner]:
        with inline_worker(name) as runner:

            def run(job: Callable[[], Any], done: Callable[[Any], object]) -> None:
                if holds and name == "journal-writer":
                    held.append(partial(runner, job, done))
                else:
                    runner(job, done)

            yield run

    async def agent(turn: TurnContext) -> str:
        nonlocal holds
        turn.usage = Usage(input_tokens=3, output_tokens=2)
        await turn.say("Done.")
        holds = True
        return "Done."

    web_stage.worker, web_stage.agent = worker, agent  # type: ignore[assignment]
    async with web_stage.served() as (gateway, http):
        run = await begun(http, input="x")
        await web_stage.until(lambda: bool(held))
        assert gateway.work.outcomes[Outcome.ANSWERED] == 1
        assert (await stands(http, run))["status"] == "running"
        async with listening(http, run) as followed:
            await followed.until("message.delta")
            holds = False
            for write in held:
                write()
            await followed.over.wait()
        assert followed.frames[-1][1]["usage"]["total_tokens"] == 5
        assert (await until(http, run, "completed"))["output"] == "Done."


async def test_a_run_continues_when_its_follower_goes(web_stage: WebStage) -> None:
    go_on = trio.Event()

    async def agent(turn: TurnContext) -> str:
        await turn.say("one ")
        await go_on.wait()
        await turn.say("two")
        return "one two"

    web_stage.agent = agent  # type: ignore[assignment]
    async with web_stage.served() as (_, http):
        run = await begun(http, input="hello")
        async with listening(http, run) as first:
            await first.until("message.delta")
        assert (await stands(http, run))["status"] == "running"
        go_on.set()
        rest = await events(http, run, cursor=first.ids[-1])
        assert [data.get("delta", data["event"]) for _, data in rest.frames] == ["two", "run.completed"]


async def test_a_run_waits_while_another_turn_of_its_session_runs(web_stage: WebStage) -> None:
    web_stage.agent.on("first", Script().hangs())
    async with web_stage.served() as (gateway, http):
        first = await begun(http, input="first", session_id="one")
        await web_stage.until(lambda: len(web_stage.agent.began) == 1)
        second = await begun(http, input="second", session_id="one")
        assert second["status"] == "queued"
        assert (await stands(http, second))["status"] == "queued"
        async with listening(http, second) as followed:
            assert (await http.post(f"/v1/runs/{first['run_id']}/stop")).json()["status"] == "stopping"
            await followed.over.wait()
        assert followed.names == ["message.delta", "run.completed"]
        assert (await stands(http, first))["status"] == "cancelled"
        assert gateway.work.outcomes[Outcome.STOPPED] == 1


async def test_a_given_history_replaces_the_stored_one(web_stage: WebStage) -> None:
    knew: list[list[tuple[str, str]]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        knew.append([(row.role, row.content) for row in turn.history])
        return f"Heard {turn.said[0].text}."

    web_stage.agent = agent  # type: ignore[assignment]
    past = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    async with web_stage.served() as (_, http):
        bodies: list[dict[str, Any]] = [
            {"input": "one"},
            {"input": "two"},
            {"input": "three", "conversation_history": past, "instructions": "Be brief."},
            {"input": [*past, {"role": "user", "content": "four"}]},
            {"input": "five", "conversation_history": []},
        ]
        for body in bodies:
            await events(http, await begun(http, session_id="mine", **body))
    assert knew == [
        [],
        [("user", "one"), ("assistant", "Heard one.")],
        [("system", "Be brief."), ("user", "a"), ("assistant", "b")],
        [("user", "a"), ("assistant", "b")],
        [],
    ]


async def test_the_same_request_with_an_idempotency_key_is_one_run(web_stage: WebStage) -> None:
    keyed = {"Idempotency-Key": "k"}
    async with web_stage.served() as (_, http):
        first = (await http.post("/v1/runs", json={"input": "x"}, headers=keyed)).json()
        again = (await http.post("/v1/runs", json={"input": "x"}, headers=keyed)).json()
        assert again["run_id"] == first["run_id"]
        await events(http, first)
        other = await http.post("/v1/runs", json={"input": "y"}, headers=keyed)
        assert (other.status_code, other.json()["error"]["code"]) == (422, "idempotency_key_reused")
        assert (await begun(http, input="x"))["run_id"] != first["run_id"]


async def test_an_unanswered_message_is_not_mixed_with_a_given_history(
    web_stage: WebStage,
) -> None:
    knew: list[list[str]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        if turn.said[0].text == "lost":
            raise RuntimeError("no luck")
        knew.append([row.content for row in turn.history])
        return f"Heard {turn.said[0].text}."

    web_stage.agent = agent  # type: ignore[assignment]
    past = [{"role": "user", "content": "two"}, {"role": "assistant", "content": "Heard two."}]
    async with web_stage.served() as (_, http):
        for said in ("lost", "two"):
            await events(http, await begun(http, input=said, session_id="one"))
        await events(http, await begun(http, input="three", session_id="one", conversation_history=past))
    assert knew == [["lost"], ["two", "Heard two."]]


# --- invalid cursors ---------------------------------------------------------------------------------


CURSORS = st.one_of(
    # The characters of a header. Other ones are refused before the cursor is read.
    st.text(
        st.characters(min_codepoint=0x20, exclude_characters="\x7f", exclude_categories=["Cs"]), max_size=40
    ),
    st.from_regex(re.compile(r"[A-Za-z0-9_.-]{0,12}:-?[0-9]{0,25}"), fullmatch=True),
    st.integers(-2, 12).map("RUN:{}".format),
    st.sampled_from(
        ["RUN:1 ", " RUN:1", "RUN:01", "RUN:1:1", "RUN:\u0661", "RUN:1e0", "RUN", ":", "RUN:0x1"]
    ),
)


async def test_no_cursor_breaks_a_stream(web_stage: WebStage) -> None:
    """Any text as a cursor gives either the events after a known one, or all of them."""
    web_stage.agent.on("x", Script().says("All done.", pieces=4))
    async with web_stage.served() as (_, http):
        run = await begun(http, input="x", session_id="one")
        whole = await events(http, run)
        loops = trio.lowlevel.current_trio_token()

        async def ask(cursor: str, in_header: bool) -> None:
            how: dict[str, Any] = (
                {"headers": [(b"Last-Event-ID", cursor.strip().encode())]}
                if in_header
                else {"params": {"cursor": cursor}}
            )
            async with listening(http, run, **how) as followed:
                await followed.over.wait()
            assert followed.is_done
            assert followed.frames == whole.frames[len(whole.frames) - len(followed.frames) :]
            in_utf8: Any = cursor.strip().encode()
            async with hearing(http, in_utf8) as heard:
                await heard.until("gateway.changed")
            assert set(heard.names) <= {"gap", "gateway.changed", *whole.names}

        @settings(max_examples=80, suppress_health_check=list(HealthCheck))
        @given(CURSORS, st.booleans())
        def fuzz(cursor: str, in_header: bool) -> None:
            trio.from_thread.run(ask, cursor.replace("RUN", run["run_id"]), in_header, trio_token=loops)

        with trio.fail_after(50):
            await trio.to_thread.run_sync(fuzz)
        assert (await http.get("/health")).status_code == 200


async def test_a_page_is_told_about_runs_begun_by_request(web_stage: WebStage) -> None:
    async with web_stage.served() as (_, http), hearing(http) as heard:
        run = await begun(http, input="hello", session_id="one")
        await heard.until("run.completed")
        told = [data for _, data in heard.frames if data["event"] == "run.completed"]
        assert (told[0]["session_id"], told[0]["run_id"]) == ("one", run["run_id"])
