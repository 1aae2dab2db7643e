"""Access to the agent: the rules by themselves, and the gateway with messages of strangers."""

from __future__ import annotations

import logging
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.messages import SessionSource
from hermes_trio.base.world import World
from hermes_trio.config.schema import GatewayConfig, PlatformConfig
from hermes_trio.gateway.links.access import Access, ids_of, is_listed, offers_pairing
from hermes_trio.state.tables import pairing
from hermes_trio.state.tables.pairing import ALPHABET, Person, deciding
from hermes_trio.testing import Script
from tests.conftest import Home
from tests.stage import Stage

ROOT = Path(__file__).parents[3]
CODE = re.compile(rf"pairing approve ([{ALPHABET}]{{8}})\n")


def source_of(user: str | None = "42", chat: str = "42", **more: Any) -> SessionSource:
    return SessionSource("memory", chat, user_id=user, **more)


# --- the rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("source", "listed"),
    [
        (source_of(), True),
        (source_of("43"), False),
        (source_of("43", user_id_alt="42"), True),
        (source_of("42", chat="-7", chat_type="group"), True),
        (source_of("43", chat="42", chat_type="group"), False),
        (source_of(None), True),
        (source_of(None, chat="43"), False),
        (source_of(None, chat="42", chat_type="group"), False),
        (source_of(None, chat="42", chat_type="channel"), False),
        (source_of(""), True),
        (source_of("4"), False),
        (source_of("421"), False),
        (source_of("042"), False),
    ],
)
def test_a_list_names_people_and_not_chats(source: SessionSource, listed: bool) -> None:
    assert is_listed(PlatformConfig(allow_from=("42",)), source) is listed
    assert is_listed(PlatformConfig(allow_admin_from=("42",)), source) is listed, "an admin may talk"
    assert is_listed(PlatformConfig(), source) is False, "nobody by default"


@pytest.mark.parametrize("chat_type", ["group", "channel", "thread"])
def test_allow_all_lets_in_only_people_with_an_id(chat_type: Any) -> None:
    everybody = PlatformConfig(allow_from="all")
    assert is_listed(everybody, source_of("1", chat_type=chat_type))
    assert not is_listed(everybody, source_of(None, chat_type=chat_type))
    assert not is_listed(everybody, source_of(None, chat=""))


@given(st.text(max_size=5), st.lists(st.text(min_size=1, max_size=5), max_size=4))
def test_a_similar_id_lets_in_nobody(user: str, listed: list[str]) -> None:
    config = PlatformConfig(allow_from=tuple(listed))
    assert is_listed(config, source_of(user, chat="", chat_type="group")) is (user in listed)


@pytest.mark.parametrize(
    ("config", "offered"),
    [
        (PlatformConfig(), True),
        (PlatformConfig(allow_from=("1",)), False),
        (PlatformConfig(allow_admin_from=("1",)), False),
        (PlatformConfig(allow_from=("1",), unauthorized_dm_behavior="pair"), True),
        (PlatformConfig(unauthorized_dm_behavior="ignore"), False),
    ],
)
def test_a_platform_with_a_list_offers_pairing_only_if_configured(
    config: PlatformConfig, offered: bool
) -> None:
    assert offers_pairing(config, source_of()) is offered
    for chat_type in ("group", "channel", "thread"):
        assert offers_pairing(config, source_of(chat_type=chat_type)) is False, (
            "everybody in the group would read the code"
        )
    assert offers_pairing(config, source_of(None, chat="")) is False


async def test_a_platform_without_configuration_lets_in_nobody(home: Home, world: World) -> None:
    access = Access(GatewayConfig(), home.database, world)
    assert await access.new_code(source_of()) is None
    await home.database.write(pairing.ask, Person("memory", "42", None, world.time()), pairing.sealed("X"))
    await home.database.write(pairing.approve, "X", world.time())
    assert not await access.may_talk(source_of())
    assert not await access.is_admin(source_of())


async def test_listed_admins_are_the_only_admins(home: Home, world: World) -> None:
    def access(**config: Any) -> Access:
        platforms = {"memory": PlatformConfig(**config)}
        return Access(GatewayConfig(platforms=platforms), home.database, world)

    await home.database.write(pairing.ask, Person("memory", "44", None, world.time()), pairing.sealed("X"))
    await home.database.write(pairing.approve, "X", world.time())
    people = [source_of("42"), source_of("43"), source_of("44"), source_of("45")]
    nobody_named, named = (
        access(allow_from=("42", "43")),
        access(allow_from=("43",), allow_admin_from=("42",)),
    )
    assert [await nobody_named.is_admin(one) for one in people] == [True, True, True, False]
    assert [await named.is_admin(one) for one in people] == [True, False, False, False]
    assert [await named.may_talk(one) for one in people] == [True, True, True, False]
    assert not await access(allow_from="all", allow_admin_from=("42",)).is_admin(source_of("43"))
    open_to_all = access(allow_from="all")
    assert [await open_to_all.may_talk(one) for one in people] == [True, True, True, True]
    assert [await open_to_all.is_admin(one) for one in people] == [False, False, False, False]


@pytest.mark.parametrize(
    ("config", "own", "of_another"),
    [
        ({"allow_from": ("42", "43")}, True, False),
        ({"allow_from": ("43",), "allow_admin_from": ("42",)}, True, True),
        ({"allow_from": ("42",), "allow_admin_from": ("43",)}, False, False),
        ({"allow_from": "all", "allow_admin_from": ("42",)}, True, True),
        ({"allow_from": "all", "allow_admin_from": ("43",)}, False, False),
        ({"allow_from": "all"}, False, False),
        ({"allow_from": ("43",)}, False, False),
    ],
)
async def test_an_approval_is_given_by_the_person_of_the_turn_or_an_admin(
    home: Home, world: World, config: dict[str, Any], own: bool, of_another: bool
) -> None:
    access = Access(GatewayConfig(platforms={"memory": PlatformConfig(**config)}), home.database, world)
    assert await access.may_approve(source_of("42"), {"42"}) is own
    assert await access.may_approve(source_of("42"), {"43"}) is of_another
    door = Access(access.config, home.database, world, own_doors=("memory",))
    assert await door.may_approve(source_of("42"), {"43"}), "the holder of the API key is the owner"


async def test_pairing_stores_the_id_that_never_changes(home: Home, world: World) -> None:
    access = Access(GatewayConfig(platforms={"memory": PlatformConfig()}), home.database, world)
    source = source_of("+4912", user_id_alt="uuid")
    assert ids_of(source) == ("uuid", "+4912")
    code = await access.new_code(source)
    assert code is not None
    approved = await home.database.write(pairing.approve, code, world.time())
    assert approved == Person("memory", "uuid", None, world.time())
    assert await access.may_talk(source_of("+4913", user_id_alt="uuid")), "a new number, the same person"
    assert not await access.may_talk(source_of("+4912", user_id_alt="another"))


# --- the gateway -------------------------------------------------------------------------------------


@pytest.fixture
def strict(stage: Stage) -> Stage:
    """A stage whose configuration lets in nobody."""
    stage.allow(allow_from=())
    return stage


@pytest.fixture
def logged(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    caplog.set_level(logging.DEBUG, "hermes_trio")
    return caplog


def codes_in(stage: Stage, chat: str = "42") -> list[str]:
    """Return the pairing codes that were sent to a chat."""
    return [found[1] for text in stage.platform.chat(chat).texts if (found := CODE.search(text))]


def rows(stage: Stage, table: str) -> int:
    with stage.looking() as db:
        count: int = db.execute(f"SELECT count(*) FROM {table}").fetchone()[0]  # noqa: S608
        return count


def command_line(stage: Stage, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command of the owner in another process. Blocks this process, and with it the virtual clock."""
    return subprocess.run(
        [sys.executable, "-m", "hermes_trio", "pairing", *arguments],
        cwd=ROOT,
        env={**os.environ, "HERMES_HOME": str(stage.home)},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
        timeout=50,
    )


async def test_a_stranger_gets_a_code_and_none_of_their_messages_is_stored(
    strict: Stage, logged: pytest.LogCaptureFixture
) -> None:
    async with strict.life():
        await strict.says("Attack at dawn.")
        await strict.says("/restart")
        await strict.says("/stop")
        await trio.sleep(5)
        [code] = codes_in(strict)
        assert len(strict.platform.chat("42").texts) == 1
        assert strict.agent.began == []
        assert [rows(strict, table) for table in ("inbox", "sessions", "outbox")] == [0, 0, 0]
        accepted = [done for done in strict.platform.history if done.what == "accept"]
        assert len(accepted) == 3, "an accepted message is not delivered again"
    assert sum("access refused" in record.getMessage() for record in logged.records) == 3
    everything = "\n".join(str(vars(record)) for record in logged.records)
    assert "Attack" not in everything
    assert code not in everything
    for file in strict.home.rglob("*"):
        if file.is_file():
            data = file.read_bytes()
            assert b"Attack" not in data
            assert code.encode() not in data, file.name


async def test_the_code_replies_to_the_message_in_its_thread(strict: Stage) -> None:
    async with strict.life():
        await strict.says("hello", message_id="first", thread_id="7")
        [told] = strict.platform.chat("42").messages
        assert (told.reply_to, told.thread_id) == ("first", "7")


@pytest.mark.parametrize(
    "config", [{"unauthorized_dm_behavior": "ignore"}, {"allow_from": ("1",)}, {"allow_admin_from": ("1",)}]
)
async def test_a_stranger_gets_no_answer_if_configured(strict: Stage, config: dict[str, Any]) -> None:
    strict.allow(**config)
    async with strict.life():
        await strict.says("hello")
        await trio.sleep(5)
        assert strict.platform.chat("42").texts == []
        assert strict.agent.began == []
        assert rows(strict, "pairing_requests") == 0


async def test_a_stranger_in_a_group_never_gets_a_code(strict: Stage) -> None:
    strict.allow(unauthorized_dm_behavior="pair")
    async with strict.life():
        await strict.says("hello", chat="-7", user="42", chat_type="group")
        await trio.sleep(5)
        assert strict.platform.chat("-7").texts == []
        assert rows(strict, "pairing_requests") == 0


async def test_codes_for_strangers_are_limited_in_number(strict: Stage) -> None:
    async with strict.life():
        for _ in range(60):
            for chat in "12345":
                await strict.says("hello", chat=chat)
            await trio.sleep(20)
        # In twenty minutes three people get a code at 0 and at 10 minutes; the last hello is at 19 min 40 s.
        assert [len(codes_in(strict, chat)) for chat in "12345"] == [2, 2, 2, 0, 0]
        assert sum(len(strict.platform.chat(chat).texts) for chat in "12345") == 6


@pytest.mark.sqlite
async def test_an_approved_code_lets_in_its_person_without_a_restart(strict: Stage) -> None:
    async with strict.life() as gateway:
        await strict.says("hello")
        [code] = codes_in(strict)
        await trio.sleep(3599)
        with deciding(strict.home / "gateway.db") as db:
            assert isinstance(pairing.approve(db, code, strict.world.time()), Person)
        await strict.says("hello")
        await trio.sleep(5)
        assert strict.platform.chat("42").last == "You said: hello"
        await strict.says("hello", chat="43")
        await trio.sleep(5)
        assert strict.platform.chat("43").last != "You said: hello", "the approval is for one person"
        gateway.stop(grace=0)
    async with strict.life():
        await strict.says("still there?")
        await trio.sleep(5)
        assert strict.platform.chat("42").last == "You said: still there?", (
            "the next life knows the person too"
        )


@pytest.mark.sqlite
async def test_an_expired_code_lets_in_nobody(strict: Stage) -> None:
    async with strict.life():
        await strict.says("hello")
        [code] = codes_in(strict)
        await trio.sleep(3600)
        with deciding(strict.home / "gateway.db") as db:
            assert not isinstance(pairing.approve(db, code, strict.world.time()), Person)
        await strict.says("hello")
        await trio.sleep(5)
        assert strict.agent.began == []
        assert len(codes_in(strict)) == 2


@pytest.mark.sqlite
async def test_the_owner_decides_at_another_terminal_while_the_gateway_runs(strict: Stage) -> None:
    strict.world = World()  # both processes need the same time of day
    async with strict.life():
        await strict.says("hello")
        [code] = codes_in(strict)
        assert "waiting  memory 42" in command_line(strict, "list").stdout
        approved = command_line(strict, "approve", code)
        assert (approved.returncode, approved.stderr) == (0, "")
        assert approved.stdout.startswith("Approved: memory 42.")
        await strict.says("hello")
        await trio.sleep(5)
        assert strict.platform.chat("42").last == "You said: hello"
        assert command_line(strict, "revoke", "memory", "42").returncode == 0
        await strict.says("hello again")
        await trio.sleep(5)
        assert [said for said, _ in strict.agent.began] == ["hello"]
        assert len(codes_in(strict)) == 2, "a revoked person may ask for a new code"


@pytest.mark.sqlite
async def test_a_revoked_person_is_refused_at_the_next_message_and_not_resumed(strict: Stage) -> None:
    strict.agent.on("hang", Script().says("I begin.").hangs())
    async with strict.life():
        await strict.says("hello")
        [code] = codes_in(strict)
        with deciding(strict.home / "gateway.db") as db:
            pairing.approve(db, code, strict.world.time())
        await strict.says("hang")
        await trio.sleep(5)
        with deciding(strict.home / "gateway.db") as db:
            assert pairing.revoke(db, "memory", "42")
        await strict.says("and another thing")
        await trio.sleep(5)
        assert strict.pending() == []
    assert strict.entry().resume_pending, "the turn was cut"
    async with strict.life():
        await trio.sleep(5)
        assert [said for said, _ in strict.agent.began] == ["hang"], "the turn is not resumed"


async def test_a_refused_message_that_the_platform_repeats_gets_one_code(strict: Stage) -> None:
    async with strict.life():
        event = await strict.platform.says("hello")
        await strict.platform.deliver(event).wait()
        await trio.sleep(5)
        assert len(strict.platform.chat("42").texts) == 1


async def test_admin_commands_are_refused_for_others_with_the_reason(stage: Stage) -> None:
    stage.allow(allow_from="all", allow_admin_from=("1",))
    async with stage.life() as gateway:
        await stage.says("/restart", chat="42")
        await trio.sleep(5)
        assert gateway.control.current is None
        assert "platforms.memory.allow_admin_from" in (stage.platform.chat("42").last or "")
        await stage.says("/help", chat="42")
        assert "/stop" in (stage.platform.chat("42").last or ""), "the other commands are for everybody"
        await stage.says("/restart", chat="1")
        assert gateway.control.current is not None
