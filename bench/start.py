"""Start and end of an idle gateway: the time of `hermes-trio run` from exec until it is ready, and from
SIGTERM until its process is gone. The bare limit is a Trio program that reports that it runs, waits for the
signal, and ends.

Its only platform cannot be reached, so that no answer of a server is part of the figure.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from statistics import median

from .figures import Figure, show

ROUNDS = 10
WITHIN = 30.0
CONFIG = "web: {port: 0}\nplatforms: {loopback: {allow_from: all, port: 9}}\n"
BARE = """
import signal, trio
async def main():
    with trio.open_signal_receiver(signal.SIGTERM) as signals:
        print("ready", flush=True)
        async for _ in signals:
            return
trio.run(main)
"""


def main() -> int:
    """Measure and print both figures; takes about ten seconds."""
    rounds = [(_ours(), _bare()) for _ in range(ROUNDS)]
    figures = []
    for at, name in enumerate(("from exec to ready", "from SIGTERM to gone, idle")):
        ours, bare = (median(side[at] for side in sides) for sides in zip(*rounds, strict=True))
        ratio = median(mine[at] / limit[at] for mine, limit in rounds)
        figures.append(Figure(name, ours, "ms", bare=bare, ratio=ratio))
    show("start", figures)
    return 0


def _ours() -> tuple[float, float]:
    with tempfile.TemporaryDirectory(prefix="hermes-bench-") as name:
        home = Path(name)
        (home / "config.yaml").write_text(CONFIG)

        def ready(_: object) -> bool:
            with suppress(OSError, ValueError):
                state = json.loads((home / "gateway_state.json").read_bytes())["gateway_state"]
                return state not in ("starting", "startup_failed")
            return False

        command = [sys.executable, "-m", "hermes_trio", "run"]
        return _life_of(command, {**os.environ, "HERMES_HOME": name}, ready)


def _bare() -> tuple[float, float]:
    def ready(process: subprocess.Popen[bytes]) -> bool:
        assert process.stdout is not None
        return process.stdout.readline() == b"ready\n"

    return _life_of([sys.executable, "-c", BARE], dict(os.environ), ready)


def _life_of(
    command: Sequence[str], env: dict[str, str], ready: Callable[[subprocess.Popen[bytes]], bool]
) -> tuple[float, float]:
    """Return the milliseconds from exec until this program is ready, and from SIGTERM until it is gone."""
    began = time.perf_counter()
    with subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        while not ready(process):
            assert process.poll() is None
            assert time.perf_counter() - began < WITHIN
            time.sleep(0.0005)
        up = time.perf_counter()
        process.send_signal(signal.SIGTERM)
        process.wait(WITHIN)
        return (up - began) * 1000, (time.perf_counter() - up) * 1000
