"""What a remedy tells people to install is there to be installed."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from hermes_trio.base.extras import install_command

ROOT = Path(__file__).parents[1]
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]


def sources() -> str:
    """All that is said to people: our code and our pages."""
    code = [path for folder in ("hermes_trio", "platforms") for path in (ROOT / folder).rglob("*.py")]
    return "\n".join(path.read_text("utf-8") for path in [*code, *ROOT.glob("*.md"), *ROOT.glob("*/*.md")])


def test_every_extra_that_is_named_is_one_of_the_package() -> None:
    text = sources()
    named = {
        *re.findall(r"install_command\(['\"]([\w-]+)['\"]\)", text),
        *re.findall(r"(?:hermes-trio|'\.)\[([\w-]+)\]", text),
    }
    assert named >= {"telegram", "mcp"}
    assert named <= EXTRAS.keys()


def test_no_remedy_wants_the_package_itself_from_an_index() -> None:
    """It is not published: `pip install hermes-trio` would find nothing, or something of somebody else."""
    assert not re.search(r"pip install ['\"]?hermes[-_]trio", sources())


@pytest.mark.parametrize("extra", ["telegram", "mcp"])
def test_the_command_installs_what_the_extra_asks_for(extra: str) -> None:
    command = install_command(extra)
    assert command.startswith(f"{sys.executable} -m pip install ")
    for requirement in EXTRAS[extra]:
        name = re.split(r"[<>=]", requirement)[0]
        assert name in command


def test_an_extra_that_is_not_there_is_a_mistake_of_the_program() -> None:
    with pytest.raises(LookupError):
        install_command("nothing")
