"""A test suite for an agent. pytest runs it with pytest-trio (`-o trio_mode=true`), with the plugin of anyio
(`-o anyio_mode=auto`) or with pytest-asyncio (`-o asyncio_mode=auto`).

The fixture `hermes_life` is a gateway in memory, on a clock that jumps: a quarter of an hour takes no time.
"""

import anyio

import hermes_trio
from hermes_trio.testing import Lives


async def remind(turn: hermes_trio.Turn) -> None:
    """Answer after a quarter of an hour; the agent under test."""
    if not turn.said:
        await turn.say("I was interrupted. Here is your reminder anyway.")
        return
    await turn.say("I will. ")
    await anyio.sleep(15 * 60)
    await turn.say(f"It is time: {turn.prompt}")


async def test_the_program_gets_the_answer(hermes_life: Lives) -> None:
    async with hermes_life(remind) as life:
        assert await life.gateway.say("first", "tea") == "I will. It is time: tea"


async def test_a_person_is_told_in_time(hermes_life: Lives) -> None:
    async with hermes_life(remind) as life:
        await life.says("tea")
        await life.passes(minutes=14)
        assert "I will. It is time: tea" not in life.chat().texts
        await life.passes(minutes=2)
        assert "I will. It is time: tea" in life.chat().texts


async def test_a_restart_does_not_lose_the_reminder(hermes_life: Lives) -> None:
    async with hermes_life(remind) as life:
        await life.says("tea")
        await life.passes(minutes=5)
    async with hermes_life(remind) as life:
        await life.until(lambda: "I was interrupted. Here is your reminder anyway." in life.chat().texts)


async def test_a_lost_connection_does_not_lose_the_reminder(hermes_life: Lives) -> None:
    async with hermes_life(remind) as life:
        await life.says("tea")
        life.platform.drop()
        await life.until(lambda: "I will. It is time: tea" in life.chat().texts)
