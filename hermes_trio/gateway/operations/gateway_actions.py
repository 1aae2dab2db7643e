"""The types of the gateway's actions that a caller is handed as functions, bound to one gateway.

Types, and the errors that they name.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from ...base.errors import GatewayError
from ...base.messages import MessageEvent, StoredFile
from ..commands.parse import Command
from ..intake.requests import Posted, StoredRequest
from ..turn.open_question import OpenQuestion


class NotLive(GatewayError):
    """The gateway cannot be restarted live here, or not now."""

    def __init__(self, problem: str) -> None:
        super().__init__(f"No live restart: {problem}. Use `hermes-trio restart` without `--live`.")


@dataclass(frozen=True, slots=True)
class LiveTerms:
    """The patience of a live restart, in seconds."""

    wait: float
    """For a moment without a running turn."""
    grace: float | None
    """For turns that still run then; None for that of the configuration."""
    ready_within: float
    """For the start of the process that takes over."""


OpenQuestions = Callable[[str], Sequence[OpenQuestion]]
"""Returns the open questions of the session with this key, the oldest first."""

StopAndDrop = Callable[[str], Awaitable[tuple[bool, int]]]
"""Stops the turn of the session with this key and drops its waiting messages. Returns whether anything was
going on, and the number of dropped messages."""


class PostMessage(Protocol):
    """Stores a message for the session with this key, and returns what becomes of it. Raises `NoTurnsNow`
    and `TooManyWait`."""

    async def __call__(
        self, key: str, event: MessageEvent, *, mode: Literal["queue", "steer"] = "queue"
    ) -> Posted: ...


class KeepFile(Protocol):
    """Stores a file that a client sent, in the directory of a session."""

    async def __call__(self, session_id: str, file: StoredFile, data: bytes) -> None: ...


class DeliverRequest(Protocol):
    """Wakes the session of a stored message, and returns what becomes of it."""

    async def __call__(
        self, request: StoredRequest, *, mode: Literal["queue", "steer"] = "queue"
    ) -> Posted: ...


class AnswerQuestion(Protocol):
    """Stores the answer to an open question. Returns False if it comes too late."""

    async def __call__(self, question: OpenQuestion, answer: str, *, by: str) -> bool: ...


class ObeyCommand(Protocol):
    """Carries out a command in the session with this key, and adds its output to `replies`."""

    async def __call__(self, command: Command, key: str, event: MessageEvent, replies: list[str]) -> None: ...


class RequestEnding(Protocol):
    """Asks the gateway to end. Returns False if an earlier ending stays in force."""

    def __call__(self, *, restart: bool, grace: float | None, asked_by: str) -> bool: ...


RestartLive = Callable[[LiveTerms], Awaitable[int]]
"""Starts a process that takes over. Returns its pid as soon as it is ready. Raises `GatewayError` if it
fails; then nothing has changed."""
