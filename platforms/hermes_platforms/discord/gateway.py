"""The connection to Discord's gateway: dispatches in their order, over as many connections as it takes.

Discord closes connections every few hours, and a resumed session misses nothing. So a connection that is lost
is replaced here, at once and then with pauses of about 40 seconds in all, before the link counts as lost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass

import trio
from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.trio.client import ClientConnection, connect

from hermes_trio import World
from hermes_trio.platform import CredentialsRefused, LinkLost, Log, PlatformError

from ..beside import open_beside
from ..http_calls import is_local, tls_context
from .api import Denied, DiscordApi, NoAnswer, NotReached
from .session import FINAL, INTENTS_REFUSED, TOKEN_REFUSED, BrokenFrame, Dispatch, Session, interval_of

CONNECT_AGAIN_AFTER = (0.0, 1.0, 2.0, 5.0, 10.0, 20.0)
GREETED_WITHIN = 20.0
OPEN_WITHIN = 15.0
CLOSED_WITHIN = 1.0
LARGEST_FRAME = 64 << 20
"""Bytes of a frame. The state of a large server comes in one."""
MOST_WAITING = 20_000
"""Dispatches that wait while the store takes nothing."""
RESUMABLE = 4000
"""Close code that leaves the session alive; 1000 and 1001 would end it."""

log = Log(__name__)


class RefusedByGateway(CredentialsRefused):
    """Discord accepts the token, and no connection of this bot as it is set up."""

    def __init__(self, platform: str, code: int) -> None:
        remedy = (
            "Enable the Message Content Intent on the Bot page of the developer portal, or set "
            f"platforms.{platform}.message_content: false and require_mention: true; then restart"
            if code == INTENTS_REFUSED
            else "This version of hermes-trio cannot serve it"
        )
        super().__init__(platform)
        self.args = (f"Discord refuses the bot: {FINAL[code]} (code {code}). {remedy}.",)


class _Connection(ClientConnection):
    """A connection that leaves the session alive when it is closed."""

    async def aclose(self, code: int = RESUMABLE, reason: str = "") -> None:
        await super().aclose(RESUMABLE, reason)


@dataclass(frozen=True, slots=True)
class _Loss:
    """Why a connection is of no use any more."""

    why: str
    code: int | None = None


class Gateway:
    """The dispatches of a bot."""

    def __init__(
        self,
        api: DiscordApi,
        session: Session,
        platform: str,
        *,
        jitter: Callable[[], float] | None = None,
    ) -> None:
        self.session = session
        self._api, self._platform, self._jitter = api, platform, jitter or World().jitter
        self._waiting, self._come = trio.open_memory_channel[Dispatch](MOST_WAITING)
        self._loss: PlatformError = LinkLost("The connections are closed.")
        self._started = False
        self._scope = trio.CancelScope()

    async def next(self) -> Dispatch:
        """Wait for the next dispatch. Raises `LinkLost` or `CredentialsRefused`."""
        try:
            return await self._come.receive()
        except (trio.EndOfChannel, trio.ClosedResourceError):
            raise self._loss from None

    def end(self, why: str) -> None:
        """Let the current and later calls of `next` raise `LinkLost`."""
        self._loss = LinkLost(f"Discord cannot be reached: {why}.")
        self._waiting.close()
        self._scope.cancel(reason=why)

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Stay connected. The task has started once Discord has begun or resumed the session; until then it
        raises what is wrong, later `next` does."""
        pauses = iter(CONNECT_AGAIN_AFTER)
        with self._scope, self._waiting:
            while True:
                resumes, begun_at = self.session.id is not None, trio.current_time()
                try:
                    loss = await self._connection(task_status)
                except PlatformError as error:
                    if not self._started:
                        raise
                    self._loss = error
                    return
                is_forgotten = resumes and self.session.id is None
                if trio.current_time() - begun_at >= CONNECT_AGAIN_AFTER[-1]:
                    pauses = iter(CONNECT_AGAIN_AFTER)
                pause = next(pauses, None)
                if pause is None or not (self._started or is_forgotten):
                    self._loss = LinkLost(f"Discord cannot be reached: {loss.why}.")
                    if not self._started:
                        raise self._loss
                    return
                log.info("gateway connection lost; connecting again", platform=self._platform, why=loss.why)
                await trio.sleep(pause)

    async def _connection(self, task_status: trio.TaskStatus[None]) -> _Loss:
        """Use one connection until it is lost. Raises a `PlatformError` if another one would not help."""
        url = self.session.resume_url if self.session.id else None
        try:
            loss = await self._talk(url or await self._address(), task_status)
        except (NotReached, NoAnswer, Denied) as error:
            if isinstance(error, Denied) and error.status == 401:
                raise CredentialsRefused(self._platform) from error
            return _Loss(str(error))
        except (OSError, WebSocketException) as error:
            return _Loss(f"{type(error).__name__} while connecting")
        if self.session.closed(loss.code) is not None and loss.code is not None:
            raise _refusal(self._platform, loss.code)
        return loss

    async def _address(self) -> str:
        """Return the address for a new session. Raises `LinkLost` if Discord allows none today: it would
        take the token away."""
        found = await self._api.call("GET", "/gateway/bot", within=OPEN_WITHIN)
        try:
            limit, url = found.get("session_start_limit", {}), str(found["url"])
            remaining, reset_after = limit.get("remaining", 1), float(limit.get("reset_after", 0)) / 1000
        except (KeyError, TypeError, ValueError, AttributeError):
            raise LinkLost("The server names no gateway: is it Discord's API?") from None
        if isinstance(remaining, int) and remaining <= 0:
            raise LinkLost(f"Discord allows no new session for {reset_after:g} seconds.")
        return url

    async def _talk(self, url: str, task_status: trio.TaskStatus[None]) -> _Loss:
        async with connect(
            f"{url.rstrip('/')}/?v=10&encoding=json",
            ssl=tls_context() if url.startswith("wss:") else None,
            proxy=None if is_local(url) else True,
            create_connection=_Connection,
            open_timeout=OPEN_WITHIN,
            close_timeout=CLOSED_WITHIN,
            ping_interval=None,
            max_size=LARGEST_FRAME,
        ) as socket:
            greeting: str | bytes = ""
            with trio.move_on_after(GREETED_WITHIN):
                greeting = await socket.recv()
            interval = interval_of(greeting)
            if interval is None:
                return _Loss("the gateway does not greet")
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._beat, socket, interval)
                loss = await self._read(socket, greeting, task_status)
                nursery.cancel_scope.cancel(reason="the connection is lost")
            return loss

    async def _read(
        self, socket: ClientConnection, frame: str | bytes, task_status: trio.TaskStatus[None]
    ) -> _Loss:
        """Handle frames until the connection is lost."""
        while True:
            try:
                reaction = self.session.received(frame)
                if reaction.send is not None:
                    await socket.send(reaction.send)
                if reaction.deliver is not None:
                    self._waiting.send_nowait(reaction.deliver)
                    if not self._started:
                        self._started = True
                        task_status.started()
                if reaction.lost is not None:
                    return _Loss(reaction.lost)
                frame = await socket.recv()
            except ConnectionClosed as closed:
                code = closed.rcvd.code if closed.rcvd else None
                return _Loss(f"the connection was closed (code {code})", code)
            except (BrokenFrame, trio.WouldBlock) as error:
                return _Loss(str(error) or "more events wait than can be stored")

    async def _beat(self, socket: ClientConnection, interval: float) -> None:
        """Send heartbeats. A connection on which the last one was not answered is dead, and is closed."""
        await trio.sleep(interval * self._jitter())
        while self.session.is_beaten:
            self.session.is_beaten = False
            try:
                await socket.send(self.session.heartbeat())
            except ConnectionClosed:
                return
            await trio.sleep(interval)
        log.info("heartbeat not answered", platform=self._platform)
        await socket.aclose()


def _refusal(platform: str, code: int) -> CredentialsRefused:
    return CredentialsRefused(platform) if code == TOKEN_REFUSED else RefusedByGateway(platform, code)


@asynccontextmanager
async def open_gateway(api: DiscordApi, session: Session, platform: str) -> AsyncIterator[Gateway]:
    """Be connected while inside. Raises `CredentialsRefused` or `LinkLost`."""
    gateway = Gateway(api, session, platform)
    async with open_beside("the link is closed") as nursery:
        await nursery.start(gateway.run)
        yield gateway
