"""Chat commands: obeyed at once whatever goes on, never sent to a model, done when they are stored."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing, nullcontext
from dataclasses import replace
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from hermes_trio.base.messages import Attachment
from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.commands.parse import parse
from hermes_trio.gateway.commands.table import COMMANDS
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing import Script
from tests.gateway.intake.test_busy import NAMED, busy, outcomes, photo, rows
from tests.stage import Stage, everyone, home_channels

GRACE = 50.0

IDLE, BUSY, DRAINING, DRAINED = "idle", "busy", "draining", "drained"

ONGOING = {IDLE: None, BUSY: "answered", DRAINING: "answered", DRAINED: "answered"}
"""What becomes of a turn that runs, if the command does nothing to it."""
STOPPED = {BUSY: "stopped", DRAINING: "stopped", DRAINED: "stopped"}
NOTHING = words.stopped(was_running=False, dropped=0)
STOP = words.stopped(was_running=True, dropped=0)
NEW = words.new_session(0)
UNDONE = words.taken_back("work")
KEPT = {DRAINING: words.after_restart(), DRAINED: words.after_drain()}
BESIDE = words.works_beside()
ASKED = words.nothing_asked()

Said = str | Callable[[str], bool] | None

TABLE: dict[str, tuple[dict[str, Said], dict[str, str]]] = {
    # command: (the reply in each state, or in all of them under ""; what becomes of the turn, if anything)
    "/help": ({"": lambda said: "/stop ends what is running" in said and "/start" not in said}, {}),
    "/status": (
        {
            IDLE: lambda said: "The gateway is up; 0 turns" in said and "Nothing is running here" in said,
            BUSY: lambda said: "The gateway is up; 1 turn is running" in said and "Working for 5 s" in said,
            DRAINING: lambda said: "going down (planned); 1 turn is running" in said,
            DRAINED: lambda said: "begins nothing new for now; 1 turn is running" in said,
        },
        {},
    ),
    "/stop": ({IDLE: NOTHING, "": STOP}, STOPPED),
    "/stop all": ({IDLE: NOTHING, "": STOP}, STOPPED),
    "/new": ({"": NEW}, dict.fromkeys(STOPPED, "reset")),
    "/reset": ({"": NEW}, dict.fromkeys(STOPPED, "reset")),
    "/undo": ({IDLE: words.taken_back("before"), "": UNDONE}, STOPPED),
    "/retry": ({IDLE: None, BUSY: None, **KEPT}, STOPPED),
    "/queue": ({"": words.needs_text("queue")}, {}),
    "/queue later": ({IDLE: None, BUSY: words.queued(), **KEPT}, {}),
    "/q later": ({IDLE: None, BUSY: words.queued(), **KEPT}, {}),
    "/steer later": ({IDLE: None, BUSY: words.steered(), **KEPT}, {}),
    "/background later": ({IDLE: BESIDE, BUSY: BESIDE, **KEPT}, {}),
    "/bg later": ({IDLE: BESIDE, BUSY: BESIDE, **KEPT}, {}),
    "/btw": ({"": words.needs_text("background")}, {}),
    "/approve": ({"": ASKED}, {}),
    "/deny": ({"": ASKED}, {}),
    "/model": ({"": lambda said: said.startswith("The model is ")}, {}),
    "/model other/model": (
        {
            "": lambda said: said.startswith(
                "The model is not changed to 'other/model': no command does that."
            )
        },
        {},
    ),
    "/compress": ({"": words.nothing_to_compress()}, {}),
    "/usage": ({"": lambda said: "100 tokens in, 20 out" in said and "Cost: unknown" in said}, {}),
    "/sethome": ({"": words.home_is_here()}, {}),
    "/whoami": ({"": lambda said: "memory user 42" in said and "agent:main:memory:dm:42" in said}, {}),
    "/restart": (
        {
            IDLE: words.restart_asked(0, GRACE),
            BUSY: words.restart_asked(1, GRACE),
            DRAINING: words.ending_already(1),
            DRAINED: words.restart_asked(1, GRACE),
        },
        {},
    ),
    "/start": ({"": None}, {}),
    "/frobnicate": ({"": words.unknown_command("frobnicate")}, {}),
    "/STOP@hermes_bot": ({IDLE: NOTHING, "": STOP}, STOPPED),
}
GOES_ON_BY_ITSELF = ("/retry", "/queue later", "/q later", "/steer later", "/background later", "/bg later")
"""Commands that give the agent something to do."""


def test_the_table_has_every_command() -> None:
    assert set(COMMANDS) <= {said.split()[0].removeprefix("/") for said in TABLE} | {"background"}


async def agent(turn: TurnContext) -> str:
    """Takes ten seconds for `work`, and says how much it used."""
    await turn.requesting()
    assert not any(event.text.startswith("/") for event in turn.said), "a command for a model"
    turn.usage = Usage(input_tokens=100, output_tokens=20)
    said = " ".join(event.text for event in turn.said)
    await trio.sleep(20 if said == "work" else 0)
    return f"You said: {said}"


@pytest.mark.parametrize("state", [IDLE, BUSY, DRAINING, DRAINED])
@pytest.mark.parametrize("command", list(TABLE))
async def test_every_command_in_every_state(
    stage: Stage, autojump_clock: MockClock, command: str, state: str
) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=GRACE))
    stage.opened_agent = nullcontext(agent)
    async with stage.life() as gateway:
        await stage.says("before")
        if state != IDLE:
            await stage.says("work")
        await trio.sleep(5)
        if state == DRAINING:
            gateway.stop(grace=GRACE)
            await trio.testing.wait_all_tasks_blocked()
        if state == DRAINED:
            gateway.control.hold(True)
            await trio.testing.wait_all_tasks_blocked()
        known = len(stage.platform.chat("42").messages)
        await stage.says(command, message_id="the command")
        replies = [m.text for m in stage.platform.chat("42").messages[known:] if m.reply_to == "the command"]
        replies = [said for said in replies if not said.startswith(("You said: ", "⚠ Gateway restarting"))]
        expected, becomes = TABLE[command]
        wanted = expected[state] if state in expected else expected[""]
        if wanted is None:
            assert replies == []
        else:
            [reply] = replies
            assert wanted(reply) if callable(wanted) else reply == wanted
        await trio.sleep(5)
        if state != IDLE:
            # The session may have been ended: what became of the turn is looked for in all of them.
            assert turn_of(stage, "work") == becomes.get(state)
        await trio.sleep(40)
        assert turn_of(stage, "work") == becomes.get(state, ONGOING[state])
        open_rows = states(stage)
        kept = state in KEPT and command in GOES_ON_BY_ITSELF
        assert open_rows == (["pending"] if kept else []), "a command is done when it is stored"


def states(stage: Stage) -> list[str]:
    """The states of the rows that are not done."""
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        return [state for (state,) in db.execute("SELECT state FROM inbox WHERE state != 'done'")]


def turn_of(stage: Stage, said: str) -> str | None:
    """How the first turn ended that answered this."""
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        found = db.execute(
            "SELECT outcome FROM turns JOIN inbox USING (turn_id) "
            "WHERE json_extract(event, '$.text') = ? ORDER BY turn_id LIMIT 1",
            (said,),
        ).fetchone()
    return found[0] if found else None


# --- what is a command ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "name", "rest"),
    [
        ("/stop", "stop", ""),
        (" /Stop \n", "stop", ""),
        ("/stop@hermes_bot", "stop", ""),
        ("/stop@hermes_bot all", "stop", "all"),
        ("/queue two\nlines", "queue", "two\nlines"),
        ("/reset", "new", ""),
        ("/q  x", "queue", "x"),
        ("/etc", "etc", ""),
        ("/etc/hosts", None, None),
        ("/etc/hosts is wrong", None, None),
        ("/ stop", None, None),
        ("//stop", None, None),
        ("/", None, None),
        ("/1", None, None),
        ("stop", None, None),
        ("look: /stop", None, None),
        ("", None, None),
    ],
)
def test_what_is_a_command(stage: Stage, said: str, name: str | None, rest: str | None) -> None:
    given = parse(stage.platform.event(said))
    assert (given and given.name, given and given.rest) == (name, rest)


async def test_a_path_is_said_to_the_agent(stage: Stage, autojump_clock: MockClock) -> None:
    async with stage.life():
        await stage.says("/etc/hosts looks wrong")
        assert stage.platform.chat("42").last == "You said: /etc/hosts looks wrong"


async def test_a_command_in_a_group_goes_to_the_session_of_who_gave_it(
    stage: Stage, autojump_clock: MockClock
) -> None:
    for who in "12":
        stage.agent.on(f"work {who}", Script().hangs())
    async with stage.life() as gateway:
        for who in "12":
            await stage.says(f"work {who}", chat="g", user=who, chat_type="group")
        await stage.says("/stop@hermes_bot", chat="g", user="2", chat_type="group")
        assert stage.agent.left == [("work 2", "cancelled", 0.0)]
        assert len(gateway.work.running) == 1


async def test_only_admins_may_do_what_concerns_everybody(stage: Stage, autojump_clock: MockClock) -> None:
    stage.allow(allow_admin_from=["1"])
    async with stage.life() as gateway:
        for name in ("model", "restart", "sethome"):
            await stage.says(f"/{name}")
            assert stage.platform.chat("42").last == words.only_admins(name, "memory")
        await stage.says("/approve")
        assert stage.platform.chat("42").last == words.may_not_approve("memory")
        assert gateway.control.current is None
        assert home_channels(gateway) == []
        await stage.says("/stop")
        assert stage.platform.chat("42").last == NOTHING, "what is one's own is nobody else's business"
        await stage.says("/sethome", chat="1")
        assert home_channels(gateway) == ["1"]


# --- once ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [1, 2])
async def test_a_command_that_comes_twice_happens_once(
    stage: Stage, autojump_clock: MockClock, lives: int
) -> None:
    async def deliver_again() -> None:
        for event in (restart, background, queue):
            stage.platform.deliver(event)
            await trio.testing.wait_all_tasks_blocked()

    restart = stage.platform.event("/restart")
    background = stage.platform.event("/background report")
    queue = stage.platform.event("/queue later")
    async with stage.life() as gateway:
        for event in (background, queue):
            stage.platform.deliver(event)
            await trio.testing.wait_all_tasks_blocked()
        if lives == 1:
            await stage.says("/undo", message_id="u")
            await stage.says("/undo", message_id="u")
            texts = stage.platform.chat("42").texts
            assert texts.count(words.taken_back("later")) == 1
            assert words.nothing_to_take_back() not in texts
        stage.platform.deliver(restart)
        await trio.testing.wait_all_tasks_blocked()
        assert gateway.control.current is not None
    if lives == 2:
        async with stage.life() as gateway:
            await deliver_again()
            assert gateway.control.current is None
            assert sorted(said for said, _ in stage.agent.began) == ["later", "report"]
            assert sum(text.startswith("♻ Restarted") for text in stage.platform.chat("42").texts) == 1


async def test_a_door_without_names_for_its_messages_may_be_asked_twice(
    stage: Stage, autojump_clock: MockClock
) -> None:
    async with stage.life():
        for _ in range(2):
            stage.platform.deliver(replace(stage.platform.event("/queue again"), message_id=None))
            await trio.sleep(5)
        assert [said for said, _ in stage.agent.began] == ["again", "again"]


# --- stop, new -----------------------------------------------------------------------------------------


async def test_stop_replies_first_drops_what_waits_and_keeps_the_session(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "queue")
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("work")
        for said in ("two", "three"):
            await trio.sleep(2)
            await stage.says(said)
        before = stage.entry().session_id
        known = len(stage.platform.history)
        await stage.says("/stop")
        did = [(step.what, step.text) for step in stage.platform.history[known:]]
        did = [one for one in did if one[0] in ("send", "edit")]
        assert did == [
            ("send", words.stopped(was_running=True, dropped=2)),
            ("edit", "I begin.\n\n(interrupted)"),
        ]
        assert stage.pending() == []
        await trio.sleep(60)
        assert len(stage.turns()) == 1
        await stage.says("hello")
        assert stage.entry().session_id == before
        assert stage.platform.chat("42").last == "You said: hello"


async def test_stop_of_a_session_that_waits_to_be_taken_up_is_obeyed(
    stage: Stage, autojump_clock: MockClock
) -> None:
    """After a restart at most so many turns are taken up at a time; who waits for that can be stopped."""
    for chat in "123456789":
        stage.agent.on(f"work {chat}", Script().takes(20).says("Done."))
    async with stage.life():
        for chat in "123456789":
            await stage.says(f"work {chat}", chat=chat)
    async with stage.life() as gateway:
        await trio.testing.wait_all_tasks_blocked()
        assert len(gateway.work.running) == 8
        [waits] = [chat for chat in "123456789" if len(stage.turns(chat)) == 1]
        await stage.says("/stop", chat=waits)
        assert stage.platform.chat(waits).last == STOP
        await trio.sleep(100)
        assert outcomes(stage, waits) == ["cut"]
        assert stage.entry(waits).mark is None
        await stage.says("hello", chat=waits)
        assert stage.platform.chat(waits).last == "You said: hello"


async def test_new_in_the_middle_of_a_turn_begins_a_session_and_drops_what_waits(
    stage: Stage, autojump_clock: MockClock
) -> None:
    busy(stage, "queue")
    stage.agent.on("work", Script().hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("two")
        before = stage.entry().session_id
        await stage.says("/new")
        assert stage.platform.chat("42").last == words.new_session(1)
        await stage.says("hello")
        assert stage.entry().session_id != before
        assert rows(stage) == [("user", "hello"), ("assistant", "You said: hello")]
    async with stage.life():
        await trio.sleep(60)
        assert [said for said, _ in stage.agent.began] == ["work", "hello"]


# --- undo, retry ---------------------------------------------------------------------------------------


async def test_undo_forgets_one_exchange_after_the_other(stage: Stage, autojump_clock: MockClock) -> None:
    async with stage.life():
        for said in ("one", "two"):
            await stage.says(said)
        for left in (["one", "You said: one"], []):
            await stage.says("/undo")
            assert [text for _, text in rows(stage)] == left
        await stage.says("/undo")
        assert stage.platform.chat("42").texts[2:] == [
            words.taken_back("two"),
            words.taken_back("one"),
            words.nothing_to_take_back(),
        ]


async def test_undo_takes_back_what_waits_before_what_runs(stage: Stage, autojump_clock: MockClock) -> None:
    busy(stage, "queue")
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        await stage.says("two")
        await stage.says("/undo")
        await trio.sleep(60)
        assert stage.platform.chat("42").texts == [words.queued(), words.taken_back("two"), "Done."]
        assert outcomes(stage) == ["answered"]


@pytest.mark.parametrize("again", ["no", "answered", "cut at once", "cut after a word"])
async def test_undo_of_a_cut_turn_forgets_it_with_what_took_it_up_for_ever(
    stage: Stage, autojump_clock: MockClock, again: str
) -> None:
    stage.agent.on("work", Script().says("I begin.").hangs())
    async with stage.life():
        await stage.says("hello")
        await stage.says("work")
        await trio.sleep(5)
    if again == "cut at once":
        stage.agent.on("work", Script().hangs())
    elif again == "answered":
        stage.agent.on("work", Script().says("Done."))
    if again != "no":
        async with stage.life():
            await trio.sleep(5)
            assert len(stage.turns()) == 3
    stage.agent.on("work", Script().says("It came back."))
    async with stage.life() as gateway:
        gateway.control.hold(True)  # so that it is not taken up before anybody can say a word
        await stage.says("/undo")
        assert stage.platform.chat("42").last == words.taken_back("work")
        assert stage.entry().mark is None
        gateway.control.hold(False)
        await trio.sleep(60)
    for _ in range(2):
        async with stage.life() as gateway:
            await trio.sleep(60)
            session = await gateway.home.reader.get_session(stage.entry().session_id)
            assert session is not None
            assert [row.content for row in session.messages] == ["hello", "You said: hello"]
            assert "It came back." not in stage.platform.chat("42").texts


async def test_retry_says_it_anew_and_the_first_answer_is_forgotten(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent.on("work", Script().says("Badly done."))
    async with stage.life():
        await stage.says("work")
        stage.agent.on("work", Script().says("Well done."))
        await stage.says("/retry")
        await stage.says("/retry")
        assert rows(stage) == [("user", "work"), ("assistant", "Well done.")]
        assert stage.platform.chat("42").texts == ["Badly done.", "Well done.", "Well done."]


async def test_retry_in_the_middle_of_a_turn_ends_it_first(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent.on("work", Script().says("Badly ").hangs())
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        stage.agent.on("work", Script().says("Well done."))
        await stage.says("/retry")
        assert outcomes(stage) == ["stopped", "answered"]
        assert rows(stage) == [("user", "work"), ("assistant", "Well done.")]


async def test_retry_brings_the_pictures_along(stage: Stage, autojump_clock: MockClock) -> None:
    seen: list[list[Attachment]] = []

    async def agent(turn: TurnContext) -> str:
        await turn.requesting()
        seen.append([file for event in turn.said for file in event.attachments])
        return turn.prompt

    stage.opened_agent = nullcontext(agent)
    async with stage.life():
        for text in ("", "what are these?"):
            await photo(stage, text)
        await trio.sleep(5)
        await stage.says("/retry")
        await trio.sleep(5)
        await stage.says("/retry")
        await trio.sleep(5)
        assert [len(files) for files in seen] == [2, 2, 2]
        assert seen[0] == seen[1] == seen[2]
        assert stage.platform.chat("42").texts == [f"{NAMED}\n\nwhat are these?\n{NAMED}"] * 3


async def test_a_retry_during_the_drain_is_answered_by_the_next_life(
    stage: Stage, autojump_clock: MockClock
) -> None:
    stage.agent.on("work", Script().takes(20).says("Done."))
    async with stage.life() as gateway:
        await stage.says("hello")
        gateway.control.hold(True)
        await stage.says("/retry")
        assert stage.platform.chat("42").last == words.after_drain()
        assert rows(stage) == []
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "You said: hello"


# --- background ----------------------------------------------------------------------------------------


async def test_background_works_beside_the_conversation(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent.on("report", Script().takes(20).says("The report."))
    async with stage.life():
        await stage.says("/background report", thread_id="7")
        await stage.says("hello", thread_id="7")
        await trio.sleep(5)
        assert stage.platform.chat("42").texts == [words.works_beside(), "You said: hello"]
        await stage.says("/status", thread_id="7")
        assert "In the background: 1 turn is running" in (stage.platform.chat("42").last or "")
        await trio.sleep(60)
        assert [(m.text, m.thread_id) for m in stage.platform.chat("42").messages[-1:]] == [
            ("The report.", "7")
        ]


async def test_background_is_taken_up_after_a_cut(stage: Stage, autojump_clock: MockClock) -> None:
    stage.agent.on("report", Script().says("It begins.").hangs())
    async with stage.life():
        await stage.says("/background report")
        await trio.sleep(5)
    stage.agent.on("report", Script().says("The report."))
    async with stage.life():
        await trio.sleep(5)
        assert stage.platform.chat("42").last == "The report."


@pytest.mark.parametrize("state", ["running", "waiting", "cut"])
async def test_stop_all_ends_what_works_beside_this_conversation_and_no_other(
    stage: Stage, autojump_clock: MockClock, state: str
) -> None:
    group: dict[str, Any] = {"chat": "g", "chat_type": "group"}
    for who in "12":
        stage.agent.on(f"report {who}", Script().takes(20).says(f"The report for {who}."))

    async def begin() -> None:
        for who in "12":
            await stage.says(f"/background report {who}", user=who, **group)

    async def stop_all(reply: str) -> None:
        await stage.says("/stop", user="1", **group)
        assert stage.platform.chat("g").last == NOTHING
        await stage.says("/stop all", user="1", **group)
        assert stage.platform.chat("g").last == reply

    if state == "cut":
        async with stage.life():
            await begin()
    async with stage.life() as gateway:
        gateway.control.hold(state != "running")
        await trio.testing.wait_all_tasks_blocked()
        if state != "cut":
            await begin()
        await stop_all(words.stopped(state != "waiting", dropped=state == "waiting"))
        gateway.control.hold(False)
        await trio.sleep(60)
        texts = stage.platform.chat("g").texts
        assert "The report for 1." not in texts
        assert texts[-1] == "The report for 2."


# --- restart -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("grace", [0.0, 30.0])
async def test_restart_promises_no_grace_that_there_is_not(
    stage: Stage, autojump_clock: MockClock, grace: float
) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=grace))
    stage.agent.on("work", Script().takes(10).says("Done."))
    async with stage.life():
        await stage.says("work", chat="1")
        await stage.says("/restart")
        await trio.sleep(60)
        assert stage.ended_at == min(grace, 10)
    said = stage.platform.chat("42").texts[0]
    assert said == (
        "♻ Restarting. 1 turn is running and may take 30 s to finish." if grace else "♻ Restarting."
    )
