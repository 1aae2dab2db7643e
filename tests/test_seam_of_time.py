"""Time of day, waiting and chance come from `World` and from Trio's clock, so that a test can replace them.
A stray `time.time()` is found by no linter, so this test reads the code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CLOCKS = {
    "datetime.date.today",
    "datetime.datetime.now",
    "datetime.datetime.today",
    "datetime.datetime.utcnow",
    "time.clock_gettime",
    "time.ctime",
    "time.gmtime",
    "time.localtime",
    "time.monotonic",
    "time.monotonic_ns",
    "time.perf_counter",
    "time.perf_counter_ns",
    "time.sleep",
    "time.time",
    "time.time_ns",
    "uuid.uuid1",
    "uuid.uuid4",
}
"""`random` is added as a whole. `secrets` is not: a key must not be predictable, not even in a test."""

COMMAND = {"time.monotonic", "time.sleep"}
"""Clocks of a command that waits for another process. It has no event loop."""
ALLOWED = {
    "hermes_trio/base/world.py": {"datetime.datetime.now", "random.random", "uuid.uuid4"},  # the seam itself
    "hermes_trio/cli/home_commands/logs_command.py": {"time.sleep"},
    "hermes_trio/cli/subcommands/drain_command.py": COMMAND,
    "hermes_trio/cli/subcommands/nodes_command.py": {"time.sleep"},
    "hermes_trio/cli/subcommands/restart_command.py": COMMAND,
    "hermes_trio/cli/subcommands/status_command.py": COMMAND,
    "hermes_trio/cli/subcommands/stop_command.py": {"time.sleep"},
    # A thread that measures whether the event loop still runs cannot use the clock of that loop.
    "hermes_trio/host/loop/watchdog.py": {"time.monotonic"},
    # A process of its own, which outlives the gateway and imports nothing of it.
    "hermes_trio/host/processes/sweep.py": {"time.monotonic", "time.sleep"},
    # Processes of their own, which a command starts with or is started by.
    "hermes_trio/tools/sandbox/landlock_program.py": {"time.monotonic", "time.sleep"},
    "hermes_trio/tools/sandbox/remote/connector_program.py": {"time.monotonic", "time.sleep"},
    "hermes_trio/tools/sandbox/remote/supervisor_program.py": {"time.monotonic"},
    # The start of the machine, by the kernel's clocks.
    "hermes_trio/host/processes/process_identity.py": {"time.clock_gettime", "time.time"},
    # A simulated server: the time of day of another machine.
    "platforms/hermes_platforms/telegram/testing/bot_state.py": {"time.time"},
}


def clocks_in(source: str) -> Iterator[str]:
    """Yield the full name of each clock and each source of chance that the source refers to."""
    tree = ast.parse(source)
    full_names = dict(_imported(tree))
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute | ast.Name):
            first, dot, rest = ast.unparse(node).partition(".")
            name = full_names.get(first, "") + dot + rest
            if name in CLOCKS or name.startswith("random."):
                yield name


def _imported(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield each imported name with its full name."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                first = alias.name.partition(".")[0]
                yield (alias.asname, alias.name) if alias.asname else (first, first)
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            for alias in node.names:
                yield alias.asname or alias.name, f"{node.module}.{alias.name}"


def test_clocks_are_used_only_where_the_seam_cannot_serve() -> None:
    found = {
        path.relative_to(ROOT).as_posix(): names
        for folder in ("hermes_trio", "platforms")
        for path in (ROOT / folder).rglob("*.py")
        if (names := set(clocks_in(path.read_text("utf-8"))))
    }
    assert found == ALLOWED


@pytest.mark.parametrize(
    ("code", "name"),
    [
        ("import time\ntime.time()", "time.time"),
        ("import time as t\nt.sleep(1)", "time.sleep"),
        ("from time import monotonic\nmonotonic()", "time.monotonic"),
        ("from time import sleep as rest\nrest(1)", "time.sleep"),
        ("import datetime\ndatetime.datetime.now()", "datetime.datetime.now"),
        ("from datetime import datetime\ndatetime.now(UTC)", "datetime.datetime.now"),
        (
            "from datetime import date\nclass A:\n    day = field(default_factory=date.today)",
            "datetime.date.today",
        ),
        ("import random\njitter = random.random", "random.random"),
        ("from random import choice\nchoice([1])", "random.choice"),
        ("def f():\n    import uuid\n    return uuid.uuid4()", "uuid.uuid4"),
    ],
)
def test_a_clock_is_found(code: str, name: str) -> None:
    assert list(clocks_in(code)) == [name]


@pytest.mark.parametrize(
    "code",
    [
        "import trio\ntrio.sleep(1); trio.current_time()",
        "world.now(); self.time.time(); time = world.time()",
        "from datetime import datetime\ndatetime.fromtimestamp(0)",
        "import secrets\nsecrets.token_hex(8)",
        "from .time import sleep\nsleep(1)",
    ],
)
def test_a_replaceable_clock_is_left_alone(code: str) -> None:
    assert list(clocks_in(code)) == []
