"""Longer examples for a shell: the last of the first tasks, and the story of the README, step by step."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_trio.gateway.startup.resume_rules import Action, Verdict
from tests.machine import PATIENCE

from .pages import DOCS, README, Block, blocks, cells

pytestmark = pytest.mark.timeout(180)


def steps_of(path: Path) -> list[Block]:
    """Return the blocks of a page that are steps for a shell."""
    return [block for block in blocks() if block.page == path and block.language.startswith("sh title=")]


def run(script: str, home: Path) -> str:
    """Run a script as a user with this home directory, and return its output."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        ["bash", "-c", f"set -eu\n{script}"],
        env={"PATH": path, "HOME": str(home), "TMPDIR": str(home)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def _matches(output: str, expected: str) -> bool:
    """Return True if an output is as expected. `…` stands for any text, and a space for any number of
    spaces."""
    words = ".*".join(re.sub(r"(?:\\ )+", " +", re.escape(part.strip(" "))) for part in expected.split("…"))
    return re.fullmatch(words, output.strip(" ")) is not None


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for a shell")
def test_the_search_for_the_reason_of_a_turn_that_was_not_resumed(tmp_path: Path) -> None:
    mark = "--- end of the step ---"
    steps = steps_of(DOCS / "change/tasks.md")
    output = run("\n".join(f"{step.text}\necho '{mark}'" for step in steps), tmp_path)
    for step, shown in zip(steps, output.split(f"{mark}\n"), strict=False):
        if step.output is not None:
            lines = list(zip(shown.splitlines(), step.output.splitlines(), strict=True))
            assert not [pair for pair in lines if not _matches(*pair)], shown


@pytest.mark.skipif(sys.platform == "win32", reason="the steps are for a shell")
def test_the_story_of_the_readme_happens_as_it_is_told(tmp_path: Path) -> None:
    [story] = steps_of(README)
    assert story.output is not None
    shown = run(story.text, tmp_path)
    for text in (shown, story.output):
        assert re.findall(r"(?:^ +|\? )(\d)$", text, re.MULTILINE) == list("123456"), text
        assert "Response interrupted before this turn finished." in text
    last = " ".join(story.output.split()[-4:])
    assert " ".join(shown.split()).endswith(last)


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
