"""A broken file is refused with the place at which it is broken."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.config.config_file import load_config
from tests.config.reading import Load

LAUGHS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent: {max_turns: 5", "line 1, column 21: expected ',' or '}'"),
        ("agent: [\n", "line 2, column 1: expected the node content, but found the end of the file"),
        ("agent:\n\tmax_turns: 5", "line 2, column 1: found character '\\t'"),
        ("web:\n  port: 1\n  port: 2", "line 3, column 3: the key port is repeated"),
        ("a: 1\n--- \nb: 2", "line 2, column 1: but found another document"),
        ("- agent", "line 1, column 1: expected a mapping"),
        ("only words", "line 1, column 1: expected a mapping"),
        ("web: {port:1}", "line 1, column 7: no space after the colon"),
        ("? [a]\n: 1", "line 1, column 3: a key must be a word"),
        ("? ~\n: 1", "line 1, column 3: a key must be a word"),
        ('"\\a": 1', "line 1, column 1: a key that cannot be printed"),
        ('"": 1', "line 1, column 1: a key that cannot be printed"),
        ("a: &a {b: 1}\nc: {<<: *a}", "line 2, column 5: `<<` is not supported"),
        ("a: !!python/name:os.system x", "line 1, column 4: a tag (`!…`)"),
        ("a: !!set {b, c}", "line 1, column 4: a tag (`!…`)"),
        ("a: !secret b", "line 1, column 4: a tag (`!…`)"),
        ("a: *b", "line 1, column 4: found undefined alias 'b'"),
        ("a: &a [*a]", "line 1, column 4: too many values, or values nested"),
        (f"l0: &l0 ha\n{LAUGHS}", "too many values, or values nested"),
        ("a: " + "[" * 40 + "]" * 40, "values nested too deeply"),
        ("[" * 5000, "nested too deeply"),
        ('a: "\\UFFFFFFFF"', "not YAML"),
        ('a: "\\ud800"', "line 1, column 4: a character that is not allowed in text"),
        ("a: b\nc: \x00", "line 2 holds a character that cannot be printed"),
        (b"a: b\nc: \xff", "line 2 is not UTF-8"),
        ("agent: {}".encode("utf-16"), "line 1 is not UTF-8"),
        (b"#" * (1024 * 1024 + 1), "larger than 1 MiB"),
    ],
)
def test_a_broken_file_is_named_with_its_place(
    load: Load, tmp_path: Path, text: str | bytes, problem: str
) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(text)
    assert refusal.value.key == str(tmp_path / "config.yaml")
    assert problem in refusal.value.problem


def test_a_directory_in_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigInvalid, match="this is a directory"):
        load_config(tmp_path, {})


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_link_to_nothing_is_refused(tmp_path: Path, name: str) -> None:
    """Its disk may not be mounted yet: a gateway must not start without the configuration it was given."""
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigInvalid, match="a link to a missing file") as refusal:
        load_config(tmp_path, {})
    assert refusal.value.key == str(tmp_path / name)


def test_a_file_in_place_of_the_home_is_refused(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_config(tmp_path / "home", {})
