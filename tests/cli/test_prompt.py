"""`hermes-trio prompt show`: what a request to the model begins with."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_trio.cli import main

SERVER = str(Path(__file__).parents[1] / "tools" / "mcp" / "program.py")
Shown = Callable[..., str]


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with an identity, a note and a skill."""
    home = tmp_path / "home"
    (home / "skills/tea").mkdir(parents=True)
    (home / "skills/tea/SKILL.md").write_text("---\nname: tea\ndescription: Brew tea.\n---\nBoil water.")
    (home / "memories").mkdir()
    (home / "memories/MEMORY.md").write_text("The kettle is slow.")
    (home / "SOUL.md").write_text("You are a tea master.")
    return home


@pytest.fixture
def shown(home: Path, tmp_path: Path) -> Shown:
    """Return a function that runs the command for the home."""

    def run(*arguments: str, config: Mapping[str, object] = {}) -> str:
        (home / "config.yaml").write_text(json.dumps({"model": {"provider": "demo"}, **config}))
        environ = {"HERMES_HOME": str(home), "HOME": str(tmp_path / "login")}
        done = CliRunner().invoke(main, ["prompt", "show", *arguments], env=environ)
        assert done.exit_code == 0, done.output
        return done.stdout

    return run


def lengths(output: str) -> dict[str, int]:
    """Return the tokens of each part that was printed."""
    rows = [line.rsplit(maxsplit=1) for line in output.splitlines()[1:-1]]
    return {name: int(tokens.replace(",", "")) for name, tokens in rows}


def test_each_part_of_the_prompt_and_each_tool_is_counted(shown: Shown) -> None:
    found = lengths(shown())
    parts = ["identity", "conduct", "skills", "date", "memory"]
    assert list(found)[: len(parts)] == parts
    assert {"tool terminal", "tool read_file", "tool skill"} <= set(found)
    assert found.pop("all") == sum(found.values())


def test_what_is_switched_off_costs_nothing(shown: Shown) -> None:
    before = lengths(shown())
    after = lengths(shown(config={"agent": {"disabled_toolsets": ["terminal", "skills"]}}))
    assert set(before) - set(after) == {"skills", "tool skill", "tool terminal", "tool process"}
    gone = sum(before[name] for name in set(before) - set(after))
    assert before["all"] - after["all"] == gone


def test_the_tools_of_mcp_servers_are_counted_and_nothing_is_left_in_the_home(
    shown: Shown, home: Path
) -> None:
    before = sorted(home.rglob("*"))
    found = lengths(shown(config={"mcp_servers": {"good": {"command": sys.executable, "args": [SERVER]}}}))
    assert len([name for name in found if "good" in name]) == 11, found
    assert sorted(home.rglob("*")) == sorted([*before, home / "config.yaml"])


def test_the_text_is_printed_as_a_new_session_gets_it(shown: Shown) -> None:
    text = shown("--text")
    assert text.startswith("You are a tea master.\n\n")
    assert "The kettle is slow." in text
    assert '- tea: "Brew tea."' in text
    assert "Boil water" not in text
