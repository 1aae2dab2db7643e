"""A mapping that keeps only its latest entries."""

from __future__ import annotations

from collections import UserDict
from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(UserDict[K, V]):
    """A mapping of at most `most` entries. Setting a key makes it the latest; the oldest one is dropped."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self.most = most

    def __setitem__(self, key: K, value: V) -> None:
        self.data.pop(key, None)
        self.data[key] = value
        if len(self.data) > self.most:
            del self.data[next(iter(self.data))]
