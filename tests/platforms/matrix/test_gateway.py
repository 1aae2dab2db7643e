"""A whole gateway on Matrix: the rooms as people see them, and findings of `doctor matrix`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from hermes_platforms.matrix import from_config
from hermes_platforms.matrix.adapter import MatrixAdapter
from hermes_platforms.matrix.checks import check
from hermes_platforms.matrix.testing import HomeServer, open_home_server
from hermes_trio import ConfigInvalid, PlatformConfig
from hermes_trio.config.schema import GatewayConfig, StreamingConfig
from hermes_trio.gateway.facade import RunningGateway
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.testing import Script
from tests.stage import Agent, no_guard

PATIENCE = 45.0


@pytest.fixture
async def matrix(state_home: Path) -> AsyncIterator[HomeServer]:
    async with open_home_server() as server:
        with trio.fail_after(PATIENCE):
            yield server


def bot(matrix: HomeServer) -> MatrixAdapter:
    return MatrixAdapter(matrix.token, base_url=matrix.base_url, allow_from=["42"])


@asynccontextmanager
async def life(home: Path, matrix: HomeServer, agent: Agent) -> AsyncIterator[RunningGateway]:
    """Run a gateway with one account for the block, then stop it when no turn runs."""
    config = GatewayConfig(
        platforms={"matrix": PlatformConfig(allow_from=("42",))},
        streaming=StreamingConfig(edit_interval=0.05),
    )
    async with trio.open_nursery() as nursery:

        async def run(task_status: trio.TaskStatus[RunningGateway]) -> None:
            setup = Setup(home, config, agent=agent, adapters=[bot(matrix)], guarded=no_guard)
            await serve(setup, task_status=task_status)

        gateway = await nursery.start(run)
        yield gateway
        while gateway.work.running:  # noqa: ASYNC110
            await trio.sleep(0.01)
        gateway.stop(grace=0, asked_by="the test")


async def test_an_answer_grows_in_one_message_and_is_in_the_thread_of_its_question(
    matrix: HomeServer, tmp_path: Path
) -> None:
    agent, chat = Agent(), matrix.chat("42")
    agent.on("hello", Script().says("**Hello**, you.", pieces=4, seconds=0.4))
    async with life(tmp_path / "home", matrix, agent):
        await matrix.says("hello", thread_id="$root")
        await matrix.until(lambda: chat.last == "**Hello**, you.")
    assert [one.thread_id for one in chat.messages] == ["$root"]
    assert sum(one.what == "edit" for one in matrix.history) > 1


async def test_a_message_between_two_lives_is_answered_once_and_none_comes_again(
    matrix: HomeServer, tmp_path: Path
) -> None:
    chat = matrix.chat("42")
    async with life(tmp_path / "home", matrix, Agent()):
        first = await matrix.says("one")
        await matrix.until(lambda: chat.last == "You said: one")
    matrix.deliver(first)  # it comes a second time
    matrix.post("two")
    async with life(tmp_path / "home", matrix, Agent()):
        await matrix.until(lambda: chat.last == "You said: two")
    assert chat.texts == ["You said: one", "You said: two"]


async def test_a_gap_in_the_timeline_is_read_and_answered_in_order(
    matrix: HomeServer, tmp_path: Path
) -> None:
    chat = matrix.chat("42")
    async with life(tmp_path / "home", matrix, Agent()):
        await matrix.says("/queue one")
        await matrix.until(lambda: chat.last == "You said: one")
        matrix.batch = 2
        for number in range(6):
            matrix.post(f"/whoami {number}")
        await matrix.until(lambda: len(chat.texts) == 7)
    assert sum(path.endswith("/messages") for path in matrix.asked) >= 1


async def test_an_invitation_is_accepted_from_a_person_who_may_talk_only(
    matrix: HomeServer, tmp_path: Path
) -> None:
    matrix.invite("!of-ann", by="42")
    async with life(tmp_path / "home", matrix, Agent()):
        await matrix.until(lambda: matrix.joined == ["!of-ann"])
        matrix.invite("!of-eve", by="666")
        await matrix.says("hello")
    assert matrix.joined == ["!of-ann"]


async def test_a_send_with_a_lost_answer_is_repeated_by_its_transaction_and_shown_once(
    matrix: HomeServer, tmp_path: Path
) -> None:
    matrix.loses_answer()
    async with life(tmp_path / "home", matrix, Agent()):
        await matrix.says("hello")
        await matrix.until(lambda: sum(one.what == "send" for one in matrix.history) >= 2)
        await matrix.until(lambda: matrix.chat("42").last == "You said: hello")
    assert matrix.chat("42").texts == ["You said: hello"]


async def test_doctor_leads_from_the_token_to_the_first_chat(matrix: HomeServer) -> None:
    matrix.invite("!waits", by="@ann:localhost")
    config = PlatformConfig(token=matrix.token, base_url=matrix.base_url, allow_from=("@ann:localhost",))
    found = await check(config)
    assert [one.level for one in found] == ["ok"] * len(found)
    assert "the account is @hermes_bot:localhost" in found[0].text
    assert any("invitations that wait: 1" in one.text for one in found)
    matrix.lets_in = False
    [problem] = await check(config)
    assert (problem.level, problem.text) == ("problem", "the home server does not know this token")


@pytest.mark.parametrize(
    ("keys", "key"),
    [
        ({"base_url": "https://x.org"}, "token"),
        ({"token": "t"}, "base_url"),
        ({"token": "t", "base_url": "x.org"}, "base_url"),
        ({"token": "t", "base_url": "https://x.org", "allow_from": ("ann",)}, "allow_from"),
    ],
)
def test_a_value_that_cannot_work_is_refused(keys: dict[str, object], key: str) -> None:
    with pytest.raises(ConfigInvalid, match=f"platforms.matrix.{key}"):
        from_config(PlatformConfig(**keys))  # type: ignore[arg-type]
