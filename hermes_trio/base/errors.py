"""Errors are types that tell the remedy.

    GatewayError                    exit code 1
    ├─ ConfigInvalid                exit code 78: wrong keys, types or values, all of them at once
    ├─ AgentInvalid                 exit code 78: an agent that is no async function of a turn
    ├─ InvalidId                    an id that could leave its directory or break a key
    ├─ HomeError                    something about the home directory
    │  ├─ HomeBusy                  another gateway works in it
    │  ├─ HomeFull                  its disk is full
    │  └─ HomeUnusable              exit code 78: not a directory, no permission, no locks there
    ├─ StoreError                   something about `gateway.db`
    │  ├─ StoreUnusable             exit code 78: not a file, no permission, no such place
    │  ├─ StoreTooNew               exit code 78: written by a newer version, left untouched
    │  ├─ StoreBusy                 another process holds it
    │  ├─ StoreFull                 the disk is full; what was acknowledged is safe
    │  ├─ StoreReadOnly             the disk or the file does not take writes
    │  ├─ StoreDamaged              SQLite found damage while running
    │  ├─ StoreReplaced             its files were removed or replaced while the gateway ran
    │  └─ StoreClosed               used after its block ended
    └─ JournalError                 something about one run journal
       ├─ JournalBusy               a second writer for a run: there is exactly one
       ├─ JournalClosed             an append behind the terminal record or after the block
       └─ JournalUnwritable         disk full, read-only, not a file

Each carries fields for code and one sentence for people that says what to do next. A library's own
errors are translated once, where we call it, with `raise ... from`.
"""

from __future__ import annotations

import errno
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

EXIT_FAILURE = 1
EXIT_RESTART = 75
"""Says to a supervisor: start me again (EX_TEMPFAIL)."""
EXIT_CONFIG = 78
"""Says: starting me again changes nothing (EX_CONFIG)."""


class GatewayError(Exception):
    """Anything this program reports to a person instead of a traceback."""

    exit_code = EXIT_FAILURE


def gateway_errors(error: BaseException) -> list[GatewayError]:
    """Return the errors of ours that this one, which may be a group, consists of; empty if there is anything
    else in it."""
    if isinstance(error, BaseExceptionGroup):
        parts = [gateway_errors(each) for each in error.exceptions]
        return [one for part in parts for one in part] if all(parts) else []
    return [error] if isinstance(error, GatewayError) else []


def said_by(error: BaseException) -> str:
    """What an error says. One that is not ours may not even be able to say it."""
    try:
        return str(error)
    except Exception:  # whatever its `__str__` does wrong
        return f"a {type(error).__name__} without words"


@dataclass(frozen=True, slots=True)
class ConfigFinding:
    """One mistake in the configuration: the full path of its key, what is wrong, and the remedy."""

    key: str
    problem: str
    remedy: str

    def __str__(self) -> str:
        return f"{self.key}: {self.problem}. {self.remedy}"


def is_expected(error: BaseException) -> bool:
    """Return whether an error, or each one in a group, is a `GatewayError`: its text says all there is to
    say, and a traceback adds nothing."""
    if isinstance(error, BaseExceptionGroup):
        return all(map(is_expected, error.exceptions))
    return isinstance(error, GatewayError)


class ConfigInvalid(GatewayError):
    """The configuration has mistakes. `findings` holds all that could be found; `key`, `problem` and `remedy`
    are those of the first one. The text has one line for each finding. `warnings` is odd, and no mistake."""

    exit_code = EXIT_CONFIG

    def __init__(self, key: str, problem: str, remedy: str, more: Sequence[ConfigFinding] = ()) -> None:
        self.warnings: Sequence[str] = ()
        self.key, self.problem, self.remedy = key, problem, remedy
        self.findings = (ConfigFinding(key, problem, remedy), *more)
        super().__init__("\n".join(map(str, self.findings)))

    @classmethod
    def of(cls, findings: Sequence[ConfigFinding]) -> ConfigInvalid:
        """One error with all of these findings; there is at least one."""
        first, *more = findings
        return cls(first.key, first.problem, first.remedy, more)


class AgentInvalid(GatewayError, TypeError):
    """An agent that cannot answer any turn."""

    exit_code = EXIT_CONFIG

    def __init__(self, agent: object, problem: str) -> None:
        name = getattr(agent, "__qualname__", type(agent).__qualname__)
        super().__init__(
            f"agent {name}: {problem}. Give an `async def` function of a turn, or an async context manager "
            "that yields one; call blocking code in it with trio.to_thread.run_sync."
        )
        self.agent, self.problem = agent, problem


class InvalidId(GatewayError, ValueError):
    """An id that must not become part of a path or a key."""

    def __init__(self, what: str, value: object, rule: str) -> None:
        super().__init__(f"{what} {value!r} is refused: {rule}.")
        self.what, self.value, self.rule = what, value, rule


class HomeError(GatewayError):
    """The home directory cannot be used as it was meant to be."""

    def __init__(self, home: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{home}: {problem}. {remedy}")
        self.home, self.problem, self.remedy = home, problem, remedy


class HomeBusy(HomeError):
    """Another gateway has this home; its pid where that is known."""

    def __init__(self, home: Path, pid: int | None) -> None:
        who = f"the gateway with pid {pid}" if pid else "another gateway"
        super().__init__(
            home,
            f"{who} works in this home",
            "Stop it with `hermes-trio stop`, or set HERMES_HOME to another directory.",
        )
        self.pid = pid


class HomeUnusable(HomeError):
    exit_code = EXIT_CONFIG

    def __init__(self, home: Path, problem: str) -> None:
        super().__init__(home, problem, "Repair the directory, or set HERMES_HOME to another one.")


class HomeFull(HomeError):
    """No mistake of anybody's, so whoever starts us again may try: space comes back."""

    def __init__(self, home: Path, problem: str) -> None:
        super().__init__(home, problem, "Free some space on its disk.")


def home_error(home: Path, error: OSError, what: str = "") -> HomeError:
    """The error of ours for what the system said about the home, or about `what` in it."""
    said = error.strerror or str(error)
    full = error.errno in (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
    return (HomeFull if full else HomeUnusable)(home, f"{what} cannot be written ({said})" if what else said)


class StoreError(GatewayError):
    """`gateway.db` could not do what it was asked; nothing acknowledged is lost."""

    def __init__(self, path: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{path.name}: {problem}. {remedy}")
        self.path, self.problem, self.remedy = path, problem, remedy


class StoreUnusable(StoreError):
    exit_code = EXIT_CONFIG


class StoreTooNew(StoreError):
    exit_code = EXIT_CONFIG


class StoreBusy(StoreError):
    pass


class StoreFull(StoreError):
    pass


class StoreReadOnly(StoreError):
    pass


class StoreDamaged(StoreError):
    pass


class StoreReplaced(StoreError):
    def __init__(self, path: Path) -> None:
        super().__init__(
            path,
            "was removed or replaced by another program while the gateway ran",
            "The gateway saves a copy and ends: its log says where. Stop it before you move its files.",
        )


class StoreClosed(StoreError):
    pass


class JournalError(GatewayError):
    """One run journal could not be opened or written."""

    def __init__(self, run_id: str, problem: str, remedy: str) -> None:
        super().__init__(f"journal of run {run_id}: {problem}. {remedy}")
        self.run_id, self.problem, self.remedy = run_id, problem, remedy


class JournalBusy(JournalError):
    pass


class JournalClosed(JournalError):
    pass


class JournalUnwritable(JournalError):
    pass
