"""What a tool is, and what it sees of the turn it works in.

    class Arguments(msgspec.Struct, frozen=True):
        path: Annotated[str, Meta(description="Which file.")]

    async def run(arguments: Arguments, place: Workplace) -> Result: ...

    READ = Tool("read_file", "Reads a file.", Arguments, run, reads_only=True)

The struct is the schema that a model is shown and the check of what it sends back. A tool that cannot do
what it was asked raises `ToolFailed` with a sentence that helps the model; whatever else it raises is
reported to the model too, and ends nothing. Everything a tool starts ends with its block: it is a call in
the turn's nursery, and is cancelled like any other.
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

LONGEST_RUN = 420.0
"""Seconds that a call may take, unless its tool says otherwise."""
LONGEST_RESULT = 100_000
"""Characters of one result that a model is sent; the tools keep within it in a way that suits them."""

ENTRY_POINTS = "hermes_trio.tools"

log = Log(__name__)


class ToolFailed(GatewayError):
    """A tool could not do what it was asked. The message is for the model."""


class NotShown(ToolFailed):
    """What a person is asked cannot be shown to them whole and exactly, so they are not asked."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"BLOCKED: the person could not be shown this as it is: {why}. Nobody can allow what they have "
            "not seen, so it was not done. Do it in smaller or plainer steps, or say what you need."
        )
        self.why = why


class Approval(msgspec.Struct, frozen=True):
    """What a person is asked to allow. They are shown `exact` and `place` as preformatted text, every
    character as it is; what cannot be shown so is refused."""

    exact: str
    """What would be done: a command as it would run, or the change of a file."""
    description: str = ""
    """Why it needs a yes, in a sentence."""
    place: str = ""
    """The directory in which the command would run, or the file that would change."""
    kind: Literal["command", "change"] = "command"


class Workplace(Protocol):
    """What a tool sees of its turn."""

    @property
    def session_id(self) -> str: ...
    @property
    def home(self) -> Path:
        """The gateway's own directory."""

    @property
    def cwd(self) -> Path:
        """Where commands start and relative paths begin."""

    @property
    def config(self) -> GatewayConfig: ...
    @property
    def masking(self) -> Masking:
        """Masks the secrets of the gateway in a result, before a model or anybody else reads it."""

    @property
    def world(self) -> World: ...
    @property
    def database(self) -> Database: ...

    def running(
        self, command: Sequence[str] | str, *, cwd: Path | None = None
    ) -> AbstractAsyncContextManager[ChildProcess]:
        """A command, for as long as the block."""

    async def start_background(
        self,
        command: Sequence[str] | str,
        *,
        cwd: Path | None = None,
        notify: bool = False,
        watch: Sequence[str] = (),
    ) -> BackgroundProcess:
        """Start a command that belongs to the session, and goes on when the turn is over. With `notify` its
        end begins a turn; with `watch` lines that hold one of these texts are told."""

    def background(self) -> list[BackgroundProcess]:
        """The background processes of the session, also who has ended not long ago."""

    def end_background(self, kept: BackgroundProcess) -> None:
        """End one of them, with all that came of it."""

    async def ask(self, text: str, choices: Sequence[str] = (), *, within: float | None = None) -> str | None:
        """Ask the person; None if no answer came in time, or nobody can be asked."""

    async def send_file(self, name: str, data: bytes, text: str = "") -> bool:
        """Send the person a file. False where their chat takes none."""

    async def may(self, what: Approval | str) -> str | None:
        """Ask for a yes before something that may do harm: `once`, `session`, `always`; anything else, None
        above all, is a no. A mere text is what would be done. Raises `NotShown`."""

    def active(self) -> None:
        """Something happened: this is not silence."""


@dataclass(frozen=True, slots=True)
class Result:
    """What came of a call, as the model is told it."""

    content: str
    is_error: bool = False
    status: str = "ok"
    """For the transcript: `ok`, `error`, or `unanswered` for a question that nobody answered."""


Arguments = TypeVar("Arguments", bound=msgspec.Struct)


@dataclass(frozen=True, slots=True)
class Tool:
    """Something an agent can do."""

    name: str
    description: str
    arguments: type[msgspec.Struct] | Mapping[str, Any]
    """What it takes; or a JSON schema, where somebody else checks what is sent: then it gets a mapping."""
    run: Callable[[Any, Workplace], Awaitable[Result]]
    reads_only: bool = False
    """It changes nothing, so that several such calls may run side by side."""
    at_once: int = 1
    """How many calls of it may run side by side although it changes something."""
    untrusted: bool = False
    """What it returns was written by strangers: data, and never an instruction."""
    within: float | None = LONGEST_RUN
    """Seconds a call may take; None for a tool that has a limit of its own."""

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
        """The arguments as the model sent them. Raises `ToolFailed`."""
        kind = dict[str, Any] if isinstance(self.arguments, Mapping) else self.arguments
        try:
            return msgspec.json.decode(text or "{}", type=kind)
        except (msgspec.MsgspecError, UnicodeEncodeError) as error:
            raise ToolFailed(
                f"The arguments of {self.name} are wrong: {error}. Correct and call again."
            ) from error


def installed() -> list[Tool]:
    """The tools that other packages bring along. What cannot be loaded of them is logged and left out."""
    tools: list[Tool] = []
    for point in entry_points(group=ENTRY_POINTS):
        try:
            tools += _tools(point.load())
        except Exception:
            log.exception("the tools of a package cannot be loaded", entry_point=point.value)
    return tools


def _tools(found: object) -> Sequence[Tool]:
    return [found] if isinstance(found, Tool) else list(found)  # type: ignore[call-overload]
