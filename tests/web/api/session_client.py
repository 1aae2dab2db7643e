"""Helpers for tests of the sessions API."""

from __future__ import annotations

from typing import Any


def rows(read: dict[str, Any]) -> list[tuple[str, str]]:
    return [(row["role"], row["content"]) for row in read["messages"]]
