"""`hermes-trio skills`: the skills of a home, listed, printed, added and checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_trio.cli import main

Cli = Callable[..., Result]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """Return a function that runs a command for a home."""

    def run(*arguments: str, said: str = "") -> Result:
        environ = {"HERMES_HOME": str(tmp_path / "home"), "HOME": str(tmp_path / "login")}
        return CliRunner().invoke(main, ["skills", *arguments], env=environ, input=said)

    return run


@pytest.fixture
def tea(tmp_path: Path) -> Path:
    """A skill outside of the home, with a program."""
    folder = tmp_path / "download/tea"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("---\nname: tea\ndescription: Brew tea.\n---\nBoil water.")
    (folder / "steep.sh").write_text("echo steeped")
    (folder / "steep.sh").chmod(0o755)
    return folder


def test_a_skill_is_added_after_a_look_at_it_and_is_listed_and_printed(
    cli: Cli, tea: Path, tmp_path: Path
) -> None:
    assert "There are no skills." in cli("list").stdout
    added = cli("add", str(tea), said="y\n")
    assert "tea: Brew tea.\n  steep.sh (a program)\n" in added.stdout
    assert (added.exit_code, (tmp_path / "home/skills/tea/steep.sh").read_text()) == (0, "echo steeped")
    assert "tea" in cli("list").stdout
    assert cli("show", "tea").stdout == "tea: Brew tea.\n  steep.sh (a program)\n\nBoil water.\n"
    assert (cli("check").exit_code, cli("check").stdout) == (0, "1 skill can be loaded, 0 cannot.\n")


def test_no_means_no_and_a_second_skill_of_the_name_is_not_added(cli: Cli, tea: Path, tmp_path: Path) -> None:
    refused = cli("add", str(tea), said="n\n")
    assert refused.exit_code == 1
    assert "error: nothing was added." in refused.stderr
    assert not (tmp_path / "home/skills").exists()
    assert cli("add", str(tea), "--yes").exit_code == 0
    again = cli("add", str(tea), "--yes")
    assert again.exit_code == 1
    assert "there is a skill tea already" in again.stderr


def test_a_skill_with_a_link_is_not_added_and_leaves_nothing(cli: Cli, tea: Path, tmp_path: Path) -> None:
    (tea / "secrets").symlink_to("/etc/passwd")
    refused = cli("add", str(tea), "--yes")
    assert refused.exit_code == 1
    assert "secrets is a link" in refused.stderr
    assert list((tmp_path / "home/skills").iterdir()) == []


def test_a_folder_that_is_no_skill_is_reported_with_the_remedy(cli: Cli, tea: Path, tmp_path: Path) -> None:
    broken = tmp_path / "home/skills/broken"
    broken.mkdir(parents=True)
    (broken / "SKILL.md").write_text("Boil\x1b[2Jwater.")
    listed = cli("list")
    assert "1 folder could not be loaded; `hermes-trio skills check` tells why." in listed.stderr
    checked = cli("check")
    assert checked.exit_code == 1
    assert f"{broken}: SKILL.md has no head. Begin it with a line ---" in checked.stdout
    assert cli("check", str(tea)).exit_code == 0
    assert cli("show", "broken").exit_code == 1
