"""Calls of a platform's API as the contract knows them: each outcome is a result or one error.

| Outcome | `sent`, for a message | `asked`, for a call that the caller repeats or does not need |
|---|---|---|
| the server was not reached | retry for some seconds; then `NotSent`, and the link is lost | `LinkLost` |
| the answer was lost | `OutcomeUnknown` | `LinkLost` |
| the token is refused | `NotSent`, and the link is lost | `LinkLost`, and the link is lost |
| any other refusal | the error that the platform's `refusal` names | the same |

After a refused token the next connection raises `CredentialsRefused`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from typing import ClassVar, Generic, TypeVar, cast

import trio

from hermes_trio.platform import (
    CredentialsRefused,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    PlatformError,
    Refused,
)

from .http_calls import Denied, NoAnswer, NotReached, TooLong

REACH_AGAIN_AFTER = (1.0, 2.0, 4.0)

_T = TypeVar("_T")
_D = TypeVar("_D", bound=Denied)
Call = Callable[[], Awaitable[_T]]


class ContractCalls(ABC, Generic[_D]):
    """The calls of one link. A call is a function that raises `NotReached`, `NoAnswer`, or a refusal in the
    platform's form of `Denied`."""

    service: ClassVar[str]
    """Name of the platform in the texts of errors."""

    def __init__(self, is_closed: Callable[[], bool], end: Callable[[str], None]) -> None:
        self._is_closed, self._end = is_closed, end

    @abstractmethod
    def refusal(self, no: _D) -> PlatformError:
        """Return the error of the contract for a refusal; `CredentialsRefused` for a refused token."""

    async def sent(self, call: Call[_T]) -> _T:
        """Make a call that sends a message. It is not repeated if it may have had an effect."""
        try:
            return await self.reached(call, NotSent)
        except NoAnswer as error:
            raise OutcomeUnknown(f"{self.service} did not answer: {error}.") from error
        except Denied as no:
            raise self.refused(no, NotSent) from no

    async def asked(self, call: Call[_T]) -> _T:
        """Make a call without any retry."""
        try:
            return await call()
        except (NotReached, NoAnswer) as error:
            raise LinkLost(f"{self.service} did not answer: {error}.") from error
        except Denied as no:
            raise self.refused(no, LinkLost) from no

    async def downloaded(self, call: Call[bytes]) -> bytes:
        """Return a file. Raises `Refused` if it is too long."""
        try:
            return await self.asked(call)
        except TooLong as error:
            raise Refused(f"{self.service}: {error}.") from error

    async def reached(self, call: Call[_T], unreached: type[PlatformError]) -> _T:
        """Call, and retry while the server is not reached: such a call certainly had no effect."""
        for pause in (*REACH_AGAIN_AFTER, None):
            try:
                return await call()
            except NotReached as error:
                if pause is None or self._is_closed():
                    self._end(str(error))
                    raise unreached(f"{self.service} cannot be reached: {error}.") from error
            await trio.sleep(pause)
        raise AssertionError("The last pause is none.")

    def refused(self, no: Denied, unaccepted: type[PlatformError]) -> PlatformError:
        """Return the error of a refusal. A refused token is a connection that is lost (`unaccepted`)."""
        refusal = self.refusal(cast(_D, no))
        if not isinstance(refusal, CredentialsRefused):
            return refusal
        self._end("it no longer accepts the token")
        return unaccepted(f"{self.service} no longer accepts the token.")
