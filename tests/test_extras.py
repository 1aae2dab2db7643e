"""Packages that a remedy tells people to install exist as extras."""

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
    """Return the text of our code and of our pages."""
    code = [path for folder in ("hermes_trio", "platforms") for path in (ROOT / folder).rglob("*.py")]
    return "\n".join(path.read_text("utf-8") for path in [*code, *ROOT.glob("*.md"), *ROOT.glob("*/*.md")])


def test_every_named_extra_is_one_of_the_package() -> None:
    text = sources()
    named = {
        *re.findall(r"install_command\(['\"]([\w-]+)['\"]\)", text),
        *re.findall(r"(?:hermes-trio|'\.)\[([\w-]+)\]", text),
    }
    assert named >= {"telegram", "mcp"}
    assert named <= EXTRAS.keys()


def test_no_remedy_installs_the_package_from_an_index() -> None:
    """The package is not published: `pip install hermes-trio` would find nothing, or a package of others."""
    assert not re.search(r"pip install ['\"]?hermes[-_]trio", sources())


@pytest.mark.parametrize("extra", ["telegram", "mcp"])
def test_the_command_installs_the_packages_of_the_extra(extra: str) -> None:
    command = install_command(extra)
    assert command.startswith(f"{sys.executable} -m pip install ")
    for requirement in EXTRAS[extra]:
        name = re.split(r"[<>=]", requirement)[0]
        assert name in command


def test_an_unknown_extra_raises_lookup_error() -> None:
    with pytest.raises(LookupError):
        install_command("nothing")
