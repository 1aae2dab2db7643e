"""One server: connected, connected again when it goes, and asked.

When a call fails, or the server says that its tools have changed, it is asked for its tools once more; if it
cannot say, it is connected anew. What it offered before stays on offer meanwhile: a model's requests are the
cheaper, the less its tools change.
"""

from __future__ import annotations

import logging
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import anyio
import httpx2
import trio
from mcp import MCPError, types
from mcp.client import Client, IncomingMessage
from mcp.client._transport import TransportStreams
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import SubscriptionLost
from mcp.types import CONNECTION_CLOSED
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...base.errors import GatewayError
from ...base.tls import trusted
from ...config.schema import McpServerConfig
from ...host.loop.scoped_task import beside
from ...host.processes.process_groups import ChildProcess
from ...log import Log
from ..tool import Tool, ToolFailed
from .mcp_program import LONGEST_MESSAGE, Outgoing, talking
from .offered_tools import MOST_TOOLS, plain, tools_of

CONNECTS_WITHIN = 60.0
"""Seconds; some fetch themselves from the internet first."""
ANSWERS_WITHIN = 10.0
LISTENS_AGAIN_AFTER = 30.0
STEADY = 60.0
"""Who was there for so many seconds is connected again at once."""
LONGEST_PAUSE = 60.0

# It writes a line with the whole address, secrets and all, for each request.
logging.getLogger("httpx2").setLevel(logging.WARNING)
# The library's: a traceback for each notification that is wrong, and a server may send them without end.
logging.getLogger("client").setLevel(logging.ERROR)

log = Log(__name__)


class ToolServer:
    """A configured server, and what it offers."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        start: Callable[[str, McpServerConfig], AbstractAsyncContextManager[ChildProcess]],
        changed: Callable[[], object],
        told: Callable[[str], object],
    ) -> None:
        """`start` starts the program of one that is a program; `changed` is called when it offers something
        else than before; `told` is told why it could not be connected at first."""
        self.name, self._config, self._start = name, config, start
        self._changed, self._told = changed, told
        self.tools: Mapping[str, Tool] = {}
        self.settled = trio.Event()
        """Set when it is known whether it is there."""
        self._problem = "it is still being connected"
        self.trouble = "it is not ready in time"
        """Why it is not connected, without a hint where to look on."""
        self._status = 0
        """The latest refusal of an address, which the library keeps to itself."""
        self._offered: list[types.Tool] = []
        self._client: Client | None = None
        self._doubt = trio.Event()

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    # --- staying connected ---

    async def keep(self, leaving: trio.Event) -> None:
        """Be connected, again and again, until somebody leaves."""
        attempt = 0
        while not leaving.is_set():
            since = trio.current_time()
            try:
                await self._connected(leaving)
            except* Exception as troubles:
                # Whatever it is and whatever the library makes of it: it is the server's, and no more.
                self._lost(_said(troubles))
            attempt = 0 if trio.current_time() - since > STEADY else attempt + 1
            with trio.move_on_after(min(2.0**attempt, LONGEST_PAUSE) if attempt else 0):
                await leaving.wait()

    async def _connected(self, leaving: trio.Event) -> None:
        self._doubt = trio.Event()
        with trio.CancelScope(deadline=trio.current_time() + CONNECTS_WITHIN) as patience:
            async with (
                Client(self._way(), message_handler=self._hear, cache=None) as client,
                trio.open_nursery() as looking,
            ):
                await self._learn(client)
                patience.deadline = math.inf
                self._client = client
                self.settled.set()
                log.info("a server of tools is connected", server=self.name, tools=len(self.tools))
                looking.start_soon(self._look_again, client)
                looking.start_soon(self._listen, client)
                try:
                    await leaving.wait()
                finally:
                    self._client = None
                looking.cancel_scope.cancel(reason="its server is left")
        if patience.cancelled_caught:
            self._lost(f"it was not ready in {CONNECTS_WITHIN:.0f} s")

    def _hint(self) -> str:
        """Where to look on."""
        if self._config.command:
            return f" (what it complains of is in the log mcp-{plain(self.name)}.log)"
        return f" (status {self._status}; check its url and headers)" if self._status else ""

    def _lost(self, trouble: str) -> None:
        self.trouble = trouble
        self._problem = problem = trouble + self._hint()
        log.warning("a server of tools is not connected", server=self.name, problem=problem)
        if not self.settled.is_set():
            self._told(f"The server of tools {self.name!r} is not connected: {problem}. It is tried again.")
            self.settled.set()

    async def _look_again(self, client: Client) -> None:
        while True:
            await self._doubt.wait()
            self._doubt = trio.Event()
            with trio.fail_after(ANSWERS_WITHIN):
                await self._learn(client)

    async def _listen(self, client: Client) -> None:
        """Hear that its tools have changed, where a server tells this only on a stream that was asked for."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools and tools.list_changed):
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._doubt.set()  # nothing is told of changes before the stream began
                    async for _ in changes:
                        self._doubt.set()
            except (MCPError, SubscriptionLost) as error:
                log.debug("changes of a server of tools not heard", server=self.name, error=str(error))
            await trio.sleep(LISTENS_AGAIN_AFTER)

    async def _learn(self, client: Client) -> None:
        """Ask it for its tools."""
        offered: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_TOOLS):
            page = await client.list_tools(cursor=cursor)
            offered += [tool for tool in page.tools if self._config.tools.lets(tool.name)]
            cursor = page.next_cursor
            if cursor is None or len(offered) >= MOST_TOOLS:
                break
        if offered != self._offered:
            self._offered = offered
            self.tools = tools_of(self.name, offered, self.call, within=self._config.timeout)
            self._changed()

    async def _hear(self, message: IncomingMessage) -> None:
        await anyio.lowlevel.checkpoint()
        if isinstance(message, types.ToolListChangedNotification):
            self._doubt.set()

    # --- being asked ---

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool, and wait for its result. Raises `ToolFailed`."""
        if self._client is None:
            raise ToolFailed(
                f"The server {self.name!r} is not connected: {self._problem}. It is tried again by itself."
            )
        try:
            return await self._client.call_tool(tool, arguments)
        except Exception as error:  # the client's own errors, and those of what it stands on
            self._doubt.set()
            is_lost = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
            problem = "the connection ended. Whether this was done is not known" if is_lost else _said(error)
            raise ToolFailed(f"{tool} failed: {problem}.") from error

    # --- the way there ---

    def _way(self) -> AbstractAsyncContextManager[TransportStreams]:
        if self._config.command:
            return talking(self._start(self.name, self._config), self._gone)
        return _roomy(_reached(self._config, self._answered))

    def _gone(self) -> None:
        self._doubt.set()

    async def _answered(self, response: httpx2.Response) -> None:
        await trio.lowlevel.checkpoint()
        if response.request.method == "POST":
            self._status = response.status_code if response.is_error else 0


@asynccontextmanager
async def _reached(
    config: McpServerConfig, answered: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncIterator[TransportStreams]:
    """The messages to and from an address."""
    url = config.url or ""
    local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    async with (
        httpx2.AsyncClient(
            headers=dict(config.headers),
            timeout=httpx2.Timeout(None, connect=30.0),
            verify=trusted() if url.startswith("https:") else False,
            trust_env=not local,
            event_hooks={"response": [answered]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST_MESSAGE) as streams,
    ):
        yield streams


@asynccontextmanager
async def _roomy(way: AbstractAsyncContextManager[TransportStreams]) -> AsyncIterator[TransportStreams]:
    """The same way, on which nobody waits to say something. The library tells a server of each call that
    was cancelled, under a shield of five seconds: longer than the gateway may have to end."""
    async with way as (heard, taken):
        said, waiting = anyio.create_memory_object_stream[Any](math.inf)

        async def pass_on(waiting: Outgoing) -> None:
            async for message in waiting:
                await taken.send(message)

        with said, waiting:
            async with beside(partial(pass_on, waiting)):
                yield heard, said


def _said(error: BaseException) -> str:
    """What is wrong, in words."""
    while isinstance(error, BaseExceptionGroup):
        error = next((one for one in error.exceptions if isinstance(one, GatewayError)), error.exceptions[0])
    if isinstance(error, MCPError | GatewayError):
        return str(error).rstrip(".")
    if isinstance(error, trio.TooSlowError):
        return "it does not answer"
    return f"{type(error).__name__}: {error}".rstrip(".: ")
