"""The events of a run, as values.

A run journal, the API and the page use the same events, with the same names and fields. An event gets its
`seq` when it happens. An event with an unknown name is kept and skipped, so an older program can read the
journal of a newer one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that happened in a run; each subclass is one kind of event."""

    event: ClassVar[str]


class MessageDelta(Event, frozen=True):
    """A piece of the answer."""

    event: ClassVar[str] = "message.delta"
    delta: str


class ReasoningAvailable(Event, frozen=True):
    """A piece of the reasoning of the model. It is shown, and never sent to a model again."""

    event: ClassVar[str] = "reasoning.available"
    text: str


class ToolStarted(Event, frozen=True):
    """A tool call began. Its end has the same call id."""

    event: ClassVar[str] = "tool.started"
    tool: str = "tool"
    call_id: str | None = None
    preview: str = ""
    args: Mapping[str, Any] = {}


class ToolCompleted(Event, frozen=True):
    """A tool call ended."""

    event: ClassVar[str] = "tool.completed"
    tool: str | None = None
    call_id: str | None = None
    preview: str = ""
    snippet: str = ""
    error: bool = False
    duration: float | None = None


class ApprovalRequest(Event, frozen=True, omit_defaults=False):
    """A person has to allow something first, and the run waits for that. Clients need every field."""

    event: ClassVar[str] = "approval.request"
    approval_id: str
    command: str = ""
    """The whole command or change. An invisible character is written as its number, such as ⟨U+202E⟩."""
    description: str = ""
    """The reason for which a person has to allow it."""
    cwd: str = ""
    """The directory in which the command would run, or the file that would be changed."""
    grants: Sequence[str] = ()
    """Grants that the command would get beyond its sandbox, such as `network` or `write /srv/www`."""
    choices: Sequence[str] = ("once", "session", "always", "deny")
    allow_permanent: bool = True


class QuestionRequest(Event, frozen=True):
    """A question to a person. The run waits for the answer."""

    event: ClassVar[str] = "question.request"
    question_id: str
    question: str = ""
    choices: Sequence[str] = ()


class RequestClosed(Event, frozen=True):
    """An answer is no longer waited for: it was given, or its deadline passed."""

    event: ClassVar[str] = "request.closed"
    request_id: str
    answer: str | None = None


class RunCompleted(Event, frozen=True):
    """The run ended with an answer."""

    event: ClassVar[str] = "run.completed"
    output: str = ""
    usage: Mapping[str, int] = {}


class RunFailed(Event, frozen=True):
    """The run ended without an answer: it failed, timed out, or was cut (code `interrupted`). If the model
    did not answer, the code is that of the model's error."""

    event: ClassVar[str] = "run.failed"
    error: str = ""
    code: str = "failed"
    retry_after: float | None = None
    """Seconds after which the server of the model allows another request."""


class RunCancelled(Event, frozen=True):
    """A person ended the run."""

    event: ClassVar[str] = "run.cancelled"


INTERRUPTED = "interrupted"
"""The code of a `run.failed` that was not a failure: the gateway cut the run and may resume it."""

KNOWN: Mapping[str, type[Event]] = {
    kind.event: kind
    for kind in (
        MessageDelta,
        ReasoningAvailable,
        ToolStarted,
        ToolCompleted,
        ApprovalRequest,
        QuestionRequest,
        RequestClosed,
        RunCompleted,
        RunFailed,
        RunCancelled,
    )
}
