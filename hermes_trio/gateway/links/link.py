"""Links: the live connections to the platforms, one task for each.

A link's task connects, receives, and connects again when the connection is lost; it never takes another
link down. A store that fails, as on a full disk, is no failure of the platform: the link stays up, keeps
the message that could not be stored, unacknowledged, and tries to store it again.

Who wants to send asks the `Connection` for the link there is, and waits if there is none.
"""

from __future__ import annotations

import math
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial
from typing import TypeVar

import trio

from ...base.errors import GatewayError, InvalidId, StoreError, error_text, is_expected
from ...base.messages import MessageEvent
from ...base.pulse import Pulse
from ...base.world import World
from ...host.home.state_file import PlatformState
from ...host.home.status_board import StatusBoard
from ...log import Log
from ...masking.known_secrets import KnownSecrets
from ...platform.contract import Adapter, CredentialsRefused, Link, LinkLost, OutcomeUnknown, PlatformError
from ...state.db.store_retry import stored

_E = TypeVar("_E", bound=Exception)
_T = TypeVar("_T")

FIRST_PAUSE = 30.0
LONGEST_PAUSE = 300.0
STORE_AGAIN_AFTER = 1.0
"""Seconds until a link tries again to store what the disk did not take."""

log = Log(__name__)


class Connection:
    """One account on one platform, and the link to it while there is one."""

    def __init__(self, adapter: Adapter, board: StatusBoard, secrets: KnownSecrets) -> None:
        self.adapter = adapter
        self._board, self._secrets = board, secrets
        self.link: Link | None = None
        self.state = PlatformState.CONNECTING
        self.times_up = 0
        """How often it was connected."""
        self._changed = Pulse()

    @property
    def address(self) -> tuple[str, str]:
        """The platform and the account."""
        return self.adapter.name, self.adapter.account

    @property
    def name(self) -> str:
        """What to call it in logs."""
        return f"{self.adapter.name}/{self.adapter.account}"

    def problem(self, error: BaseException) -> str:
        """The message of an error of this platform, without secrets: addresses with a token in them, above
        all."""
        return self._secrets.masking(error_text(error))

    async def up(self) -> Link:
        """The link, as soon as there is one."""
        while self.link is None:
            await self._changed.wait()
        return self.link

    async def decided(self) -> None:
        """Wait until the first attempt to connect has come to something."""
        while self.state is PlatformState.CONNECTING:
            await self._changed.wait()

    def becomes(self, state: PlatformState, link: Link | None = None, trouble: str | None = None) -> None:
        """Note what has become of it, and wake who waits."""
        self.state, self.link = state, link
        self.times_up += link is not None
        self._board.set_platform(
            self.adapter.name, state, self._secrets.masking(trouble) if trouble else trouble
        )
        self._changed.set()

    async def stored(self, work: Callable[[], Awaitable[_T]]) -> _T:
        """Do work that stores something; do it again while the store fails. The state file says so."""
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


def pause(attempt: int, jitter: float) -> float:
    """Seconds until the next attempt: doubling, and not all platforms at once."""
    longest: float = min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(attempt, 10))
    return longest * (1 + jitter / 4)


class _CoreMistake(Exception):
    """A mistake in the core, on its way through an adapter's blocks."""


def _checked(event: MessageEvent, connection: Connection) -> MessageEvent:
    """What an adapter says that it has received, if it is as the contract says, and from there. Raises
    whatever comes of it if it is not, which is trouble of the adapter."""
    if (event.source.platform, event.source.account) != connection.address:
        raise ValueError(f"{connection.name} has received something of {event.source.platform}")
    return MessageEvent.from_dict(event.to_dict())


async def _accepted(
    connection: Connection, accept: Callable[[MessageEvent], Awaitable[None]], event: MessageEvent
) -> None:
    """Take an event in. What cannot be stored, as on a full disk, is not acknowledged until it is."""
    try:
        await connection.stored(partial(accept, event))
    except InvalidId as error:
        # It would come again for ever, and nothing behind it would get through.
        log.error(
            "a message is dropped: its ids make no key", platform=event.source.platform, error=str(error)
        )
    except GatewayError as error:
        raise LinkLost(str(error)) from error
    except Exception as error:  # a mistake of ours is not to be taken for one of the adapter around us
        raise _CoreMistake from error


async def _take_in(
    events: AsyncIterator[MessageEvent],
    connection: Connection,
    accept: Callable[[MessageEvent], Awaitable[None]],
) -> None:
    """Take in what is received, until there is no more."""
    async with AsyncExitStack() as leaving:
        if isinstance(events, AsyncGenerator):  # which is to be closed by who leaves it
            leaving.push_async_callback(events.aclose)
        async for event in events:
            await _accepted(connection, accept, _checked(event, connection))


def _within(error: Exception, kind: type[_E]) -> _E | None:
    """The error of this kind, bare or in a group: an adapter may have nurseries of its own."""
    if isinstance(error, ExceptionGroup):
        found = (_within(inner, kind) for inner in error.exceptions)
        return next((inner for inner in found if inner is not None), None)
    return error if isinstance(error, kind) else None


@contextmanager
def _cancelled_apart(connection: Connection) -> Iterator[None]:
    """An adapter may have nurseries of its own, and one of its tasks may fail while they are cancelled. That
    comes in one group with the Cancelled of the others, which goes on alone: whose deadline it is would take
    it out of the group, and the mistake would go on to where nobody expects one."""
    try:
        yield
    except BaseExceptionGroup as group:
        mistakes, rest = group.split(Exception)
        if mistakes is None or rest is None or _within(mistakes, _CoreMistake):
            raise
        log.warning(
            "an adapter failed while cancelled",
            platform=connection.adapter.name,
            error=error_text(mistakes),
            exc_info=None if is_expected(mistakes) else mistakes,
        )
        raise rest from None


@contextmanager
def calling(connection: Connection) -> Iterator[None]:
    """A call of the link is made in here, and raises what the contract names: of what an adapter raises
    beyond that, nobody knows what has come of the call."""
    try:
        with _cancelled_apart(connection):
            yield
    except GatewayError:
        raise
    except Exception as error:  # an adapter is anybody's code
        if known := _within(error, PlatformError):
            raise known from error
        log.exception("an adapter made a mistake", platform=connection.adapter.name)
        mistake = f"{type(error).__name__}: {connection.problem(error)}"
        raise OutcomeUnknown(f"the adapter made a mistake: {mistake}") from error


def _note_loss(connection: Connection, error: Exception) -> None:
    """Note that a link is lost: for good if the platform refused our credentials."""
    if refusal := _within(error, CredentialsRefused):
        log.error("a platform refused us", platform=connection.adapter.name, error=str(refusal))
        connection.becomes(PlatformState.FATAL, trouble=str(refusal))
        return
    lost = _within(error, LinkLost)
    why = error_text(lost or error)
    log.warning(
        "a link is lost",
        platform=connection.adapter.name,
        error=why,
        exc_info=lost is None and not is_expected(error),
    )
    connection.becomes(PlatformState.RETRYING, trouble=why)


async def keep_connected(
    connection: Connection,
    on_up: Callable[[Connection], Awaitable[None]],
    accept: Callable[[MessageEvent], Awaitable[None]],
    world: World,
) -> None:
    """Be connected, for ever, or until the platform refuses us. `on_up` is done with before the first
    message is taken, so that what waits from before comes first.

    To connect is no proof that all is well: two programs that use one bot both connect, and throw each
    other out a moment later. Only a link that has held for as long as the pause it would cost begins anew."""
    attempt = 0
    while True:
        wait, up_at = pause(attempt, world.jitter()), math.inf
        try:
            with _cancelled_apart(connection):
                async with connection.adapter.connect() as link:
                    up_at = trio.current_time()
                    connection.becomes(PlatformState.CONNECTED, link)
                    await connection.stored(partial(on_up, connection))
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
