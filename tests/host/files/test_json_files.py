"""Small files are replaced whole."""

from __future__ import annotations

from pathlib import Path

from hermes_trio.host.files.json_files import read_small, write_small


def test_writing_a_small_file_replaces_the_old_one_whole(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_small(path, b"a" * 10_000)
    write_small(path, b"b")
    assert read_small(path)[0] == b"b"
