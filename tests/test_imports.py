"""The cost of imports: a name is loaded when it is used, and no import changes asyncio."""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import hermes_trio

ROOT = Path(__file__).parents[1]
# Each of these would take more time of `--help` than everything that it needs.
HEAVY = {
    "msgspec",
    "trio",
    "ruamel.yaml",
    "asyncio",
    "anyio",
    "httpx",
    "structlog",
    "sqlite3",
    "rich",
    "prompt_toolkit",
}


def modules_after(code: str) -> set[str]:
    """Return the modules that a new interpreter has loaded after `code`."""
    report = "\nimport sys; print(); print(sorted(sys.modules))"
    result = subprocess.run(
        [sys.executable, "-c", code + report],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
        timeout=30,
    )
    return set(ast.literal_eval(result.stdout.splitlines()[-1]))


@pytest.mark.parametrize("arguments", [["--help"], ["--version"], ["no-such-command"]])
def test_help_and_version_load_nothing_heavy(arguments: list[str]) -> None:
    loaded = modules_after(
        f"from hermes_trio.cli import main\ntry: main({arguments})\nexcept SystemExit: pass"
    )
    assert "click" in loaded
    assert loaded & HEAVY == set()


def test_a_command_is_loaded_when_it_runs() -> None:
    loaded = modules_after(
        "from hermes_trio.cli import main\ntry: main(['config', 'path'])\nexcept SystemExit: pass"
    )
    assert "hermes_trio.cli.subcommands.config_command" in loaded
    assert "hermes_trio.cli.subcommands.run_command" not in loaded


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert modules_after("import hermes_trio") & HEAVY == set()


def test_importing_all_public_names_does_not_change_asyncio() -> None:
    # trio_asyncio, once imported, changes the event loops of the whole process.
    loaded = modules_after(
        "import asyncio; before = asyncio.new_event_loop, asyncio.get_event_loop_policy()\n"
        "from hermes_trio import *\n"
        "assert before == (asyncio.new_event_loop, asyncio.get_event_loop_policy())"
    )
    assert "hermes_trio.base.messages" in loaded
    assert "trio_asyncio" not in loaded


@pytest.mark.parametrize("name", hermes_trio.__all__)
def test_every_public_name_exists(name: str) -> None:
    assert getattr(hermes_trio, name) is not None
    assert name in dir(hermes_trio)


def test_an_unknown_name_raises_attribute_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        hermes_trio.no_such_name  # type: ignore[attr-defined]  # noqa: B018


def test_the_version_is_defined_once() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project.get("version", hermes_trio.__version__) == hermes_trio.__version__
