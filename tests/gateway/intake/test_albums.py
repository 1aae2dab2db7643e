"""Messages that belong together: albums, corrections, and the messages that are not merged."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
import trio

from hermes_trio.testing import Script
from tests.stage import PHOTO_NOT_FETCHED, Stage, everyone


async def test_an_album_and_the_text_after_it_are_one_turn(stage: Stage) -> None:
    async with stage.life():
        for _ in range(3):
            await stage.sends_photo()
            await trio.sleep(0.8)
        await stage.says("what are these?")
        await trio.sleep(0.9)
        assert stage.agent.began == [], "the album may continue"
        await trio.sleep(0.2)
        [(said, at)] = stage.agent.began
        assert at == pytest.approx(3.4)
        assert said == f"{PHOTO_NOT_FETCHED} {PHOTO_NOT_FETCHED} {PHOTO_NOT_FETCHED} what are these?"
        assert stage.agent.prompts == [
            f"{PHOTO_NOT_FETCHED}\n\n{PHOTO_NOT_FETCHED}\n\n{PHOTO_NOT_FETCHED}\n\nwhat are these?"
        ]
        assert stage.outcomes() == ["answered"]


async def test_a_stop_does_not_wait_for_the_rest_of_an_album(stage: Stage) -> None:
    async with stage.life() as gateway:
        await stage.sends_photo("look")
        await trio.sleep(0.5)
        gateway.stop(grace=60)
        await trio.sleep(10)
        assert stage.ended_at == 0.5
        assert stage.pending() == ["look"]


async def test_the_wait_for_the_rest_of_an_album_is_at_most_five_seconds(stage: Stage) -> None:
    stage.config = everyone(busy="queue")
    async with stage.life():
        for number in range(10):
            await stage.sends_photo(f"p{number}")
            await trio.sleep(0.9)
        await trio.sleep(10)
        assert [(said.replace(f"\n{PHOTO_NOT_FETCHED}", ""), at) for said, at in stage.agent.began] == [
            ("p0 p1 p2 p3 p4 p5", 5.0),
            ("p6 p7 p8 p9", pytest.approx(9.1)),
        ]


async def test_plain_text_in_an_idle_chat_begins_at_once(stage: Stage) -> None:
    async with stage.life():
        await trio.sleep(7)
        await stage.says("hello")
        assert stage.agent.began == [("hello", 7.0)]


async def test_a_correction_supersedes_the_first_message_without_a_notice(stage: Stage) -> None:
    stage.agent.on("hello", Script().hangs())
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(3)
        await stage.says("I mean, good morning")
        await trio.sleep(1)
        assert stage.platform.chat("42").texts == ["You said: I mean, good morning"]
        assert [text for role, text in stage.transcript() if role == "user"] == [
            "hello",
            "I mean, good morning",
        ]


async def test_two_people_in_one_session_are_not_merged(stage: Stage) -> None:
    stage.config = msgspec.structs.replace(everyone(busy="queue"), group_sessions_per_user=False)
    stage.agent.on("[1] first", Script().takes(10).says("Done."))
    async with stage.life():
        for who, said in (("1", "first"), ("1", "kim a"), ("1", "kim b"), ("2", "lee"), ("1", "kim c")):
            await stage.says(said, chat="g", user=who, chat_type="group")
        await trio.sleep(20)
        assert [said for said, _ in stage.agent.began] == [
            "[1] first",
            "[1] kim a [1] kim b",
            "[2] lee",
            "[1] kim c",
        ]


async def test_an_internal_message_interrupts_no_turn(stage: Stage) -> None:
    stage.agent.on("work", Script().takes(10).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(5)
        stage.platform.deliver(replace(stage.platform.event("/stop"), kind="internal"))
        await trio.sleep(10)
        assert stage.outcomes() == ["answered", "answered"]
        assert stage.platform.chat("42").texts == ["Done.", "You said: /stop"]
