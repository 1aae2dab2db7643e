"""Asking again: the same model after a while, then another one, as long as nothing of the answer was handed
out. What a model has thought is no part of it, nor is a call that it had only begun to write.

When something was, the error comes out as `Interrupted`: whoever has shown the beginning of an answer knows
what a second beginning would look like; we do not.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

import trio

from ...log import Log
from .model import Item, Model, ModelReplaced, ModelRequest, ReasoningDelta, RetryScheduled, ToolCallStarted
from .model_errors import Interrupted, ModelError, StreamMalformed

log = Log(__name__)

LONGEST_RETRY_AFTER = 600.0
LONGEST_SILENCE = 300.0
"""Seconds of silence, in all attempts together, after which the same model is not asked again."""


def pause(attempt: int, error: ModelError, jitter: float) -> float:
    """Seconds until the next attempt, counted from 1; what the server asked for if it asked."""
    if error.after is not None:
        return error.after + jitter
    first, most = (5.0, 120.0) if isinstance(error, StreamMalformed) else (2.0, 60.0)
    delay = min(first * 2.0 ** min(attempt - 1, 30), most)
    return delay * (1 + jitter / 2)


class RetryingModel:
    """A model that is asked again when it fails, and replaced when it cannot answer.

    The one that could answer is kept for as long as this lives: a turn."""

    def __init__(self, models: Sequence[Model], *, retries: int, jitter: Callable[[], float]) -> None:
        self._models = list(models)
        self._retries, self._jitter = retries, jitter

    @property
    def name(self) -> str:
        return self._models[0].name

    @asynccontextmanager
    async def stream(self, request: ModelRequest) -> AsyncIterator[AsyncIterator[Item]]:
        async with AsyncExitStack() as connection:
            yield _Attempts(self, request, connection)

    def next_model(self) -> Model | None:
        """The one to fall back to, which is the first from here on."""
        if len(self._models) == 1:
            return None
        del self._models[0]
        return self._models[0]

    def pause_after(self, attempt: int, silence: float, error: ModelError) -> float | None:
        """Seconds until the same model is asked again; None if that is of no use. `silence` counts the
        seconds in which nothing came in the attempts so far."""
        if not error.may_retry or attempt > self._retries or silence > LONGEST_SILENCE:
            return None
        if error.after is not None and error.after > LONGEST_RETRY_AFTER:
            return None
        return pause(attempt, error, self._jitter())

    @property
    def model(self) -> Model:
        return self._models[0]


class _Attempts:
    """The items of the first answer that comes; before them, what was done to get it."""

    def __init__(self, models: RetryingModel, request: ModelRequest, connection: AsyncExitStack) -> None:
        self._models, self._request, self._connection = models, request, connection
        self._items: AsyncIterator[Item] | None = None
        self._attempt = 0
        self._next_at = -float("inf")
        self._heard_at = self._silence = 0.0
        self._handed_out = False

    def __aiter__(self) -> _Attempts:
        return self

    async def __anext__(self) -> Item:
        try:
            if self._items is None:
                await trio.sleep_until(self._next_at)
                self._attempt += 1
                self._heard_at = trio.current_time()
                self._items = await self._connection.enter_async_context(
                    self._models.model.stream(self._request)
                )
            item = await anext(self._items)
        except ModelError as error:
            self._silence += trio.current_time() - self._heard_at
            await self._connection.aclose()
            self._items = None
            if self._handed_out:
                raise Interrupted(error) from error
            return self._after(error)
        self._heard_at = trio.current_time()
        self._handed_out = self._handed_out or not isinstance(item, ReasoningDelta | ToolCallStarted)
        return item

    def _after(self, error: ModelError) -> Item:
        """What is done about it; raises the error again if that is nothing."""
        seconds = self._models.pause_after(self._attempt, self._silence, error)
        if seconds is not None:
            log.info("model asked again", problem=str(error), attempt=self._attempt, seconds=seconds)
            self._next_at = trio.current_time() + seconds
            return RetryScheduled(seconds, error)
        other = self._models.next_model() if error.may_fall_back else None
        if other is None:
            raise error
        log.warning("model replaced", problem=str(error), model=other.name)
        self._attempt, self._silence, self._next_at = 0, 0.0, -float("inf")
        return ModelReplaced(other.name, error)
