"""The page about first tasks: its last task is done, step by step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.gateway.startup.resume_rules import Action, Verdict
from tests.machine import PATIENCE

from .pages import DOCS, Block, blocks, cells

pytestmark = pytest.mark.timeout(180)


def _steps() -> list[Block]:
    """The blocks of the page about first tasks that are steps of its last task."""
    found = (block for block in blocks() if block.page == DOCS / "change/tasks.md")
    return [block for block in found if block.language.startswith("sh title=")]


def _matches(output: str, expected: str) -> bool:
    """Whether an output is as expected. `…` stands for any text, and a space for any number of spaces."""
    words = ".*".join(re.sub(r"(?:\\ )+", " +", re.escape(part.strip(" "))) for part in expected.split("…"))
    return re.fullmatch(words, output.strip(" ")) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for a shell")
def test_the_search_for_the_reason_of_a_turn_that_was_not_resumed(tmp_path: Path) -> None:
    mark = "--- end of the step ---"
    script = "\n".join(f"{step.text}\necho '{mark}'" for step in _steps())
    environ = {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "TMPDIR": str(tmp_path),
    }
    done = subprocess.run(
        ["bash", "-c", f"set -eu\n{script}"],
        env={**environ, "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    outputs = done.stdout.split(f"{mark}\n")
    for step, output in zip(_steps(), outputs, strict=False):
        if step.output is not None:
            lines = list(zip(output.splitlines(), step.output.splitlines(), strict=True))
            assert not [pair for pair in lines if not _matches(*pair)], output


def test_the_page_about_first_tasks_has_each_verdict_and_what_it_does_with_the_mark() -> None:
    _, *rows = cells("change/tasks.md", "Find out why a turn was not resumed")
    told = {row[0]: row[1] for row in rows}
    assert list(told) == [verdict.why for verdict in Verdict]
    actions = {
        Action.RUN: "It is resumed now.",
        Action.WAIT: "It is judged again when the platform connects.",
        Action.KEEP: "The mark stays.",
        Action.CLEAR: "The mark is cleared.",
    }
    assert list(told.values()) == [actions[verdict.action] for verdict in Verdict]
