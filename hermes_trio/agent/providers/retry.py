"""Retries: the same model after a pause, then the fallback model, as long as no part of the answer was
yielded. Reasoning and the beginning of a call do not count as a part of the answer.

After a part was yielded, the error is raised as `Interrupted`: only the receiver of that part can decide
whether the answer may begin a second time.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Self

import trio

from ...log import Log
from .model import (
    Item,
    Model,
    ModelReplaced,
    ModelRequest,
    PicturesRefused,
    ReasoningDelta,
    RetryScheduled,
    ToolCallStarted,
)
from .model_errors import Interrupted, ModelError, StreamMalformed

log = Log(__name__)

_BEFORE_THE_ANSWER = PicturesRefused | ReasoningDelta | ToolCallStarted

LONGEST_RETRY_AFTER = 600.0
LONGEST_SILENCE = 300.0
"""Seconds without data, in all attempts together, after which the same model is not retried."""


def pause(attempt: int, error: ModelError, jitter: float) -> float:
    """Return the seconds before the next attempt: those that the server asked for, else growing ones.
    `attempt` is the number of the failed attempt, from 1."""
    if error.after is not None:
        return error.after + jitter
    first, most = (5.0, 120.0) if isinstance(error, StreamMalformed) else (2.0, 60.0)
    delay = min(first * 2.0 ** min(attempt - 1, 30), most)
    return delay * (1 + jitter / 2)


class RetryingModel:
    """A model with retries, which is replaced by the next one if it cannot answer.

    A replacement lasts as long as this object: for the rest of the turn."""

    def __init__(self, models: Sequence[Model], *, retries: int, jitter: Callable[[], float]) -> None:
        self._models = list(models)
        self._retries, self._jitter = retries, jitter

    @property
    def name(self) -> str:
        """Name of the current model."""
        return self._models[0].name

    def stream(self, request: ModelRequest) -> AbstractAsyncContextManager[AsyncIterator[Item]]:
        """Answer the request, with retries."""
        return _Attempts(self, request)

    def next_model(self) -> Model | None:
        """Switch to the next model and return it; None if there is none."""
        if len(self._models) == 1:
            return None
        del self._models[0]
        return self._models[0]

    def pause_after(self, attempt: int, silence: float, error: ModelError) -> float | None:
        """Return the seconds before a retry of the same model; None if a retry is of no use. `silence` counts
        the seconds without data in all attempts so far."""
        if not error.may_retry or attempt > self._retries or silence > LONGEST_SILENCE:
            return None
        if error.after is not None and error.after > LONGEST_RETRY_AFTER:
            return None
        return pause(attempt, error, self._jitter())

    @property
    def model(self) -> Model:
        """The current model."""
        return self._models[0]


class _Attempts:
    """The items of the first attempt that succeeds, after one item for each failed attempt. At most one
    attempt is open at a time; leaving the block closes it."""

    def __init__(self, models: RetryingModel, request: ModelRequest) -> None:
        self._models, self._request = models, request
        self._open: AbstractAsyncContextManager[AsyncIterator[Item]] | None = None
        self._items: AsyncIterator[Item] | None = None
        self._attempt = 0
        self._next_at = -float("inf")
        self._last_data_at = self._silence = 0.0
        self._has_yielded = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        attempt, self._open, self._items = self._open, None, None
        if attempt is not None:
            await attempt.__aexit__(kind, error, trace)  # noqa: ASYNC102 - closes sockets without waiting

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        try:
            if self._items is None:
                await trio.sleep_until(self._next_at)
                self._attempt += 1
                self._last_data_at = trio.current_time()
                attempt = self._models.model.stream(self._request)
                self._items, self._open = await attempt.__aenter__(), attempt
            item = await anext(self._items)
        except ModelError as error:
            self._silence += trio.current_time() - self._last_data_at
            await self.__aexit__(None, None, None)  # noqa: ASYNC120 - if cancelled, nobody waits for the error
            if self._has_yielded:
                raise Interrupted(error) from error
            return self._retry_after(error)
        self._last_data_at = trio.current_time()
        self._has_yielded = self._has_yielded or not isinstance(item, _BEFORE_THE_ANSWER)
        return item

    def _retry_after(self, error: ModelError) -> Item:
        """Plan the next attempt and return the item that says so; raise the error if there is none."""
        seconds = self._models.pause_after(self._attempt, self._silence, error)
        if seconds is not None:
            log.info("model failed; retrying", problem=str(error), attempt=self._attempt, seconds=seconds)
            self._next_at = trio.current_time() + seconds
            return RetryScheduled(seconds, error)
        other = self._models.next_model() if error.may_fall_back else None
        if other is None:
            raise error
        log.warning("model replaced", problem=str(error), model=other.name)
        self._attempt, self._silence, self._next_at = 0, 0.0, -float("inf")
        return ModelReplaced(other.name, error)
