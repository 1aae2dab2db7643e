"""The home directory: where it is, and when it is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_trio.base.errors import ConfigInvalid, HomeUnusable
from hermes_trio.config.config_file import home_directory


@pytest.mark.parametrize(
    ("value", "home"),
    [
        (None, Path.home() / ".hermes-trio"),
        ("", Path.home() / ".hermes-trio"),
        ("~/elsewhere", Path.home() / "elsewhere"),
        (str(Path.home() / "absolute"), Path.home() / "absolute"),
    ],
)
def test_the_home_directory_comes_from_the_environment(value: str | None, home: Path) -> None:
    assert home_directory({} if value is None else {"HERMES_HOME": value}) == home


@pytest.mark.parametrize("value", ["relative/home", ".", "~no-such-user-here/home"])
def test_a_relative_home_is_refused(value: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        home_directory({"HERMES_HOME": value})
    assert refusal.value.key == "HERMES_HOME"
    assert value in refusal.value.problem


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is closed to this account")
@pytest.mark.parametrize("closed", ["home", ""])
def test_an_inaccessible_home_is_refused(tmp_path: Path, closed: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / closed).chmod(0)
    try:
        with pytest.raises(HomeUnusable, match="Permission denied"):
            home_directory({"HERMES_HOME": str(tmp_path / "home")})
    finally:
        (tmp_path / closed).chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="there are no such links here")
def test_a_home_that_is_a_link_to_itself_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to(tmp_path / "home")
    with pytest.raises(HomeUnusable, match="Too many levels"):
        home_directory({"HERMES_HOME": str(tmp_path / "home")})
