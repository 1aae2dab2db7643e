"""Lines of JSON that a client of another library writes."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import trio


async def until_written(running: subprocess.Popen[bytes], *wanted: Any) -> None:
    """Read what the client writes, until it is this."""
    assert running.stdout is not None
    while True:
        line = await trio.to_thread.run_sync(running.stdout.readline, abandon_on_cancel=True)
        assert line, "The client has ended."
        if json.loads(line) == list(wanted):
            return
