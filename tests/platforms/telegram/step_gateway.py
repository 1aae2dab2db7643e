"""A gateway on Telegram that is killed in the middle of its steps:
`python step_gateway.py <home> <base url> <token> <step>`.

A step is the moment before or behind a job of the store or the journals. The runners count them; at the named
one the process kills itself, as nobody can catch. With 0 it lives until somebody else kills it, and writes
down how many steps there were.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TypeVar

import trio
from outcome import Outcome

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_trio.config.schema import DisplayConfig, GatewayConfig, PlatformConfig, StreamingConfig
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, worker_thread

T = TypeVar("T")


class Steps:
    """Where we are, and where it ends."""

    def __init__(self, home: Path, last: int) -> None:
        self._file, self._last = home / "steps", last
        self._taken = 0

    def take(self) -> None:
        self._taken += 1
        if self._taken == self._last:
            os.kill(os.getpid(), signal.SIGKILL)
        if not self._last:
            self._file.write_text(str(self._taken))

    @contextmanager
    def worker(self, name: str) -> Iterator[Runner]:
        """The usual one, with a step before and behind every job."""
        with worker_thread(name) as runner:

            def stepping(job: Callable[[], T], done: Callable[[Outcome[T]], object]) -> None:
                def counted() -> T:
                    self.take()
                    result = job()
                    self.take()
                    return result

                runner(counted, done)

            yield stepping


@asynccontextmanager
async def no_guard() -> AsyncIterator[None]:
    """It has no children that would have to be ended."""
    yield


async def agent(turn: TurnContext) -> str:
    """Answers in two pieces, and the edits may go between them."""
    await turn.requesting()
    said = " ".join(event.text for event in turn.said) or next(
        row.content for row in reversed(turn.history) if row.role == "user"
    )
    await turn.say("Answer to")
    await trio.sleep(0.05)
    await turn.say(f" {said}.")
    return f"Answer to {said}."


async def main(home: Path, base_url: str, token: str, last: int) -> None:
    config = GatewayConfig(
        platforms={"telegram": PlatformConfig(allow_from="all")},
        display=DisplayConfig(busy_input_mode="queue"),
        streaming=StreamingConfig(edit_interval=0.02),
    )
    bot = TelegramAdapter(token, base_url=base_url)
    await serve(
        Setup(home, config, agent=agent, adapters=[bot], worker=Steps(home, last).worker, guarded=no_guard)
    )


if __name__ == "__main__":
    trio.run(main, Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4]))
