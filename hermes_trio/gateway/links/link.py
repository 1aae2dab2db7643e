"""Links: the live connections to the platforms, one task for each.

The task of a link connects, receives, and connects again when the connection is lost. Its errors never end
another link. A store that fails, as on a full disk, is no failure of the platform: the link stays up, keeps
the message that could not be stored, does not acknowledge it, and tries to store it again.

A task that sends asks the `Connection` for the current link, and waits if there is none. This module may
touch adapters, the status board, and the texts that adapters keep; it knows no chat and no session.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar, cast

import trio

from ...base.errors import GatewayError, InvalidId, StoreError, error_text, is_expected
from ...base.messages import MessageEvent
from ...base.pulse import Pulse
from ...base.world import World
from ...host.home.state_file import PlatformState
from ...host.home.status_board import StatusBoard
from ...log import Log
from ...masking.redaction import KnownSecrets
from ...platform.contract import (
    Adapter,
    CredentialsRefused,
    Link,
    LinkLost,
    OutcomeUnknown,
    PlatformError,
    RememberingAdapter,
)
from ...state.db.database import Database
from ...state.db.store_retry import stored
from ...state.tables import meta

_E = TypeVar("_E", bound=Exception)
_T = TypeVar("_T")

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 300.0
STORE_AGAIN_AFTER = 1.0
"""Seconds until a link tries again to store an event that the disk did not take."""

log = Log(__name__)


class Connection:
    """One account on one platform, and the link to it while there is one."""

    def __init__(self, adapter: Adapter, board: StatusBoard, secrets: KnownSecrets) -> None:
        self.adapter = adapter
        self._board, self._secrets = board, secrets
        self.link: Link | None = None
        self.state = PlatformState.CONNECTING
        self.times_up = 0
        """Number of times it was connected."""
        self._changed = Pulse()

    @property
    def address(self) -> tuple[str, str]:
        """The platform and the account."""
        return self.adapter.name, self.adapter.account

    @property
    def name(self) -> str:
        """Its name in logs."""
        return f"{self.adapter.name}/{self.adapter.account}"

    def problem(self, error: BaseException) -> str:
        """Return the text of an error of this platform with secrets masked: an address may hold a token."""
        return self._secrets.masking(error_text(error))

    async def up(self) -> Link:
        """Return the link; wait until there is one."""
        while self.link is None:
            await self._changed.wait()
        return self.link

    async def decided(self) -> None:
        """Wait until the first attempt to connect has succeeded or failed."""
        while self.state is PlatformState.CONNECTING:
            await self._changed.wait()

    def becomes(self, state: PlatformState, link: Link | None = None, trouble: str | None = None) -> None:
        """Set the state and the link, and wake the tasks that wait for a change."""
        self.state, self.link = state, link
        self.times_up += link is not None
        self._board.set_platform(
            self.adapter.name, state, self._secrets.masking(trouble) if trouble else trouble
        )
        self._changed.set()

    async def stored(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do work that stores something; repeat it while the store fails. The state file shows the
        trouble."""
        return await stored(
            "platform event",
            work,
            pause=STORE_AGAIN_AFTER,
            on_change=self._show_store_trouble,
            platform=self.name,
        )

    def _show_store_trouble(self, trouble: StoreError | None) -> None:
        state = self.state if trouble is None else PlatformState.RETRYING
        self._board.set_platform(self.adapter.name, state, str(trouble) if trouble is not None else None)


@dataclass(frozen=True, slots=True)
class AdapterMemory:
    """The text that an adapter keeps, in the database of the home."""

    connection: Connection
    database: Database

    async def recall(self) -> str | None:
        """As `Memory.recall`."""
        return await self.connection.stored(partial(self.database.read, meta.get, self._name))

    async def keep(self, text: str) -> None:
        """As `Memory.keep`. While the disk takes nothing it waits, and the adapter reads no further."""
        await self.connection.stored(partial(self.database.write, meta.put, self._name, text))

    @property
    def _name(self) -> str:
        return "adapter:" + ":".join(self.connection.address)

    def connect(self) -> AbstractAsyncContextManager[Link]:
        """Connect the adapter, with this memory if it needs one."""
        adapter = self.connection.adapter
        if adapter.traits.remembers:
            return cast(RememberingAdapter, adapter).connect(self)
        return adapter.connect()


def pause(attempt: int, jitter: float) -> float:
    """Return the seconds until the next attempt. They double each time; `jitter` keeps the platforms from
    connecting all at once."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 10))
    return longest * (1 + jitter / 4)


class _CoreMistake(Exception):
    """Carries an error of the core through the blocks of an adapter."""


def _checked(event: MessageEvent, connection: Connection) -> MessageEvent:
    """Return an event as an adapter has received it, checked against the contract. Raises an error, which
    counts as the adapter's, for an event of another connection or with wrong values."""
    if (event.source.platform, event.source.account) != connection.address:
        raise ValueError(f"{connection.name} received an event of {event.source.platform}")
    return MessageEvent.from_dict(event.to_dict())


async def _accepted(
    connection: Connection, accept: Callable[[MessageEvent], Awaitable[None]], event: MessageEvent
) -> None:
    """Take in an event. It is acknowledged only after it was stored."""
    try:
        await connection.stored(partial(accept, event))
    except InvalidId as error:
        # Unacknowledged, it would come again for ever and block all later events.
        log.error("event dropped; invalid ids", platform=event.source.platform, error=str(error))
    except GatewayError as error:
        raise LinkLost(str(error)) from error
    except Exception as error:  # must not be taken for an error of the adapter around us
        raise _CoreMistake from error


async def _take_in(
    events: AsyncIterator[MessageEvent],
    connection: Connection,
    accept: Callable[[MessageEvent], Awaitable[None]],
) -> None:
    """Take in all events of a link, in order, until the adapter has no more."""
    async with AsyncExitStack() as leaving:
        if isinstance(events, AsyncGenerator):  # must be closed by the task that leaves it
            leaving.push_async_callback(events.aclose)
        async for event in events:
            await _accepted(connection, accept, _checked(event, connection))


def _within(error: Exception, kind: type[_E]) -> _E | None:
    """Return the first error of this kind, bare or in a group: an adapter may have nurseries of its own."""
    if isinstance(error, ExceptionGroup):
        found = (_within(inner, kind) for inner in error.exceptions)
        return next((inner for inner in found if inner is not None), None)
    return error if isinstance(error, kind) else None


@contextmanager
def _cancelled_apart(connection: Connection) -> Iterator[None]:
    """Separate cancellation from errors that an adapter raises while it is cancelled.

    An adapter may have nurseries of its own, and one of its tasks may fail while they are cancelled. Its
    error then comes in one group with the Cancelled of the other tasks. The error is logged, and the
    Cancelled goes on alone: else the cancel scope would take the Cancelled out of the group, and the error
    would go on to code that expects none."""
    try:
        yield
    except BaseExceptionGroup as group:
        mistakes, rest = group.split(Exception)
        if mistakes is None or rest is None or _within(mistakes, _CoreMistake):
            raise
        log.warning(
            "adapter failed while cancelled",
            platform=connection.adapter.name,
            error=error_text(mistakes),
            exc_info=None if is_expected(mistakes) else mistakes,
        )
        raise rest from None


@contextmanager
def calling(connection: Connection) -> Iterator[None]:
    """Make a call of a link in this block. It raises the errors of the contract; any other error of an
    adapter becomes `OutcomeUnknown`, because it does not say whether the call had its effect."""
    try:
        with _cancelled_apart(connection):
            yield
    except GatewayError:
        raise
    except Exception as error:  # an adapter may be written by anybody
        if known := _within(error, PlatformError):
            raise known from error
        log.exception("adapter raised an unexpected error", platform=connection.adapter.name)
        mistake = f"{type(error).__name__}: {connection.problem(error)}"
        raise OutcomeUnknown(f"the adapter raised an unexpected error: {mistake}") from error


def _note_loss(connection: Connection, error: Exception) -> None:
    """Note that a link is lost: for good if the platform refused our credentials."""
    if refusal := _within(error, CredentialsRefused):
        log.error("credentials refused by the platform", platform=connection.adapter.name, error=str(refusal))
        connection.becomes(PlatformState.FATAL, trouble=str(refusal))
        return
    lost = _within(error, LinkLost)
    why = error_text(lost or error)
    log.warning(
        "link lost",
        platform=connection.adapter.name,
        error=why,
        exc_info=lost is None and not is_expected(error),
    )
    connection.becomes(PlatformState.RETRYING, trouble=why)


async def keep_connected(
    connection: Connection,
    on_up: Callable[[Connection], Awaitable[None]],
    may_receive: Callable[[], Awaitable[None]],
    accept: Callable[[MessageEvent], Awaitable[None]],
    world: World,
    database: Database,
) -> None:
    """Stay connected until cancelled, or until the platform refuses the credentials. `on_up` has returned
    before the first event is taken in, so that work of an earlier time comes first; `may_receive` too.

    A successful connection does not reset the pauses: two programs that use one bot both connect, and
    disconnect each other a moment later. The pauses begin anew after a link that lasted at least as long as
    the next pause."""
    attempt, memory = 0, AdapterMemory(connection, database)
    while True:
        wait, up_at = pause(attempt, world.jitter()), math.inf
        try:
            with _cancelled_apart(connection):
                async with memory.connect() as link:
                    up_at = trio.current_time()
                    connection.becomes(PlatformState.CONNECTED, link)
                    await connection.stored(partial(on_up, connection))
                    await connection.stored(may_receive)
                    await _take_in(link.receive(), connection, accept)
            raise LinkLost("the connection was closed")
        except Exception as error:
            # An error of an adapter ends its own link only. A mistake of the core is not an adapter's.
            if _within(error, _CoreMistake):
                raise
            _note_loss(connection, error)
            if connection.state is PlatformState.FATAL:
                return
        finally:
            connection.link = None
        if trio.current_time() - up_at >= wait:
            attempt, wait = 0, pause(0, world.jitter())
        await trio.sleep(wait)
        attempt += 1
