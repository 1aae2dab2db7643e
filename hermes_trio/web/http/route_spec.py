"""Routes as data: one line for each route, grouped by the class that has the handlers.

The lines need no gateway, so the OpenAPI description and the documentation are made from them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

import msgspec
from starlette.requests import Request
from starlette.types import ASGIApp

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RouteSpec(Generic[T]):
    """One line of the table of routes."""

    method: str
    path: str
    handler: Callable[[T, Request], Awaitable[ASGIApp]]
    """A method of the group's class. Its docstring is the description of the route."""
    takes: type[msgspec.Struct] | None = None
    """The type of the request's body."""
    is_open: bool = False
    """True if the route needs neither key nor log-in."""
    anywhere: bool = False
    """True if every gateway answers it from the store, whoever owns the chat of its session."""
    may_be_gone: bool = False
    """True if a client on this machine may close the connection before the answer: see `owner`."""


@dataclass(frozen=True, slots=True)
class RouteGroup(Generic[T]):
    """The routes of one class of handlers."""

    handlers: type[T]
    specs: tuple[RouteSpec[T], ...]
