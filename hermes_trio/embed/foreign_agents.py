"""Agents that are no async functions of Trio: one of asyncio, and one that blocks; and tools of asyncio.

Each becomes an agent of the gateway, and ends with its turn. What needs asyncio runs on the loop of the
program if the gateway is on asyncio; else on a loop of its own inside the turn, with the package
trio-asyncio. A blocking agent runs in a thread.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing, asynccontextmanager, nullcontext
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar, cast

import outcome
import trio

from ..base.errors import GatewayError
from ..base.messages import MessageEvent
from ..gateway.turn.agent_function import Agent
from ..gateway.turn.context import TurnContext
from ..host.loop.outsiders import Outsider
from ..host.loop.thread_call import call_in_thread
from ..state.tables.session_entry import Usage
from ..state.tables.transcript import TranscriptRow
from ..tools.tool import Result, Tool
from .asyncio_calls import AsyncioCalls, call_asyncio
from .guest_run import running_guest
from .thread_calls import ThreadCalls, open_thread_calls

P = ParamSpec("P")
T = TypeVar("T")


class TurnOver(GatewayError):
    """The turn has ended: a blocking agent has to return."""

    def __init__(self) -> None:
        super().__init__("The turn has ended. Return from the agent.")


class _TurnView:
    """The part of a turn that any code may read."""

    def __init__(self, turn: TurnContext) -> None:
        self._turn = turn
        self.prompt: str = turn.prompt
        """The text to answer."""
        self.said: Sequence[MessageEvent] = turn.said
        """The messages that this turn answers; none for a resumed turn."""
        self.history: Sequence[TranscriptRow] = turn.history
        """The transcript before this turn."""
        self.session_id, self.run_id = turn.session_id, turn.run_id

    def use(self, usage: Usage) -> None:
        """Note the tokens that the model used."""
        self._turn.usage = usage


class AsyncioTurn(_TurnView):
    """A turn as an agent of asyncio sees it."""

    def __init__(self, turn: TurnContext, calls: AsyncioCalls) -> None:
        super().__init__(turn)
        self._calls = calls

    async def say(self, text: str) -> None:
        """Write the next piece of the answer."""
        await self._calls.call(partial(self._turn.say, text))

    async def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        """Ask the person a question and return the answer; None if none came in time."""
        return await self._calls.call(partial(self._turn.ask, text, choices, within=within))

    async def may(self, what: str) -> str | None:
        """Ask for approval. Return its scope, or None for a no and for no answer in time."""
        return await self._calls.call(partial(self._turn.may, what))

    async def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        """Send the person a file. Return False if their platform takes no files."""
        return await self._calls.call(partial(self._turn.send_file, name, data, text))

    async def call_tool(self, tool: Tool, arguments: str = "{}") -> Result:
        """Call a tool as a model has asked for it, with its arguments as JSON."""
        return await self._calls.call(partial(self._turn.call_tool, tool, arguments))


class BlockingTurn(_TurnView):
    """A turn as a blocking agent sees it, from its thread. After the end of the turn its methods raise
    `TurnOver`."""

    def __init__(self, turn: TurnContext, calls: ThreadCalls) -> None:
        super().__init__(turn)
        self._calls = calls

    @property
    def is_over(self) -> bool:
        """True when the turn has ended: then return."""
        return self._calls.are_over

    def say(self, text: str) -> None:
        """Write the next piece of the answer."""
        self._calls.call(partial(self._turn.say, text))

    def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        """Ask the person a question and return the answer; None if none came in time."""
        return self._calls.call(partial(self._turn.ask, text, choices, within=within))

    def may(self, what: str) -> str | None:
        """Ask for approval. Return its scope, or None for a no and for no answer in time."""
        return self._calls.call(partial(self._turn.may, what))

    def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        """Send the person a file. Return False if their platform takes no files."""
        return self._calls.call(partial(self._turn.send_file, name, data, text))

    def call_tool(self, tool: Tool, arguments: str = "{}") -> Result:
        """Call a tool as a model has asked for it, with its arguments as JSON."""
        return self._calls.call(partial(self._turn.call_tool, tool, arguments))


def asyncio_agent(
    function: Callable[[AsyncioTurn], Awaitable[str | None]] | Callable[[AsyncioTurn], AsyncIterator[str]],
) -> Agent:
    """Return an agent from an async function, or an async generator of pieces, that needs asyncio. Its task
    is cancelled with the turn, and the turn ends after it."""

    async def in_asyncio(turn: AsyncioTurn) -> str | None:
        if not inspect.isasyncgenfunction(function):
            return await cast("Awaitable[str | None]", function(turn))
        async with aclosing(function(turn)) as pieces:
            async for piece in pieces:
                await turn.say(piece)
        return None

    async def agent(turn: TurnContext) -> str | None:
        async with _asyncio_loop() as loop, trio.open_nursery() as nursery:
            calls = AsyncioCalls(loop)
            calls.open(nursery)
            return await _run_there(loop, in_asyncio(AsyncioTurn(turn, calls)), calls.outsider)  # noqa: ASYNC121

    return agent


def asyncio_tool(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
    """Return a function for `tools=` from an async function that needs asyncio. Its task is cancelled with
    the call, and the call ends after it."""

    @wraps(function)
    async def on_trio(*args: P.args, **kwargs: P.kwargs) -> T:
        async def in_asyncio() -> T:
            return await function(*args, **kwargs)

        result: outcome.Outcome[T]
        async with _asyncio_loop() as loop:
            try:
                result = outcome.Value(await _run_there(loop, in_asyncio(), Outsider()))
            except Exception as error:  # raised after the loop has ended, which would put it into a group
                result = outcome.Error(error)
        return result.unwrap()

    return on_trio


@asynccontextmanager
async def _asyncio_loop() -> AsyncIterator[asyncio.AbstractEventLoop]:
    """Yield the loop on which Trio is a guest; else a loop that runs on Trio during the block."""
    host = running_guest()
    if host is not None:
        yield host.loop
        return
    import trio_asyncio  # not before it is needed: it changes `asyncio.new_event_loop`

    # Ctrl-C inside of a callback would end this loop, and trio-asyncio would wait for its tasks for ever. It
    # goes to the main task of the program instead.
    trio.lowlevel.enable_ki_protection(trio_asyncio.TrioEventLoop._main_loop)
    async with trio_asyncio.open_loop() as loop:
        yield loop


async def _run_there(
    loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T], outsider: Outsider
) -> T:
    """Run a coroutine of an outsider on this loop. On a loop inside the turn its waits are Trio's."""
    with outsider.working() if running_guest() is not None else nullcontext():
        return await call_asyncio(loop, coroutine)


def blocking_agent(function: Callable[[BlockingTurn], str | None]) -> Agent:
    """Return an agent from a blocking function, which runs in a thread. No thread can be cancelled: when the
    turn ends, the methods of the function's turn raise `TurnOver`, and a function that does not return
    within a second is left behind in its thread."""

    async def agent(turn: TurnContext) -> str | None:
        async with open_thread_calls(TurnOver) as calls:
            call = partial(function, BlockingTurn(turn, calls))
            name = f"agent of {turn.run_id}"
            return await call_in_thread(call, name, outsider=calls.outsider, on_cancel=calls.close)

    return agent
