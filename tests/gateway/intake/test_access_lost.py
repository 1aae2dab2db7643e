"""Access is checked again when a waiting message begins its turn: its sender may have lost it meanwhile."""

from __future__ import annotations

import msgspec
import trio

from tests.stage import Stage, everyone


async def test_a_message_whose_sender_lost_access_begins_no_turn(stage: Stage) -> None:
    async with stage.life() as gateway:
        gateway.control.hold(True)
        await trio.sleep(1)
        await stage.says("hello")
    assert stage.pending() == ["hello"]
    stage.allow(allow_from=["1"])
    async with stage.life():
        await trio.sleep(20)
        assert stage.agent.began == []
        assert stage.pending() == [], "the message does not wait for a later life"


async def test_in_a_shared_session_only_senders_with_access_are_answered(
    stage: Stage,
) -> None:
    stage.config = msgspec.structs.replace(everyone(busy="queue"), group_sessions_per_user=False)
    async with stage.life() as gateway:
        gateway.control.hold(True)
        await trio.sleep(1)
        for number, user in enumerate("121"):
            await stage.says(f"thing {number}", chat="g", user=user, chat_type="group")
            await trio.sleep(2)
    stage.allow(allow_from=["1"])
    async with stage.life():
        await trio.sleep(20)
        begun = [said for said, _ in stage.agent.began]
        assert ["thing 0" in begun[0], "thing 2" in begun[1], len(begun)] == [True, True, 2]
