"""The matrix of laws and platforms, printed by a command."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from hermes_trio.platform import Traits
from hermes_trio.testing.laws import matrix

LAWS = """
import pytest
from hermes_trio.platform import Traits
from hermes_trio.testing import MemoryPlatform
from hermes_trio.testing.laws import *

@pytest.fixture(params=["able", "unable", "mute"])
async def platform(request):
    it = MemoryPlatform(traits=Traits(edits=request.param != "unable"))
    if request.param == "mute":
        it.fails("send", KeyError("text"), times=9)
    yield Platform(it, it)
"""


def test_the_command_prints_each_law_on_each_platform_and_fails_for_a_broken_one(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(LAWS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\ntrio_mode = true\nfilterwarnings = error::pytest.PytestAssertRewriteWarning\n"
    )
    command = [sys.executable, "-m", "hermes_trio.testing.laws", "test_it.py", "-k", "sent_message"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    lines = done.stdout.splitlines()
    assert done.returncode == 1
    assert "| Law | able | unable | mute |" in lines
    assert "| a sent message is shown with its exact text | ✓ | ✓ | ✗ broken |" in lines
    assert "| a sent message can be edited | ✓ | cannot edit | ✗ broken |" in lines
    assert "| a message to a topic is shown in it | not run | not run | not run |" in lines


def test_each_law_is_kept_or_named_with_the_missing_ability() -> None:
    cells = matrix.promised(Traits(finds=True))
    assert set(cells) == set(matrix.laws())
    assert cells["test_only_a_message_that_has_arrived_is_found_by_its_key"] == matrix.HOLDS
    assert cells["test_a_second_send_with_the_same_key_shows_nothing"] == "cannot recognise a repeat"
