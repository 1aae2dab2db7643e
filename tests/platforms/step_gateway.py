"""A gateway on one platform that kills itself at a step: `python step_gateway.py <platform> <home>
<base url> <token> <step>`.

A step is the moment before or after a job of the store or the journals. The runners count the steps, and at
the given one the process sends itself SIGKILL. With 0 it lives until it is killed from outside, and writes
the number of steps to a file.
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

from hermes_platforms.discord.adapter import DiscordAdapter
from hermes_platforms.matrix.adapter import MatrixAdapter
from hermes_platforms.slack.adapter import SlackAdapter
from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_platforms.webhook.adapter import WebhookAdapter
from hermes_platforms.webhook.testing import settings_for
from hermes_platforms.xmpp.adapter import XmppAdapter
from hermes_platforms.xmpp.settings import XmppSettings
from hermes_trio.config.schema import DisplayConfig, GatewayConfig, PlatformConfig, StreamingConfig
from hermes_trio.gateway.serve import Setup, serve
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.loop.worker import Runner, worker_thread
from hermes_trio.platform import Adapter

T = TypeVar("T")


def xmpp(token: str, base_url: str) -> XmppAdapter:
    """Return an adapter for the account of the server for tests."""
    host, _, port = base_url.partition(":")
    address = "hermes_bot@home.test"
    return XmppAdapter(XmppSettings(address=address, password=token, host=host, port=int(port), tls=False))


ADAPTERS: dict[str, Callable[..., Adapter]] = {
    "discord": DiscordAdapter,
    "matrix": MatrixAdapter,
    "slack": lambda token, base_url: SlackAdapter(token, f"xapp{token[4:]}", base_url=base_url),
    "telegram": TelegramAdapter,
    "webhook": lambda token, base_url: WebhookAdapter(settings_for(base_url, int(token))),
    "xmpp": xmpp,
}


class Steps:
    """Number of steps taken, and the step at which the process kills itself."""

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
        """Return the usual worker, with a step before and after every job."""
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
    """Start no guard: there are no child processes."""
    yield


async def agent(turn: TurnContext) -> str:
    """Answer in two pieces, so that edits can happen between them."""
    await turn.requesting()
    said = " ".join(event.text for event in turn.said) or next(
        row.content for row in reversed(turn.history) if row.role == "user"
    )
    await turn.say("Answer to")
    await trio.sleep(0.05)
    await turn.say(f" {said}.")
    return f"Answer to {said}."


async def main(platform: str, home: Path, base_url: str, token: str, last: int) -> None:
    config = GatewayConfig(
        platforms={platform: PlatformConfig(allow_from="all")},
        display=DisplayConfig(busy_input_mode="queue"),
        streaming=StreamingConfig(edit_interval=0.02),
    )
    bot = ADAPTERS[platform](token, base_url=base_url)
    await serve(
        Setup(home, config, agent=agent, adapters=[bot], worker=Steps(home, last).worker, guarded=no_guard)
    )


if __name__ == "__main__":
    trio.run(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3], sys.argv[4], int(sys.argv[5]))
