"""`hermes-trio logs`: the log of the gateway for people, filtered and followed."""

from __future__ import annotations

import ast
import os
import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import click

from ...base.errors import GatewayError
from ...config.config_file import home_directory
from ..logs import BACKUPS, INDENT

LEVELS = ("info", "warning", "error", "critical")
LOOK_EVERY = 0.25

_FIELD = re.compile(r"""(\w+)=('(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|\[[^]]*\]|\{[^}]*\}|\S+)""")


class NoLog(GatewayError):
    """The home has no log."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} does not exist: no gateway has run in this home. Start one: `hermes-trio run`."
        )


@dataclass(slots=True)
class Filter:
    """The wanted events. Events of a session belong to the chat in which the session was seen."""

    level: str
    chat: str | None
    sessions: set[str] = field(default_factory=set)
    is_wanted: bool = True
    """True if the last event was wanted; the lines of its traceback follow it."""

    def shown(self, line: str) -> str | None:
        """Return a line of the log as it is shown; None if it is not wanted."""
        if line.startswith(INDENT):
            return line if self.is_wanted else None
        fields = {name: _value(value) for name, value in _FIELD.findall(line)}
        self.is_wanted = self._wants(fields)
        return _shown(fields) if self.is_wanted else None

    def _wants(self, fields: dict[str, str]) -> bool:
        session = fields.get("session")
        if self.chat is not None:
            if fields.get("chat") == self.chat:
                self.sessions.update(filter(None, [session]))
            elif session is None or session not in self.sessions:
                return False
        level = fields.get("level", "info")
        return level not in LEVELS or LEVELS.index(level) >= LEVELS.index(self.level)


@click.command()
@click.option("-f", "--follow", is_flag=True, help="Go on printing until Ctrl-C.")
@click.option(
    "-n", "--lines", default=100, show_default=True, type=click.IntRange(min=0), help="Last lines to print."
)
@click.option(
    "--level", type=click.Choice(LEVELS), default="info", help="Only events of this level and above."
)
@click.option("--chat", metavar="ID", help="Only events of this chat, and of its sessions.")
def command(follow: bool, lines: int, level: str, chat: str | None) -> None:
    """Print the log of the gateway."""
    folder = home_directory(os.environ) / "logs"
    path = folder / "gateway.log"
    if not path.exists():
        raise NoLog(path)
    wanted = Filter(level, chat)
    with path.open("r", encoding="utf-8", errors="replace") as newest:
        old = (line for number in range(BACKUPS, 0, -1) for line in _lines(folder / f"gateway.log.{number}"))
        for line in deque(_only(wanted, (*old, *newest)), maxlen=lines):
            click.echo(line)
        if follow:
            try:
                for line in _only(wanted, _following(path, newest.tell())):
                    click.echo(line)
            except KeyboardInterrupt:
                return


def _only(wanted: Filter, lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if (shown := wanted.shown(line.rstrip("\n"))) is not None:
            yield shown


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            yield from file
    except FileNotFoundError:
        return


def _following(path: Path, after: int) -> Iterator[str]:
    """Yield each line that is written to the log after this position, also after it was rotated."""
    while True:
        with path.open("r", encoding="utf-8", errors="replace") as file:
            file.seek(after)
            after, begun = 0, ""
            while True:
                is_last = _is_replaced(path, file.fileno())  # asked before the last look
                for line in file:
                    begun += line
                    if begun.endswith("\n"):
                        yield begun
                        begun = ""
                if is_last:
                    break
                time.sleep(LOOK_EVERY)


def _is_replaced(path: Path, fd: int) -> bool:
    """Return whether there is a new file at the path."""
    try:
        return not os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False  # it is just being rotated


def _value(text: str) -> str:
    if text[:1] in "'\"":
        try:
            return str(ast.literal_eval(text)).replace("\n", "\\n")
        except (ValueError, SyntaxError):
            return text
    return text


def _shown(fields: dict[str, str]) -> str:
    """Return an event as a line: time, level, event, and its fields."""
    at, level, event = (fields.pop(name, "") for name in ("timestamp", "level", "event"))
    with suppress(ValueError):
        at = f"{datetime.fromisoformat(at).astimezone():%Y-%m-%d %H:%M:%S}"
    rest = " ".join(f"{name}={value}" for name, value in fields.items())
    return f"{at}  {level:8}  {event}  {rest}".rstrip()
