"""Edits: what has to be found, what is forgiven, and that nothing is half done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.tools.builtin.editing import TextEdit, difference, edited
from hermes_trio.tools.tool import ToolFailed

CODE = "def one():\n    if True:\n        return 1\n\n\ndef two():\n    return 2\n"


def test_what_stands_there_once_is_replaced() -> None:
    assert edited(CODE, [TextEdit("return 2", "return 3")]) == CODE.replace("return 2", "return 3")
    assert (
        edited(CODE, [TextEdit("\n\ndef two():\n    return 2\n", "")])
        == "def one():\n    if True:\n        return 1\n"
    )


def test_what_stands_there_twice_is_not_guessed_at() -> None:
    with pytest.raises(ToolFailed, match="2 times"):
        edited(CODE, [TextEdit("def ", "async def ")])
    assert edited(CODE, [TextEdit("def ", "async def ", replace_all=True)]).count("async def") == 2


@pytest.mark.parametrize(
    ("old", "new", "result"),
    [
        ("if True:\n    return 1", "if False:\n    return 0", "    if False:\n        return 0"),
        ("  if True:\n      return 1", "  if False:\n      return 0", "    if False:\n        return 0"),
        ("if  True:\n\treturn  1\n", "pass", "    pass"),
    ],
)
def test_spaces_are_forgiven_and_the_place_keeps_its_indentation(old: str, new: str, result: str) -> None:
    assert edited(CODE, [TextEdit(old, new)]) == CODE.replace("    if True:\n        return 1", result)


def test_what_is_alike_twice_is_not_guessed_at() -> None:
    with pytest.raises(ToolFailed, match="lines 1, 3"):
        edited("  a\nb\n    a\n", [TextEdit(" a ", "c")])


def test_line_ends_stay_as_they_are() -> None:
    assert edited("a\r\nb\r\nc\r\n", [TextEdit("a\nb", "x\ny")]) == "x\r\ny\r\nc\r\n"


def test_of_several_edits_all_are_made_or_none() -> None:
    assert edited("a b", [TextEdit("a", "b c"), TextEdit("c b", "d")]) == "b d", (
        "each sees what the ones before did"
    )
    with pytest.raises(ToolFailed, match=r"Edit 2 of 2.*Nothing was changed"):
        edited("a b", [TextEdit("a", "c"), TextEdit("z", "y")])


@pytest.mark.parametrize(
    "edit", [TextEdit("", "x"), TextEdit("\n ", "x"), TextEdit("a", "a"), TextEdit("return three", "x")]
)
def test_what_cannot_be_made_says_why(edit: TextEdit) -> None:
    with pytest.raises(ToolFailed):
        edited(CODE, [edit])


def test_a_near_miss_is_told() -> None:
    with pytest.raises(ToolFailed, match="Line 7 is similar: 'return 2'"):
        edited(CODE, [TextEdit("retrun 2", "x")])


lines = st.lists(st.sampled_from(["a", "b", "  c", "d d", ""]), max_size=30)


@given(before=lines, after=lines)
def test_a_diff_is_what_patch_understands(
    before: list[str], after: list[str], tmp_path_factory: pytest.TempPathFactory
) -> None:
    old, new = ("".join(f"{line}\n" for line in one) for one in (before, after))
    diff = difference(old, new, "file")
    if old == new:
        return
    place = tmp_path_factory.mktemp("diff")
    (place / "file").write_text(old)
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", "-p0", "-"],
        input=diff + "\n",
        cwd=place,
        text=True,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (diff, done.stderr)
    made = Path(place / "file").read_text() if (place / "file").exists() else ""
    assert made == new


def test_a_diff_counts_from_the_beginning_of_the_file() -> None:
    before = "".join(f"{number}\n" for number in range(1, 41))
    assert difference(before, before.replace("20\n", "x\n"), "f").split("\n")[2] == "@@ -17,7 +17,7 @@"


def test_a_change_of_everything_is_told_in_a_line() -> None:
    before, after = "\n".join(map(str, range(9000))), "\n".join(map(str, range(9000, 18000)))
    assert difference(before, after, "file") == "file: lines 1 to 9000 are now 1 to 9000."
