"""Chat commands: obeyed at once in every state, never sent to a model, done when they are stored."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace

import pytest
import trio

from hermes_trio.config.schema import AgentConfig
from hermes_trio.gateway.commands.parse import parse
from hermes_trio.gateway.commands.table import COMMANDS
from hermes_trio.gateway.outbound import texts as words
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.state.tables.session_entry import Usage
from hermes_trio.testing import Script
from tests.stage import Stage, everyone, home_channels, settled

GRACE = 50.0
IDLE, BUSY, DRAINING, DRAINED = "idle", "busy", "draining", "drained"
ONGOING = {IDLE: None, BUSY: "answered", DRAINING: "answered", DRAINED: "answered"}
"""Outcome of the running turn in each state, for a command that does not touch it."""
STOPPED = {BUSY: "stopped", DRAINING: "stopped", DRAINED: "stopped"}
NOTHING = words.stopped(was_running=False, dropped=0)
STOP = words.stopped(was_running=True, dropped=0)
NEW = words.new_session(0)
UNDONE = words.taken_back("work")
KEPT = {DRAINING: words.waits_for_restart(), DRAINED: words.waits_for_drain()}
BESIDE = words.works_in_background()
ASKED = words.no_approval_open()
Said = str | Callable[[str], bool] | None
TABLE: dict[str, tuple[dict[str, Said], dict[str, str]]] = {
    # command: (the reply in each state, or in all of them under ""; the outcome of the turn in a state)
    "/help": ({"": lambda said: "/stop ends the running turn" in said and "/start" not in said}, {}),
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
    "/schedule": ({"": "Nothing is scheduled."}, {}),
    "/sethome": ({"": words.home_channel_set()}, {}),
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
    """Work for twenty seconds on `work`, report the usage, and repeat the message."""
    await turn.requesting()
    assert not any(event.text.startswith("/") for event in turn.said), "a model never gets a command"
    turn.usage = Usage(input_tokens=100, output_tokens=20)
    said = " ".join(event.text for event in turn.said)
    await trio.sleep(20 if said == "work" else 0)
    return f"You said: {said}"


@pytest.mark.parametrize("state", [IDLE, BUSY, DRAINING, DRAINED])
@pytest.mark.parametrize("command", list(TABLE))
async def test_every_command_in_every_state(stage: Stage, command: str, state: str) -> None:
    stage.config = everyone(AgentConfig(restart_drain_timeout=GRACE))
    stage.opened_agent = nullcontext(agent)
    async with stage.life() as gateway:
        await stage.says("before")
        if state != IDLE:
            await stage.says("work")
        await trio.sleep(5)
        if state == DRAINING:
            gateway.stop(grace=GRACE)
            await settled()
        if state == DRAINED:
            gateway.control.hold(True)
            await settled()
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
            # The command may have ended the session, so the turn is looked up in all sessions.
            assert outcome_of(stage, "work") == becomes.get(state)
        await trio.sleep(40)
        assert outcome_of(stage, "work") == becomes.get(state, ONGOING[state])
        open_rows = open_states(stage)
        kept = state in KEPT and command in GOES_ON_BY_ITSELF
        assert open_rows == (["pending"] if kept else []), "a command is done when it is stored"


def open_states(stage: Stage) -> list[str]:
    """Return the states of the inbox rows that are not done."""
    with stage.looking() as db:
        return [state for (state,) in db.execute("SELECT state FROM inbox WHERE state != 'done'")]


def outcome_of(stage: Stage, said: str) -> str | None:
    """Return the outcome of the first turn that answered this message."""
    with stage.looking() as db:
        found = db.execute(
            "SELECT outcome FROM turns JOIN inbox USING (turn_id) "
            "WHERE event LIKE ? ORDER BY turn_id LIMIT 1",
            (f'%"text": "{said}"%',),
        ).fetchone()
    return found[0] if found else None


# --- parsing and rights --------------------------------------------------------------------------------


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
def test_a_command_is_recognized_by_its_form(
    stage: Stage, said: str, name: str | None, rest: str | None
) -> None:
    given = parse(stage.platform.event(said))
    assert (given and given.name, given and given.rest) == (name, rest)


async def test_a_path_is_a_message_for_the_agent(stage: Stage) -> None:
    async with stage.life():
        await stage.says("/etc/hosts looks wrong")
        assert stage.platform.chat("42").last == "You said: /etc/hosts looks wrong"


async def test_a_command_in_a_group_goes_to_the_session_of_its_sender(stage: Stage) -> None:
    for who in "12":
        stage.agent.on(f"work {who}", Script().hangs())
    async with stage.life() as gateway:
        for who in "12":
            await stage.says(f"work {who}", chat="g", user=who, chat_type="group")
        await stage.says("/stop@hermes_bot", chat="g", user="2", chat_type="group")
        assert stage.agent.left == [("work 2", "cancelled", 0.0)]
        assert len(gateway.work.running) == 1


async def test_commands_that_concern_everybody_are_for_admins_only(stage: Stage) -> None:
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
        assert stage.platform.chat("42").last == NOTHING, "/stop concerns only one's own session"
        await stage.says("/sethome", chat="1")
        assert home_channels(gateway) == ["1"]


# --- repeated deliveries -------------------------------------------------------------------------------


@pytest.mark.parametrize("lives", [1, 2])
async def test_a_command_that_comes_twice_happens_once(stage: Stage, lives: int) -> None:
    async def deliver_again() -> None:
        for event in (restart, background, queue):
            await stage.delivers(event)

    restart = stage.platform.event("/restart")
    background = stage.platform.event("/background report")
    queue = stage.platform.event("/queue later")
    async with stage.life() as gateway:
        for event in (background, queue):
            await stage.delivers(event)
        if lives == 1:
            await stage.says("/undo", message_id="u")
            await stage.says("/undo", message_id="u")
            texts = stage.platform.chat("42").texts
            assert texts.count(words.taken_back("later")) == 1
            assert words.nothing_to_take_back() not in texts
        await stage.delivers(restart)
        assert gateway.control.current is not None
    if lives == 2:
        async with stage.life() as gateway:
            await deliver_again()
            assert gateway.control.current is None
            assert sorted(said for said, _ in stage.agent.began) == ["later", "report"]
            assert sum(text.startswith("♻ Restarted") for text in stage.platform.chat("42").texts) == 1


async def test_commands_without_message_ids_are_obeyed_each_time(stage: Stage) -> None:
    async with stage.life():
        for _ in range(2):
            stage.platform.deliver(replace(stage.platform.event("/queue again"), message_id=None))
            await trio.sleep(5)
        assert [said for said, _ in stage.agent.began] == ["again", "again"]
