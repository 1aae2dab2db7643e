"""The id of a home: it stays, and a copy of the home has another one."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from hermes_trio.base.errors import HomeUnusable
from hermes_trio.base.world import World
from hermes_trio.host.home.home_id import HOME_ID_FILE, home_id


def test_the_id_of_a_home_stays_also_when_it_is_moved(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    made = home_id(home, World())
    assert made
    assert home_id(home, World()) == made
    assert home_id(home.rename(tmp_path / "moved"), World()) == made


def test_a_copy_of_a_home_is_another_home(tmp_path: Path) -> None:
    home = tmp_path / "home"
    home.mkdir()
    made = home_id(home, World())
    copy = shutil.copytree(home, tmp_path / "copy")
    assert home_id(copy, World()) != made
    assert home_id(copy, World()) == home_id(copy, World())
    assert home_id(home, World()) == made


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"home": 1, "inode": 1}', b"\0" * 100_000])
def test_a_file_that_is_no_id_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / HOME_ID_FILE).write_bytes(content)
    assert home_id(tmp_path, World()) == home_id(tmp_path, World())


def test_a_home_that_cannot_keep_its_id_is_refused(tmp_path: Path) -> None:
    (tmp_path / HOME_ID_FILE).mkdir()
    with pytest.raises(HomeUnusable, match=HOME_ID_FILE):
        home_id(tmp_path, World())
