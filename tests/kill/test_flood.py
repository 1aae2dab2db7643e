"""A command that writes as fast as it can costs the gateway no memory, and ends when that is killed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
import trio

from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.testing import open_loopback
from tests.host.children.kinds import KINDS, alive, token, until
from tests.kill.test_gateway_storm import CONFIG, GATEWAY, LONGEST_END, MOST_MEMORY, PATIENCE, SPOOL

pytestmark = pytest.mark.skipif(os.name != "posix", reason="SIGKILL and these commands are POSIX")

FLOOD = 2 * MOST_MEMORY


def left_out(spools: Path) -> int:
    """Return the number of output bytes that are not in the spool, as its note states."""
    for spool in spools.glob("*"):
        with spool.open("rb") as file:
            file.seek(1 << 20)
            if found := re.search(rb"\n\[\.\.\. (\d+) bytes are left out", file.read(100)):
                return int(found[1])
    return 0


@pytest.mark.timeout(180)
async def test_a_flood_of_command_output_costs_the_gateway_no_memory(tmp_path: Path) -> None:
    home, mark = tmp_path / "home", token()
    home.mkdir()
    async with open_loopback(traits=Traits(edits=True, takes_keys_for=FOR_EVER)) as server:
        (home / "config.yaml").write_text(
            CONFIG.format(port=server.port, takes_keys_for=1_000_000_000, sandbox="auto")
        )
        process = subprocess.Popen([sys.executable, str(GATEWAY), str(home), str(tmp_path / "witness")])
        try:
            with trio.fail_after(PATIENCE):
                await server.says(f"hello\n600 {KINDS['floods'].format(t=mark)}")
            await until(lambda: left_out(home / "spools") > FLOOD, 2 * PATIENCE)
            assert psutil.Process(process.pid).memory_info().rss < MOST_MEMORY
            assert all(spool.stat().st_size <= SPOOL for spool in (home / "spools").iterdir())
        finally:
            process.kill()
            process.wait()
        await until(lambda: not alive(mark), LONGEST_END)
