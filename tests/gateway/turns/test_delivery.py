"""One answer per message, whatever a platform does to a send."""

from __future__ import annotations

import math

import pytest
import trio

from hermes_trio.gateway.outbound.delivery import MAX_TRIES, UNSURE_AGAIN_AFTER
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import inline_worker
from hermes_trio.platform.contract import (
    FOR_EVER,
    ChatGone,
    CredentialsRefused,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    Refused,
    Traits,
)
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage
from tests.web.costs.job_counts import JobCounts

ANSWER = "You said: hello"


def set_platform(stage: Stage, *, takes_keys_for: float = 0, finds: bool = False) -> MemoryPlatform:
    """Give the stage a platform with these traits."""
    stage.platform = MemoryPlatform(traits=Traits(takes_keys_for=takes_keys_for, finds=finds))
    return stage.platform


async def test_a_send_that_surely_failed_is_repeated(stage: Stage) -> None:
    platform = set_platform(stage)
    platform.fails("send", NotSent("connection refused"), times=2)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        assert platform.chat("42").texts == [ANSWER]


async def test_a_send_that_always_fails_is_given_up_and_the_next_answer_is_sent(stage: Stage) -> None:
    platform = set_platform(stage)
    platform.fails("send", NotSent("connection refused"), times=MAX_TRIES)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(1800)
        assert platform.chat("42").texts == [], "the row is not given up within half an hour"
        await stage.says("and now")
        await trio.sleep(2400)
        assert platform.chat("42").texts == ["You said: and now"]


async def test_the_receipt_of_a_row_is_stored_with_the_attempt_at_the_next(stage: Stage) -> None:
    platform, jobs = set_platform(stage), JobCounts(inline_worker)
    platform.fails("send", FloodWait(30))
    stage.worker = jobs.worker
    async with stage.life():
        for text in ("one", "two", "three"):
            await stage.says(text)
            await trio.sleep(5)
        jobs.take()
        await trio.sleep(30)
        assert platform.chat("42").texts == [f"You said: {text}" for text in ("one", "two", "three")]
        assert jobs.take().commits == 4, "three attempts, and the last receipt"


async def test_a_receipt_does_not_wait_for_the_edit_of_the_next_row(stage: Stage) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(edits=True, sends_files=True))

    async def act(turn: TurnContext) -> str:
        await turn.say("It is")
        await trio.sleep(5)
        platform.fails("send", FloodWait(10))
        platform.hangs("edit")
        await turn.send_file("it.txt", b"it")
        return "It is here."

    stage.agent.does("send it", act)
    async with stage.life():
        await stage.says("send it")
        await trio.sleep(25)
        with stage.looking() as db:
            states = [state for (state,) in db.execute("SELECT state FROM outbox ORDER BY outbox_id")]
        assert states == ["sent", "sent", "owed"], "the stream, the file, and the answer that is being edited"


async def test_a_send_with_refused_credentials_is_repeated(stage: Stage) -> None:
    platform = set_platform(stage)
    platform.fails("send", CredentialsRefused("memory"))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        assert platform.chat("42").texts == [ANSWER], "the message was surely not sent, so it is sent again"


@pytest.mark.parametrize("edits", [False, True])
@pytest.mark.parametrize("kind", ["bare", "in a group"])
async def test_an_unexpected_error_of_an_adapter_is_an_unknown_outcome(
    stage: Stage, edits: bool, kind: str
) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(edits=edits, typing=True))
    mistake: Exception = KeyError("message_id")
    if kind == "in a group":
        mistake = ExceptionGroup("its nursery", [mistake])
    platform.fails("send", mistake)
    platform.fails("typing", mistake)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(UNSURE_AGAIN_AFTER + 10)
        (text,) = platform.chat("42").texts
        assert text.endswith(ANSWER)
        assert "repeat" in text


async def test_a_refusal_in_an_exception_group_is_a_refusal(stage: Stage) -> None:
    platform = set_platform(stage)
    platform.fails("send", ExceptionGroup("its nursery", [Refused("too rude")]))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(UNSURE_AGAIN_AFTER + 10)
        assert platform.chat("42").texts == []


async def test_the_answer_is_a_new_message_if_the_streamed_one_was_deleted(stage: Stage) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(edits=True))
    platform.fails("edit", Refused("message to edit not found"), times=1000)
    async with stage.life():
        await stage.says("count to 3")
        await trio.sleep(30)
        assert [text for text in platform.chat("42").texts if "3" in text] != []


async def test_a_send_waits_for_the_end_of_a_flood_wait(stage: Stage) -> None:
    platform = set_platform(stage)
    platform.fails("send", FloodWait(30))
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(29)
        assert platform.chat("42").texts == []
        await trio.sleep(2)
        assert platform.chat("42").texts == [ANSWER]


@pytest.mark.parametrize("trait", ["takes_keys", "finds"])
async def test_an_unknown_outcome_is_resolved_without_a_repeat_by_key_or_search(
    stage: Stage, trait: str
) -> None:
    platform = set_platform(
        stage, takes_keys_for=FOR_EVER if trait == "takes_keys" else 0, finds=trait == "finds"
    )
    platform.loses_answer()
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(120)
        assert platform.chat("42").texts == [ANSWER]


@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.parametrize("finds", [False, True])
async def test_an_unknown_outcome_whose_key_went_stale_is_looked_up_or_repeated_once_with_a_note(
    stage: Stage, finds: bool, restarts: bool
) -> None:
    platform = set_platform(stage, takes_keys_for=30, finds=finds)
    platform.loses_answer()
    platform.fails("find", NotSent("connection refused"), times=3)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(1)
        platform.hangs("connect", 100)
        platform.drop()
        await trio.sleep(0 if restarts else 400)
    platform.hangs("connect", 400 if restarts else 0)
    async with stage.life():
        await trio.sleep(800)
        first, *repeats = platform.chat("42").texts
        assert first == ANSWER
        assert [("repeat" in text, text.endswith(ANSWER)) for text in repeats] == [(True, True)] * (not finds)


async def test_the_age_of_a_key_counts_from_the_first_send_that_may_have_arrived(stage: Stage) -> None:
    platform = set_platform(stage, takes_keys_for=30)
    platform.loses_answer(times=4)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(600)
        assert [round(one.at) for one in platform.history if one.what == "send"] == [0, 2, 6, 14, 74]
        first, second = platform.chat("42").texts
        assert first == ANSWER
        assert second.endswith(ANSWER)
        assert "repeat" in second, "a repeat within the time did not make the key good for longer"


@pytest.mark.parametrize("restarts", [False, True])
async def test_an_unknown_outcome_is_repeated_later_with_a_note(stage: Stage, restarts: bool) -> None:
    platform = set_platform(stage)
    platform.loses_answer()
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(UNSURE_AGAIN_AFTER - 1)
        assert platform.chat("42").texts == [ANSWER], "no blind repeat, and none within the same attempt"
        await trio.sleep(0 if restarts else 2)
    async with stage.life():
        await trio.sleep(10)
        first, second = platform.chat("42").texts
        assert first == ANSWER
        assert second.endswith(ANSWER)
        assert "repeat" in second
    async with stage.life():
        await trio.sleep(10)
        assert len(platform.chat("42").texts) == 2


async def test_a_sure_failure_does_not_make_an_unknown_outcome_known(stage: Stage) -> None:
    platform = set_platform(stage)
    platform.loses_answer()
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(120)
    platform.fails("send", NotSent("connection refused"))
    async with stage.life():
        await trio.sleep(120)
        assert "repeat" in platform.chat("42").texts[-1]


@pytest.mark.parametrize("error", [Refused("too rude"), ChatGone("thrown out")])
async def test_a_refused_send_is_given_up_at_once(stage: Stage, error: Refused) -> None:
    platform = set_platform(stage)
    platform.fails("send", error)
    async with stage.life():
        await stage.says("hello")
        await trio.sleep(10)
        await stage.says("and now")
        await trio.sleep(10)
        assert platform.chat("42").texts == ["You said: and now"]


async def test_owed_rows_are_sent_when_the_link_is_back(stage: Stage) -> None:
    platform = set_platform(stage, takes_keys_for=FOR_EVER)
    async with stage.life():
        await stage.says("one")
        await trio.sleep(5)
        platform.hangs("connect", 100)
        await stage.says("two")
        platform.drop()
        await trio.sleep(400)
        assert platform.chat("42").texts == ["You said: one", "You said: two"]


async def test_a_long_answer_is_sent_in_numbered_messages(stage: Stage) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(limit=100, edits=True))
    long = " ".join(f"word{number}" for number in range(60))
    async with stage.life():
        await stage.says(long)
        await trio.sleep(10)
        texts = platform.chat("42").texts
        assert len(texts) > 1
        assert all(f"({number}/{len(texts)})" in text for number, text in enumerate(texts, start=1))
        assert "▉" not in "".join(texts)


async def test_the_same_message_delivered_twice_is_answered_once(stage: Stage) -> None:
    platform = set_platform(stage)
    async with stage.life():
        event = platform.event("hello", message_id="77")
        await platform.deliver(event).wait()
        await platform.deliver(event).wait()
        await trio.sleep(10)
        assert platform.chat("42").texts == [ANSWER]


@pytest.mark.parametrize("silent", [False, True], ids=["no answer", "silence"])
@pytest.mark.parametrize("times", [1, 2, 8])
@pytest.mark.parametrize("placeholder", ["", "…"], ids=["streamed", "placeholder"])
async def test_an_edit_with_an_unknown_outcome_is_repeated_until_it_arrives(
    stage: Stage, placeholder: str, times: int, silent: bool
) -> None:
    platform = stage.platform = MemoryPlatform(traits=Traits(edits=True, placeholder=placeholder))
    stage.agent.on("work", Script().says("I begin. ").takes(5).says("Done."))
    async with stage.life():
        await stage.says("work")
        await trio.sleep(4)
        if silent:
            platform.hangs("edit", math.inf, times=times)
        else:
            platform.fails("edit", OutcomeUnknown("the connection broke"), times=times)
        await trio.sleep(4000)
        assert platform.chat("42").texts == ["I begin. Done."]
