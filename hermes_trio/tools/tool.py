"""A tool, and the part of a turn that it sees. Packages that bring tools import these names from
`hermes_trio.tools`.

    from hermes_trio.tools import Result, Tool, ToolFailed, Workplace

    class Words(msgspec.Struct, frozen=True):
        text: Annotated[str, Meta(description="The text whose words are counted.")]

    async def count(arguments: Words, place: Workplace) -> Result:
        if not arguments.text.strip():
            raise ToolFailed("text is empty. Call again with some words.")
        return Result(f"{len(arguments.text.split())} words")

    COUNT_WORDS = Tool("count_words", "Counts the words of a text.", Words, count, reads_only=True)

The struct is the schema that a model is shown, and the check of the arguments that it sends. A tool that
cannot do its task raises `ToolFailed` with a sentence that helps the model. Any other exception is reported
to the model too, and the turn goes on. A call runs in the turn's nursery and is cancelled like any other
task; everything that it starts ends with its block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any, Literal, Protocol, TypeVar

import msgspec

from ..base.errors import GatewayError
from ..base.world import World
from ..config.schema import GatewayConfig
from ..host.processes.process_groups import ChildProcess
from ..log import Log
from ..masking.redaction import Masking
from ..state.db.database import Database
from .background_process import BackgroundProcess
from .sandbox.session_sandbox import SessionSandbox
from .sandbox.views import NOTHING, Grants

LONGEST_RUN = 420.0
"""Seconds that a call may take, unless its tool has another limit."""
LONGEST_RESULT = 100_000
"""Characters of one result that a model is sent; each tool shortens its results in its own way to keep this
limit."""

ENTRY_POINTS = "hermes_trio.tools"

log = Log(__name__)


class ToolFailed(GatewayError):
    """A tool could not do its task. The message is for the model."""


class NotShown(ToolFailed):
    """A question to a person cannot be shown whole and exactly, so it is not asked."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"BLOCKED: the person could not be shown this as it is: {why}. Nobody can allow what they have "
            "not seen, so it was not done. Do it in smaller or plainer steps, or say what you need."
        )
        self.why = why


class Approval(msgspec.Struct, frozen=True):
    """A question to a person who may allow an action. `exact`, `place` and `grants` are shown as preformatted
    text, every character as it is; an action that cannot be shown in this way is refused."""

    exact: str
    """The action: a command as it would run, or the change of a file."""
    description: str = ""
    """A sentence that says why it needs a yes."""
    place: str = ""
    """The directory in which the command would run, or the file that would change."""
    kind: Literal["command", "change"] = "command"
    grants: tuple[str, ...] = ()
    """Grants that the command would get beyond its sandbox, also those that were allowed before."""


class Workplace(Protocol):
    """The part of a turn that a tool sees."""

    @property
    def session_id(self) -> str: ...
    @property
    def home(self) -> Path:
        """The gateway's home directory."""

    @property
    def cwd(self) -> Path:
        """The directory in which commands start and relative paths begin."""

    @property
    def sandbox(self) -> SessionSandbox:
        """The sandbox of the session's commands."""

    @property
    def config(self) -> GatewayConfig: ...
    @property
    def masking(self) -> Masking:
        """The masking of the gateway's secrets in a result, before a model or a person reads it."""

    @property
    def world(self) -> World: ...
    @property
    def database(self) -> Database: ...

    def running(
        self, command: Sequence[str] | str, *, cwd: Path | None = None, grants: Grants = NOTHING
    ) -> AbstractAsyncContextManager[ChildProcess]:
        """Run a command for as long as the block, in the sandbox with these grants."""

    async def start_background(
        self,
        command: Sequence[str] | str,
        *,
        cwd: Path | None = None,
        grants: Grants = NOTHING,
        notify: bool = False,
        watch: Sequence[str] = (),
    ) -> BackgroundProcess:
        """Start a command that belongs to the session and goes on after the turn, in the sandbox with these
        grants. With `notify` its end starts a turn; with `watch` the model is told of lines that hold one of
        these texts."""

    def background(self) -> list[BackgroundProcess]:
        """Return the background processes of the session, including those that ended recently."""

    def end_background(self, background: BackgroundProcess) -> None:
        """Kill this process and its descendants. The caller knows, so no notification is sent."""

    async def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        """Ask the person a question. None: no answer in time, or nobody can be asked."""

    def schedule_changed(self) -> None:
        """Tell the gateway that the schedule has changed."""

    async def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        """Send the person a file. Return False if their chat takes no files."""

    async def may(self, what: Approval | str) -> str | None:
        """Ask a person to allow an action that may do harm. `once`, `session` and `always` allow it; any
        other answer, or None, does not. A plain text is the action itself. Raises `NotShown`."""

    def active(self) -> None:
        """Report activity, which restarts the inactivity clock of the turn."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a call, as the model gets it."""

    content: str
    is_error: bool = False
    status: str = "ok"
    """For the transcript: `ok`, `error`, or `unanswered` for a question without an answer."""


Arguments = TypeVar("Arguments", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool: its name, its description and arguments for the model, and the function that runs a call."""

    name: str
    description: str
    arguments: type[msgspec.Struct] | Mapping[str, Any]
    """The struct of its arguments; or a JSON schema, if another program checks the arguments: `run` then gets
    a mapping."""
    run: Callable[[Any, Workplace], Awaitable[Result]]
    reads_only: bool = False
    """True if it changes nothing: several such calls may run at the same time."""
    at_once: int = 1
    """Number of calls that may run at the same time although they change something."""
    untrusted: bool = False
    """True if strangers write its results: the model is told to read them as data, never as instructions."""
    within: float | None = LONGEST_RUN
    """Seconds that a call may take; None for a tool that sets its own limits."""

    @property
    def parameters(self) -> Mapping[str, Any]:
        """The JSON schema of its arguments."""
        if isinstance(self.arguments, Mapping):
            return self.arguments
        (schema,), parts = msgspec.json.schema_components([self.arguments], ref_template="#/$defs/{name}")
        own = dict(parts.pop(self.arguments.__name__)) if "$ref" in schema else dict(schema)
        own.pop("title", None)
        return {**own, "$defs": parts} if parts else own

    def read(self, text: str) -> object:
        """Decode the arguments that a model sent. Raises `ToolFailed`."""
        kind = dict[str, Any] if isinstance(self.arguments, Mapping) else self.arguments
        try:
            return msgspec.json.decode(text or "{}", type=kind)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise ToolFailed(
                f"The arguments of {self.name} are wrong: {error}. Correct and call again."
            ) from error


def installed() -> list[Tool]:
    """Return the tools of other packages. A package that cannot be loaded is logged and left out."""
    tools: list[Tool] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            tools += _tools(point.load())
        except Exception:
            log.exception("tools of a package not loaded", entry_point=point.value)
    return tools


def _tools(found: object) -> Sequence[Tool]:
    return [found] if isinstance(found, Tool) else list(found)  # type: ignore[call-overload]
