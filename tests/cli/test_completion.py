"""`hermes-trio completion`: the shells complete commands and options."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.machine import environment

PROGRAM = Path(sys.executable).with_name("hermes-trio")


def run(*command: str, home: Path, **more: str) -> str:
    environ = environment(home, **more)
    environ["PATH"] = f"{PROGRAM.parent}:{environ['PATH']}"
    done = subprocess.run(command, env=environ, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return done.stdout


@pytest.mark.skipif(shutil.which("bash") is None, reason="there is no bash here")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [("st", "stop status"), ("status --j", "--json"), ("backup ch", "check"), ("completion f", "fish")],
)
def test_bash_completes_a_word(tmp_path: Path, typed: str, completed: str) -> None:
    words = typed.split()
    script = f"""
        eval "$(hermes-trio completion bash)"
        COMP_WORDS=(hermes-trio {typed}) COMP_CWORD={len(words)}
        _hermes_trio_completion hermes-trio
        echo "${{COMPREPLY[*]}}"
    """
    assert run("bash", "-c", script, home=tmp_path).strip() == completed


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_scripts_of_other_shells_ask_this_program(tmp_path: Path, shell: str) -> None:
    script = run(str(PROGRAM), "completion", shell, home=tmp_path)
    assert f"_HERMES_TRIO_COMPLETE={shell}_complete" in script
    asked = {"_HERMES_TRIO_COMPLETE": f"{shell}_complete", "COMP_WORDS": "hermes-trio res", "COMP_CWORD": "1"}
    if shell == "fish":
        asked["COMP_CWORD"] = "res"
    found = run(str(PROGRAM), home=tmp_path, **asked)
    assert "restart" in found
    assert "Make a home from a backup." in found
