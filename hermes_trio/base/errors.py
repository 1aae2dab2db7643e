"""The errors of hermes-trio: each is a type, and its text holds a remedy.

    GatewayError                    exit code 1
    ├─ ConfigInvalid                exit code 78: wrong keys, types or values, all in one error
    ├─ AgentInvalid                 exit code 78: the agent is no async function of a turn
    ├─ InvalidId                    an id that could leave its directory or break a key
    ├─ HomeError                    something about the home directory
    │  ├─ HomeBusy                  another gateway works in it
    │  ├─ HomeFull                  its disk is full
    │  └─ HomeUnusable              exit code 78: not a directory, no permission, no locks there
    ├─ StoreError                   something about `gateway.db`
    │  ├─ StoreUnusable             exit code 78: not a file, no permission, no such place
    │  ├─ StoreTooNew               exit code 78: written by a newer version, left untouched
    │  ├─ StoreAway                 its server does not answer
    │  ├─ StoreBusy                 another process holds it
    │  ├─ StoreFull                 the disk is full; what was acknowledged is safe
    │  ├─ StoreReadOnly             the disk or the file does not take writes
    │  ├─ StoreDamaged              SQLite found damage while running
    │  ├─ StoreReplaced             its files were removed or replaced while the gateway ran
    │  ├─ LifeIsOver                another run of a gateway has taken over the work of this one
    │  └─ StoreClosed               used after its block ended
    ├─ NodeNameTaken                exit code 78: another home that shares the store has this name
    ├─ ForeignChat                  another gateway answers in this chat now
    └─ JournalError                 something about one run journal
       ├─ JournalBusy               a second writer for a run; only one is allowed
       ├─ JournalClosed             an append after the terminal record or after the block
       └─ JournalUnwritable         disk full, read-only, not a file

Each has fields for code, and a text for people with the next thing to do. The errors of a library are
translated once, where the library is called, with `raise ... from`.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

EXIT_FAILURE = 1
EXIT_RESTART = 75
"""Tells a supervisor to start the gateway again (EX_TEMPFAIL)."""
EXIT_CONFIG = 78
"""Tells a supervisor that another start would fail in the same way (EX_CONFIG)."""


class GatewayError(Exception):
    """An error that is reported to a person as a sentence, without a traceback."""

    exit_code = EXIT_FAILURE


def gateway_errors(error: BaseException) -> list[GatewayError]:
    """Return the `GatewayError`s of an error, which may be a group. Return an empty list if the group holds
    an error of another type."""
    if isinstance(error, BaseExceptionGroup):
        parts = [gateway_errors(each) for each in error.exceptions]
        return [one for part in parts for one in part] if all(parts) else []
    return [error] if isinstance(error, GatewayError) else []


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and all exceptions that led to it."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]
            if isinstance(one, BaseExceptionGroup):
                waiting += one.exceptions


def error_text(error: BaseException) -> str:
    """Return the text of an error. The `__str__` of a foreign error may itself fail."""
    try:
        return str(error)
    except Exception:  # `__str__` may raise anything
        return f"a {type(error).__name__} without a text"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One mistake in the configuration: the full path of its key, what is wrong, and the remedy."""

    key: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}. {self.remedy}"


def is_expected(error: BaseException) -> bool:
    """Return whether an error, or each error of a group, is a `GatewayError`. A traceback adds nothing to its
    text."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_expected, error.exceptions))
    return isinstance(error, GatewayError)


class ConfigInvalid(GatewayError):
    """The configuration has mistakes. `findings` holds every mistake; `key`, `problem` and `remedy` are those
    of the first one. The text has one line for each finding. `warnings` are about keys that are no
    mistakes."""

    exit_code = EXIT_CONFIG

    def __init__(self, key: str, problem: str, remedy: str, more: Sequence[ConfigFinding] = ()) -> None:
        self.warnings: Sequence[str] = ()
        self.key, self.problem, self.remedy = key, problem, remedy
        self.findings = (ConfigFinding(key, problem, remedy), *more)
        super().__init__("\n".join(map(str, self.findings)))

    @classmethod
    def of(cls, findings: Sequence[ConfigFinding]) -> ConfigInvalid:
        """Return one error with all these findings, of which there is at least one."""
        first, *more = findings
        return cls(first.key, first.problem, first.remedy, more)


class AgentInvalid(GatewayError, TypeError):
    """The agent cannot be called with a turn."""

    exit_code = EXIT_CONFIG

    def __init__(self, agent: object, problem: str) -> None:
        name = getattr(agent, "__qualname__", type(agent).__qualname__)
        super().__init__(
            f"agent {name}: {problem}. Give an `async def` function of a turn, or an async context manager "
            "that yields one; hermes_trio.blocking_agent makes one of a blocking function."
        )
        self.agent, self.problem = agent, problem


class InvalidId(GatewayError, ValueError):
    """An id that must not become part of a path or a key."""

    def __init__(self, what: str, value: object, rule: str) -> None:
        super().__init__(f"{what} {value!r} is refused: {rule}.")
        self.what, self.value, self.rule = what, value, rule


class HomeError(GatewayError):
    """The home directory cannot be used."""

    def __init__(self, home: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{home}: {problem}. {remedy}")
        self.home, self.problem, self.remedy = home, problem, remedy


class HomeBusy(HomeError):
    """Another gateway uses this home. `pid` is its process, or None if that is unknown."""

    def __init__(self, home: Path, pid: int | None) -> None:
        other = f"the gateway with pid {pid}" if pid else "another gateway"
        super().__init__(
            home,
            f"{other} works in this home",
            "Stop it with `hermes-trio stop`, or set HERMES_HOME to another directory.",
        )
        self.pid = pid


class HomeUnusable(HomeError):
    """The home is no directory, or cannot be read or written."""

    exit_code = EXIT_CONFIG

    def __init__(self, home: Path, problem: str) -> None:
        super().__init__(home, problem, "Repair the directory, or set HERMES_HOME to another one.")


class HomeFull(HomeError):
    """The disk of the home is full. This is no wrong configuration, so a supervisor may start us again."""

    def __init__(self, home: Path, problem: str) -> None:
        super().__init__(home, problem, "Free some space on its disk.")


def home_error(home: Path, error: OSError, what: str = "") -> HomeError:
    """Return our error for an `OSError` about the home, or about the file `what` in it."""
    reason = error.strerror or str(error)
    is_full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    problem = f"{what} cannot be written ({reason})" if what else reason
    return (HomeFull if is_full else HomeUnusable)(home, problem)


class StoreError(GatewayError):
    """An operation on `gateway.db` failed. No acknowledged write is lost."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path.name}: {problem}. {remedy}")
        self.path, self.problem, self.remedy = path, problem, remedy


class StoreUnusable(StoreError):
    """The database is not a file, cannot be opened, or is in a place without permission."""

    exit_code = EXIT_CONFIG


class StoreTooNew(StoreError):
    """The database was written by a newer version."""

    exit_code = EXIT_CONFIG


class StoreAway(StoreError):
    """The server of the database does not answer. The configuration may be right, so a supervisor may start
    us again."""


class StoreBusy(StoreError):
    """Another process holds the database."""


class StoreFull(StoreError):
    """The disk of the database is full."""


class StoreReadOnly(StoreError):
    """The disk or the file takes no writes."""


class StoreDamaged(StoreError):
    """SQLite found damage in the database while the gateway ran."""


class StoreReplaced(StoreError):
    """The files of the database were removed or replaced while the gateway ran."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            "was removed or replaced by another program while the gateway ran",
            "The gateway saves a copy and ends; its log names the copy. Stop it before you move its files.",
        )


class LifeIsOver(StoreError):
    """Another run of a gateway has taken over the work of this one. Nothing of the write was stored."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            "another gateway has taken over the work of this one, which had stored nothing for too long",
            "The gateway ends. Nothing that it has acknowledged is lost; start it again.",
        )


class StoreClosed(StoreError):
    """The database was used after its block ended."""


class NodeNameTaken(GatewayError):
    """The gateway of another home that shares the store has the name of this one."""

    exit_code = EXIT_CONFIG

    def __init__(self, node: str) -> None:
        super().__init__(
            f"database.node: the gateway of another home has the name {node}, and works on this database. "
            "Give each home a name of its own in database.node; `hermes-trio nodes` prints those in use."
        )
        self.node = node


class ForeignChat(GatewayError):
    """Another gateway that shares the store answers in this chat now. Nothing was stored."""

    def __init__(self, platform: str, chat_id: str) -> None:
        super().__init__(f"Another gateway answers in {platform}:{chat_id}. It takes up what waits there.")


class JournalError(GatewayError):
    """One run journal could not be opened or written."""

    def __init__(self, run_id: str, problem: str, remedy: str) -> None:
        super().__init__(f"journal of run {run_id}: {problem}. {remedy}")
        self.run_id, self.problem, self.remedy = run_id, problem, remedy


class JournalBusy(JournalError):
    """A run has a writer already."""


class JournalClosed(JournalError):
    """An event was appended after the end of the journal."""


class JournalUnwritable(JournalError):
    """The file of a journal cannot be written."""
