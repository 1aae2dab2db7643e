"""Servers with random output: lines that are no messages, too long, split, with wrong ids and wrong types. A
call ends with its result or with an error, and other servers are not affected."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import trio

from hermes_trio.tools.tool import ToolFailed
from tests.host.children.kinds import alive, soon, token
from tests.tools.mcp.test_mcp_servers import PATIENCE, Shop, program, shop

pytestmark = pytest.mark.timeout(120)

SEEDS = [random.randrange(1 << 32) for _ in range(3)]  # noqa: S311 - it is printed
CALLS = 15


@pytest.mark.parametrize("seed", range(len(SEEDS)))
async def test_a_server_with_random_output_affects_only_its_own_calls(tmp_path: Path, seed: int) -> None:
    print(f"the seed is {SEEDS[seed]}")
    mine = str(tmp_path / token())
    async with shop(tmp_path, good=program("well", mine), odd=program(f"fuzz {SEEDS[seed]}", mine)) as here:
        ends = list[str]()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_odd_calls, here, ends)
            for _ in range(CALLS):
                assert await here.use("mcp__good__spell") == "c-a-t"
        assert len(ends) == CALLS
        assert set(ends) <= {"c-a-t", "failed", "(no output)", "wrong"}
    soon(lambda: not alive(mine), within=20)


async def _odd_calls(here: Shop, ends: list[str]) -> None:
    tool = await here.tool("mcp__odd__spell")
    for _ in range(CALLS):
        with trio.fail_after(PATIENCE):
            try:
                done = await here.desk.use(tool, word="cat")
            except ToolFailed as error:
                ends.append("failed" if str(error) else "failed without a word")
            else:
                ends.append(done.content)
