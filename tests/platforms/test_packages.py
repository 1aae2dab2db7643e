"""Packages with platforms: ours and those of others are found in the same way."""

from __future__ import annotations

import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_platforms.telegram.adapter import TelegramAdapter
from hermes_trio import ConfigInvalid, load_config
from hermes_trio.cli import main
from hermes_trio.gateway.links.adapters import find_adapters

ROOT = Path(__file__).parents[2]
TOKEN = "123456:AAsimulated-token-of-nobody-000000000"
PARROT = '''
from contextlib import asynccontextmanager

from hermes_trio import ConfigInvalid
from hermes_trio.platform import Question, Traits

QUESTIONS = [Question(key="perch", ask="Which perch")]


class Parrot:
    """A platform that repeats each message."""

    name, account, traits = "parrot", "main", Traits(limit=100)

    def __init__(self, perch):
        self.perch = perch

    @asynccontextmanager
    async def connect(self):
        yield self


def from_config(platform):
    if "perch" not in platform.options:
        raise ConfigInvalid("platforms.parrot.perch", "a parrot needs one", "Name it.")
    return Parrot(platform.options["perch"])
'''


@pytest.fixture
def parrots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install a package with a platform."""
    site = tmp_path / "site"
    info = site / "parrots-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "parrots.py").write_text(PARROT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hermes_trio.platforms]\nparrot = parrots:from_config\n"
        "[hermes_trio.setup]\nparrot = parrots:QUESTIONS\n"
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "parrots", raising=False)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    home = tmp_path / "home"
    monkeypatch.setenv("HERMES_HOME", str(home))
    return home


def test_the_shipped_package_registers_no_platform_for_tests() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert set(project["entry-points"]["hermes_trio.platforms"]) == {
        "discord",
        "email",
        "irc",
        "matrix",
        "slack",
        "telegram",
        "webhook",
        "xmpp",
    }


def test_a_platform_of_another_package_is_set_up_checked_and_found(parrots: None, home: Path) -> None:
    setup = ["setup", "parrot", "--non-interactive", "--answer", "perch=oak", "--allow", "all"]
    assert CliRunner().invoke(main, setup).exit_code == 0
    [parrot] = find_adapters(load_config(home, {}).config)
    assert (parrot.name, parrot.perch) == ("parrot", "oak")  # type: ignore[attr-defined]
    assert "parrot is installed and configured" in CliRunner().invoke(main, ["doctor"]).output


def test_a_platform_without_its_library_is_reported_with_the_remedy(
    parrots: None, home: Path, tmp_path: Path
) -> None:
    (tmp_path / "site" / "parrots.py").write_text("import an_aviary")
    home.mkdir()
    (home / "config.yaml").write_text("platforms: {parrot: {allow_from: all, perch: oak}}")
    problem = (
        "platforms.parrot: its package cannot be loaded (No module named 'an_aviary'). Install what it needs"
    )
    check = CliRunner().invoke(main, ["config", "check"])
    assert (check.exit_code, problem in check.stderr) == (78, True)
    assert problem in CliRunner().invoke(main, ["doctor"]).output
    for platform, code in (("parrot", 78), ("terminal", 0)):
        asked = CliRunner().invoke(main, ["setup", platform, "--non-interactive"])
        assert (asked.exit_code, "an_aviary" in asked.stderr) == (code, platform == "parrot")


def test_a_value_that_an_adapter_refuses_is_reported_in_its_own_words(parrots: None, home: Path) -> None:
    home.mkdir()
    (home / "config.yaml").write_text("platforms: {parrot: {allow_from: all}}")
    with pytest.raises(ConfigInvalid, match="a parrot needs one"):
        find_adapters(load_config(home, {}).config)


@pytest.mark.parametrize("allow", ["bob", "42,@bob"])
def test_telegram_is_not_set_up_for_a_user_name(home: Path, allow: str) -> None:
    asked = CliRunner().invoke(
        main,
        ["setup", "telegram", "--allow", allow, "--non-interactive"],
        env={"TELEGRAM_BOT_TOKEN": TOKEN},
    )
    assert asked.exit_code == 78, asked.output
    assert "platforms.telegram.allow_from: " in asked.stderr
    assert "`hermes-trio doctor telegram` shows your id" in asked.stderr
    assert not (home / "config.yaml").exists()


def test_telegram_is_set_up_with_one_question_whose_answer_is_hidden(home: Path) -> None:
    asked = CliRunner().invoke(
        main,
        ["setup", "telegram", "--allow", "42", "--no-check"],
        input=f"no token\n{TOKEN}\n",
        env={"TELEGRAM_BOT_TOKEN": None},
    )
    assert asked.exit_code == 0, asked.output
    assert "BotFather" in asked.output
    assert TOKEN not in asked.output + (home / "config.yaml").read_text()
    [telegram] = find_adapters(load_config(home, {}).config)
    assert isinstance(telegram, TelegramAdapter)
    assert TOKEN not in repr(load_config(home, {}).config)
