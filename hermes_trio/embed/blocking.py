"""The gateway inside a blocking program: Trio runs in a thread, and the names are those of `hermes_trio`.

    with open_gateway("home", agent=answer) as gateway:
        print(gateway.say("first", "hello"))

The agent runs on Trio, or is made with `hermes_trio.blocking_agent` or `hermes_trio.asyncio_agent`. Any
thread may call the gateway. After its end each call raises `GatewayOver`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from contextlib import contextmanager, suppress
from contextvars import copy_context
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Self, Unpack

import outcome
import trio

from ..base.events import Event
from ..base.messages import SessionSource
from ..config.schema import GatewayConfig
from ..gateway.ending.endings_table import Ending
from ..gateway.turn.agent_function import AnyAgent
from ..host.home.state_file import Status
from ..platform.contract import Adapter
from ..state.tables.session_entry import SessionEntry
from ..state.tables.transcript import TranscriptRow
from . import embedding, gateway_handle
from .configured_agent import AnyTool
from .host_loop import GatewayOver as GatewayOver
from .shielded_tree import Plugs
from .thread_calls import ThreadCalls, open_thread_calls


class BlockingRun:
    """A run and its events: iterate over it. After the last event the iteration ends."""

    def __init__(self, run: gateway_handle.Run, calls: ThreadCalls) -> None:
        self.run_id, self.session = run.run_id, run.session
        self._run, self._calls = run, calls

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        try:
            return self._calls.call(self._run.__anext__)
        except StopAsyncIteration:
            raise StopIteration from None

    def result(self) -> str:
        """Wait for the end of the run, and return its answer. Raises `RunUnanswered`."""
        return self._calls.call(self._run.result)

    def answer(self, request_id: str, answer: str) -> bool:
        """Answer an approval or a question of this run. Return False if it is not open any more, or if this
        is no answer to it."""
        return self._calls.call(partial(self._run.answer, request_id, answer))


class BlockingGateway:
    """A running gateway, for any thread."""

    def __init__(self, gateway: gateway_handle.Gateway, calls: ThreadCalls, thread: Thread) -> None:
        self._gateway, self._calls, self._thread = gateway, calls, thread

    @property
    def home(self) -> Path:
        """The directory of the gateway."""
        return self._gateway.home

    @property
    def ending(self) -> Ending | None:
        """Why it ends or has ended; None while it serves."""
        return self._gateway.ending

    def wait(self) -> None:
        """Wait until the gateway has ended."""
        self._thread.join()

    def stop(self, *, restart: bool = False, grace: float | None = None, asked_by: str = "") -> bool:
        """Request the end. Return False if an earlier request stays in force."""

        async def stopping() -> bool:
            return self._gateway.stop(restart=restart, grace=grace, asked_by=asked_by)

        return self._calls.call(stopping)

    def status(self) -> Status:
        """Return the state, the number of running turns and the state of each platform."""
        return self._gateway.status()

    def metrics(self) -> str:
        """Return counters and measurements in the format of Prometheus."""
        return self._calls.call(self._gateway.metrics)

    def say(self, session: str | SessionSource, text: str) -> str:
        """Store a message, and return its answer. Raises `RunUnanswered`, and `GatewayError` if the message
        is not stored."""
        return self._calls.call(partial(self._gateway.say, session, text))

    @contextmanager
    def run(self, text: str, *, session: str | SessionSource | None = None) -> Iterator[BlockingRun]:
        """Store a message in this session or in a new one, and yield its run. Leaving the block ends the
        run."""
        with self._calls.entered(self._gateway.run(text, session=session)) as run:
            yield BlockingRun(run, self._calls)

    def history(self, session: str | SessionSource) -> Sequence[TranscriptRow]:
        """Return the transcript of a session; empty if it is not known."""
        return self._calls.call(partial(self._gateway.history, session))

    def sessions(self, *, limit: int = 50, offset: int = 0) -> Sequence[SessionEntry]:
        """Return sessions of all platforms, the most recently used first."""
        return self._calls.call(partial(self._gateway.sessions, limit=limit, offset=offset))


@contextmanager
def open_gateway(
    home: str | os.PathLike[str],
    config: GatewayConfig | None = None,
    *,
    agent: AnyAgent | None = None,
    tools: Sequence[AnyTool] = (),
    adapters: Sequence[Adapter] = (),
    **plugs: Unpack[Plugs],
) -> Iterator[BlockingGateway]:
    """Open a gateway that serves as long as the block, in a thread of its own."""
    opened: Future[BlockingGateway] = Future()
    left: Future[None] = Future()
    ended: Future[outcome.Outcome[None]] = Future()

    async def main() -> None:
        token, block_left = trio.lowlevel.current_trio_token(), trio.Event()

        def leave(_: Future[None]) -> None:
            with suppress(trio.RunFinishedError):  # it has ended by itself
                token.run_sync_soon(block_left.set)

        left.add_done_callback(leave)
        async with (
            embedding.open_gateway(
                home, config, agent=agent, tools=tools, adapters=adapters, **plugs
            ) as gateway,
            open_thread_calls(GatewayOver) as calls,
        ):
            opened.set_result(BlockingGateway(gateway, calls, thread))
            await block_left.wait()

    def in_thread() -> None:
        ended.set_result(outcome.capture(trio.run, main))

    thread = Thread(target=copy_context().run, args=(in_thread,), name="hermes_trio")
    thread.start()
    try:
        either: list[Future[Any]] = [opened, ended]
        wait(either, return_when=FIRST_COMPLETED)
        if opened.done():
            yield opened.result()
    finally:
        left.set_result(None)
        thread.join()
        ended.result().unwrap()
