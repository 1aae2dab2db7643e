"""One server: connect, reconnect after a loss, and call its tools.

After a failed call, or a notification that its tools have changed, the server is asked for its tools again;
if it does not answer, it is connected again. Its former tools stay on offer meanwhile: requests to a model
are cheaper if the tools do not change.
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
from ...base.pulse import Wakeup
from ...base.tls import tls_context
from ...config.schema import McpServerConfig
from ...host.loop.scoped_task import beside
from ...host.processes.process_groups import ChildProcess
from ...log import Log
from ..tool import Tool, ToolFailed
from .mcp_program import LONGEST_MESSAGE, Outgoing, program_connection
from .offered_tools import MOST_TOOLS, plain_name, tools_of

ANSWERS_WITHIN = 10.0
LISTENS_AGAIN_AFTER = 30.0
STEADY = 60.0
"""A server that was connected for this many seconds is connected again without a pause."""
LONGEST_PAUSE = 60.0

# It logs the whole address of each request, with its secrets.
logging.getLogger("httpx2").setLevel(logging.WARNING)
# The logger of the library: a traceback for each wrong notification, which a server may send without end.
logging.getLogger("client").setLevel(logging.ERROR)

log = Log(__name__)


class ToolServer:
    """A configured server, and the tools that it offers."""

    def __init__(
        self,
        name: str,
        config: McpServerConfig,
        start: Callable[[str, McpServerConfig], AbstractAsyncContextManager[ChildProcess]],
        changed: Callable[[], object],
        report: Callable[[str], object],
        connects_within: float,
    ) -> None:
        """`start` starts a server that is a program; `changed` is called when its tools have changed;
        `report` gets the reason if the first connection fails; a server has to be ready in `connects_within`
        seconds."""
        self.name, self._config, self._start = name, config, start
        self._changed, self._report = changed, report
        self._connects_within = connects_within
        self.tools: Mapping[str, Tool] = {}
        self.settled = trio.Event()
        """Set when the first attempt to connect has succeeded or failed."""
        self._problem = "it is still being connected"
        self.trouble = "it is not ready in time"
        """Reason why it is not connected, without the hint where to look."""
        self._status = 0
        """The latest HTTP error status, which the library does not report."""
        self._offered: list[types.Tool] = []
        self._client: Client | None = None
        self._outdated = Wakeup()

    @property
    def is_connected(self) -> bool:
        return self._client is not None

    # --- staying connected ---

    async def keep(self, leaving: trio.Event) -> None:
        """Stay connected until `leaving` is set; connect again after each loss."""
        attempt = 0
        while not leaving.is_set():
            since = trio.current_time()
            try:
                await self._connected(leaving)
            except* Exception as troubles:
                # Any error of the server or of the library concerns this server only.
                self._disconnected(_reason(troubles))
            attempt = 0 if trio.current_time() - since > STEADY else attempt + 1
            with trio.move_on_after(min(2.0**attempt, LONGEST_PAUSE) if attempt else 0):
                await leaving.wait()

    async def _connected(self, leaving: trio.Event) -> None:
        self._outdated.clear()
        with trio.CancelScope(deadline=trio.current_time() + self._connects_within) as patience:
            async with (
                Client(self._connection(), message_handler=self._on_message, cache=None) as client,
                trio.open_nursery() as looking,
            ):
                await self._ask_for_tools(client)
                patience.deadline = math.inf
                self._client = client
                self.settled.set()
                log.info("MCP server connected", server=self.name, tools=len(self.tools))
                looking.start_soon(self._refresh, client)
                looking.start_soon(self._listen, client)
                try:
                    await leaving.wait()
                finally:
                    self._client = None
                looking.cancel_scope.cancel(reason="MCP server disconnected")
        if patience.cancelled_caught:
            self._disconnected(f"it was not ready in {self._connects_within:.0f} s")

    def _hint(self) -> str:
        """Return a hint where to look."""
        if self._config.command:
            return f" (see its own messages in the log mcp-{plain_name(self.name)}.log)"
        return f" (status {self._status}; check its url and headers)" if self._status else ""

    def _disconnected(self, trouble: str) -> None:
        self.trouble = trouble
        self._problem = problem = trouble + self._hint()
        log.warning("MCP server not connected", server=self.name, problem=problem)
        if not self.settled.is_set():
            self._report(f"The MCP server {self.name!r} is not connected: {problem}. It is tried again.")
            self.settled.set()

    async def _refresh(self, client: Client) -> None:
        while True:
            await self._outdated.wait()
            self._outdated.clear()
            with trio.fail_after(ANSWERS_WITHIN):
                await self._ask_for_tools(client)

    async def _listen(self, client: Client) -> None:
        """Listen for changes of its tools, for a server that reports them only on a stream that the client
        opens."""
        tools = client.server_capabilities.tools
        if client.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools and tools.list_changed):
            return
        while True:
            try:
                async with client.listen(tools_list_changed=True) as changes:
                    self._outdated.set()  # changes before the stream was opened are not reported
                    async for _ in changes:
                        self._outdated.set()
            except (MCPError, SubscriptionLost) as error:
                log.debug("stream of tool changes lost; retrying", server=self.name, error=str(error))
            await trio.sleep(LISTENS_AGAIN_AFTER)

    async def _ask_for_tools(self, client: Client) -> None:
        """Ask the server for its tools."""
        offered: list[types.Tool] = []
        cursor: str | None = None
        for _ in range(MOST_TOOLS):
            page = await client.list_tools(cursor=cursor)
            offered += [tool for tool in page.tools if self._config.tools.uses(tool.name)]
            cursor = page.next_cursor
            if cursor is None or len(offered) >= MOST_TOOLS:
                break
        if offered != self._offered:
            self._offered = offered
            self.tools = tools_of(self.name, offered, self.call, within=self._config.timeout)
            self._changed()

    async def _on_message(self, message: IncomingMessage) -> None:
        await anyio.lowlevel.checkpoint()
        if isinstance(message, types.ToolListChangedNotification):
            self._outdated.set()

    # --- calls ---

    async def call(self, tool: str, arguments: dict[str, Any]) -> types.CallToolResult:
        """Call a tool and wait for its result. Raises `ToolFailed`."""
        if self._client is None:
            raise ToolFailed(
                f"The server {self.name!r} is not connected: {self._problem}. "
                "It is tried again automatically."
            )
        try:
            return await self._client.call_tool(tool, arguments)
        except Exception as error:  # errors of the client, and of the libraries below it
            self._outdated.set()
            is_lost = isinstance(error, MCPError) and error.code == CONNECTION_CLOSED
            problem = (
                "the connection ended. Whether the call took effect is not known"
                if is_lost
                else _reason(error)
            )
            raise ToolFailed(f"{tool} failed: {problem}.") from error

    # --- the connection ---

    def _connection(self) -> AbstractAsyncContextManager[TransportStreams]:
        if self._config.command:
            return program_connection(self._start(self.name, self._config), self._on_output_end)
        return _unbounded(_http_connection(self._config, self._on_response))

    def _on_output_end(self) -> None:
        self._outdated.set()

    async def _on_response(self, response: httpx2.Response) -> None:
        await trio.lowlevel.checkpoint()
        if response.request.method == "POST":
            self._status = response.status_code if response.is_error else 0


@asynccontextmanager
async def _http_connection(
    config: McpServerConfig, on_response: Callable[[httpx2.Response], Awaitable[None]]
) -> AsyncIterator[TransportStreams]:
    """Yield the messages from and to a server at an address."""
    url = config.url or ""
    local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
    async with (
        httpx2.AsyncClient(
            headers=dict(config.headers),
            timeout=httpx2.Timeout(None, connect=30.0),
            verify=tls_context() if url.startswith("https:") else False,
            trust_env=not local,
            event_hooks={"response": [on_response]},
        ) as client,
        streamable_http_client(url, http_client=client, max_sse_event_size=LONGEST_MESSAGE) as streams,
    ):
        yield streams


@asynccontextmanager
async def _unbounded(
    connection: AbstractAsyncContextManager[TransportStreams],
) -> AsyncIterator[TransportStreams]:
    """Yield the same messages, but let no sender wait. The library tells the server of each cancelled call
    under a shield of five seconds, which may be longer than the gateway has for its shutdown."""
    async with connection as (heard, taken):
        said, waiting = anyio.create_memory_object_stream[Any](math.inf)

        async def pass_on(waiting: Outgoing) -> None:
            async for message in waiting:
                await taken.send(message)

        with said, waiting:
            async with beside(partial(pass_on, waiting)):
                yield heard, said


def _reason(error: BaseException) -> str:
    """Return the reason of an error in words."""
    while isinstance(error, BaseExceptionGroup):
        error = next((one for one in error.exceptions if isinstance(one, GatewayError)), error.exceptions[0])
    if isinstance(error, MCPError | GatewayError):
        return str(error).rstrip(".")
    if isinstance(error, trio.TooSlowError):
        return "it does not answer"
    return f"{type(error).__name__}: {error}".rstrip(".: ")
