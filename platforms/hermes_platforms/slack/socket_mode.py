"""Socket Mode: the envelopes of an app, over as many connections as it takes.

Slack closes each connection after some hours, and says so before it does: then the next one is opened first,
and both are read until the old one ends. A connection that is lost is replaced at once and then with pauses
of about 40 seconds in all, before the link counts as lost. An envelope is acknowledged on the connection on
which it came. If that has ended, Slack delivers the event again.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import trio
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.trio.client import ClientConnection, connect

from hermes_trio.platform import CredentialsRefused, LinkLost, Log, PlatformError

from ..beside import open_beside
from ..http_calls import is_local, tls_context
from .api import Denied, NoAnswer, NotReached, SlackApi

CONNECT_AGAIN_AFTER = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
STEADY_AFTER = 20.0
"""Seconds after which a connection counts as a good one, and the pauses begin anew."""
READ_OLD_FOR = 60.0
"""Seconds for which a connection is read after another one was opened in its place."""
OPEN_WITHIN = 15.0
GREETED_WITHIN = 20.0
CLOSED_WITHIN = 1.0
BEAT = 15.0
"""Seconds between our pings, and for the answer to one."""
MOST_WAITING = 1000
"""Envelopes that wait while the store takes nothing. Then no more are read."""
log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Envelope:
    """A delivery of Slack."""

    kind: str
    payload: Any
    id: str
    connection: ClientConnection = field(repr=False, compare=False)

    async def acknowledge(self) -> None:
        """Tell Slack that the event is stored, if the connection is there: it is delivered again if not."""
        try:
            await self.connection.send(json.dumps({"envelope_id": self.id}))
        except ConnectionClosed:
            log.info("envelope not acknowledged; its connection has ended")


class SocketMode:
    """The deliveries to an app."""

    def __init__(self, api: SlackApi, platform: str) -> None:
        self._api, self._platform = api, platform
        self._waiting, self._come = trio.open_memory_channel[Envelope](MOST_WAITING)
        self._loss: PlatformError = LinkLost("The connections are closed.")
        self._scope = trio.CancelScope()

    async def next(self) -> Envelope:
        """Wait for the next envelope. Raises `LinkLost` or `CredentialsRefused`."""
        try:
            return await self._come.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise self._loss from None

    def end(self, why: str) -> None:
        """Let the current and later calls of `next` raise `LinkLost`."""
        self._loss = LinkLost(f"Slack cannot be reached: {why}.")
        self._waiting.close()
        self._scope.cancel(reason=why)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stay connected. The task has started once Slack greets; until then it raises what is wrong, later
        `next` does."""
        with self._scope, self._waiting:
            async with trio.open_nursery() as connections:
                connection = await self._connected(connections, iter((0.0,)))
                task_status.started()
                try:
                    pauses = iter(CONNECT_AGAIN_AFTER)
                    while True:
                        since = trio.current_time()
                        await connection.is_old.wait()
                        log.info("connection replaced", platform=self._platform, why=connection.why)
                        if trio.current_time() - since >= STEADY_AFTER:
                            pauses = iter(CONNECT_AGAIN_AFTER)
                        connection = await self._connected(connections, pauses)
                except PlatformError as error:
                    self._loss = error
                    connections.cancel_scope.cancel(reason="no connection can be made")

    async def _connected(self, connections: trio.Nursery, pauses: Iterator[float]) -> _Connection:
        """Return a connection on which Slack has greeted, with an attempt after each pause. Raises `LinkLost`
        or `CredentialsRefused`."""
        why = "it ends connections at once"
        for pause in pauses:
            await trio.sleep(pause)
            try:
                connection = _Connection(await self._address(), self._waiting)
                await connections.start(connection.run)
                return connection
            except (_Lost, OSError, WebSocketException) as error:
                why = str(error) if isinstance(error, _Lost) else f"{type(error).__name__} while connecting"
        raise LinkLost(f"Slack cannot be reached: {why}.")

    async def _address(self) -> str:
        """Return the address of a connection. It is good once, and a secret."""
        try:
            opened = await self._api.call("apps.connections.open", within=OPEN_WITHIN)
        except Denied as no:
            if no.refuses_token or no.error == "missing_scope":
                raise CredentialsRefused(self._platform, "app_token") from no
            raise _Lost(str(no)) from no
        except (NotReached, NoAnswer) as error:
            raise _Lost(str(error)) from error
        return str(opened.get("url", ""))


class _Lost(Exception):
    """A connection is of no use any more."""


class _Connection:
    """One connection."""

    def __init__(self, url: str, waiting: trio.MemorySendChannel[Envelope]) -> None:
        self._url, self._waiting = url, waiting
        self._scope = trio.CancelScope()
        self.is_old = trio.Event()
        """Set when another connection is needed."""
        self.why = ""

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Read envelopes until the connection ends. The task has started once Slack greets; until then it
        raises what is wrong."""
        async with connect(
            self._url,
            ssl=tls_context() if self._url.startswith("wss:") else None,
            proxy=None if is_local(self._url) else True,
            open_timeout=OPEN_WITHIN,
            close_timeout=CLOSED_WITHIN,
            ping_interval=BEAT,
            ping_timeout=BEAT,
        ) as socket:
            greeting: dict[str, Any] = {}
            with trio.move_on_after(GREETED_WITHIN):
                greeting = await _frame(socket)
            if greeting.get("type") != "hello":
                raise _Lost("the server does not greet")
            task_status.started()
            with self._scope:
                try:
                    await self._read(socket)
                except _Lost as lost:
                    self._grows_old(str(lost))

    async def _read(self, socket: ClientConnection) -> None:
        while True:
            frame = await _frame(socket)
            kind, envelope_id = frame.get("type"), frame.get("envelope_id")
            if kind == "disconnect":
                self._grows_old(str(frame.get("reason")))
            elif isinstance(kind, str) and isinstance(envelope_id, str):
                await self._waiting.send(Envelope(kind, frame.get("payload"), envelope_id, socket))

    def _grows_old(self, why: str) -> None:
        if not self.is_old.is_set():
            self.why = why
            self._scope.deadline = trio.current_time() + READ_OLD_FOR
            self.is_old.set()


async def _frame(socket: ClientConnection) -> dict[str, Any]:
    """Return the next frame. Raises `_Lost`."""
    try:
        frame = json.loads(await socket.recv())
    except ConnectionClosed as closed:
        raise _Lost(f"the connection was closed (code {closed.rcvd.code if closed.rcvd else None})") from None
    except (ValueError, RecursionError) as error:
        raise _Lost(f"{type(error).__name__} in a frame") from None
    if not isinstance(frame, dict):
        raise _Lost("a frame without a type")
    return frame


@asynccontextmanager
async def open_socket_mode(api: SlackApi, platform: str) -> AsyncIterator[SocketMode]:
    """Be connected while inside. Raises `CredentialsRefused` or `LinkLost`."""
    socket_mode = SocketMode(api, platform)
    async with open_beside("the link is closed") as nursery:
        await nursery.start(socket_mode.run)
        yield socket_mode
