"""A cache with a limit in bytes. What was used longest ago is dropped first."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

V = TypeVar("V")


class ByteCache(Generic[V]):
    """Values by key, with their sizes."""

    def __init__(self, most_bytes: int) -> None:
        self.size = 0
        """The bytes of all values, about."""
        self._most_bytes = most_bytes
        self._kept: OrderedDict[str, tuple[V, int]] = OrderedDict()

    def get(self, key: str) -> V | None:
        """Return the value of this key; None if it is not in the cache."""
        value, _ = self._kept.get(key, (None, 0))
        return value

    def put(self, key: str, value: V, size: int) -> None:
        """Keep this value, and drop others if there are too many."""
        self.drop(key)
        self._kept[key] = value, size
        self.size += size
        while self.size > self._most_bytes:
            self.drop(next(iter(self._kept)))

    def drop(self, key: str) -> None:
        """Forget the value of this key."""
        _, size = self._kept.pop(key, (None, 0))
        self.size -= size
