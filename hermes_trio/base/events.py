"""What happens in a run, as values.

These are the events of a run journal and of the API alike: one name, one shape, from the agent to the
page. An event gets its seq when it happens; a name that is not known here is kept and passed over, so
that an older program can read what a newer one wrote.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import msgspec


class Event(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Something that happened in a run. The subclass says what."""

    event: ClassVar[str]


class MessageDelta(Event, frozen=True):
    """A piece of the answer."""

    event: ClassVar[str] = "message.delta"
    delta: str


class ReasoningAvailable(Event, frozen=True):
    """A piece of what the model thought before it answered; shown, never sent to a model again."""

    event: ClassVar[str] = "reasoning.available"
    text: str


class ToolStarted(Event, frozen=True):
    """A tool call began. The call id joins it to its end."""

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
    """A person's yes is needed before something is done. The run waits for it. Clients read each field."""

    event: ClassVar[str] = "approval.request"
    approval_id: str
    command: str = ""
    """What would be done, every character of it; what cannot be seen is written as ⟨U+202E⟩."""
    description: str = ""
    """Why that needs a yes."""
    cwd: str = ""
    """The directory in which the command would run, or the file that would be changed."""
    choices: Sequence[str] = ("once", "session", "always", "deny")
    allow_permanent: bool = True


class QuestionRequest(Event, frozen=True):
    """A person is asked something. The run waits for the answer."""

    event: ClassVar[str] = "question.request"
    question_id: str
    question: str = ""
    choices: Sequence[str] = ()


class RequestClosed(Event, frozen=True):
    """Nobody waits for this answer any more: it was given, or patience ended."""

    event: ClassVar[str] = "request.closed"
    request_id: str
    answer: str | None = None


class RunCompleted(Event, frozen=True):
    """The run gave its answer."""

    event: ClassVar[str] = "run.completed"
    output: str = ""
    usage: Mapping[str, int] = {}


class RunFailed(Event, frozen=True):
    """The run ended without an answer: it failed, timed out, or, with code `interrupted`, was cut. Where the
    model did not answer, the code is that of its error."""

    event: ClassVar[str] = "run.failed"
    error: str = ""
    code: str = "failed"
    retry_after: float | None = None
    """Seconds after which the model's server wants to be asked again."""


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
