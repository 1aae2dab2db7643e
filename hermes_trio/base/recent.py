"""A mapping that keeps only its latest entries."""

from __future__ import annotations

from collections import UserDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(UserDict[K, V]):
    """A mapping of at most `limit` entries. Setting a key makes it the latest; the oldest one is dropped."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.limit = limit

    def __setitem__(self, key: K, value: V) -> None:
        self.data.pop(key, None)
        self.data[key] = value
        if len(self.data) > self.limit:
            del self.data[next(iter(self.data))]
