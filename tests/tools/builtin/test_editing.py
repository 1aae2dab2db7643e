"""Edits of a text: exact and inexact matches, failures, and diffs."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.tools.builtin.editing import TextEdit, difference, edited
from hermes_trio.tools.tool import NotShown, ToolFailed

CODE = "def one():\n    if True:\n        return 1\n\n\ndef two():\n    return 2\n"


def test_an_edit_replaces_a_unique_text() -> None:
    assert edited(CODE, [TextEdit("return 2", "return 3")]) == CODE.replace("return 2", "return 3")
    assert (
        edited(CODE, [TextEdit("\n\ndef two():\n    return 2\n", "")])
        == "def one():\n    if True:\n        return 1\n"
    )


def test_an_edit_of_a_text_that_occurs_twice_fails() -> None:
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
def test_an_edit_ignores_spaces_and_keeps_the_indentation(old: str, new: str, result: str) -> None:
    assert edited(CODE, [TextEdit(old, new)]) == CODE.replace("    if True:\n        return 1", result)


def test_an_edit_of_two_similar_texts_fails() -> None:
    with pytest.raises(ToolFailed, match="lines 1, 3"):
        edited("  a\nb\n    a\n", [TextEdit(" a ", "c")])


def test_an_edit_keeps_the_line_endings() -> None:
    assert edited("a\r\nb\r\nc\r\n", [TextEdit("a\nb", "x\ny")]) == "x\r\ny\r\nc\r\n"


def test_of_several_edits_all_are_made_or_none() -> None:
    assert edited("a b", [TextEdit("a", "b c"), TextEdit("c b", "d")]) == "b d", (
        "an edit sees the result of the edits before it"
    )
    with pytest.raises(ToolFailed, match=r"Edit 2 of 2.*Nothing was changed"):
        edited("a b", [TextEdit("a", "c"), TextEdit("z", "y")])


@pytest.mark.parametrize(
    "edit", [TextEdit("", "x"), TextEdit("\n ", "x"), TextEdit("a", "a"), TextEdit("return three", "x")]
)
def test_an_impossible_edit_fails(edit: TextEdit) -> None:
    with pytest.raises(ToolFailed):
        edited(CODE, [edit])


def test_a_failed_edit_names_the_most_similar_line() -> None:
    with pytest.raises(ToolFailed, match="Line 7 is similar: 'return 2'"):
        edited(CODE, [TextEdit("retrun 2", "x")])


lines = st.lists(
    st.sampled_from(["a", "b", "  c", "d d", "", "a\r", "a\x0cb", "a\u2028b", "\x85"]), max_size=30
)
contents = st.builds(lambda lines, end: "\n".join(lines) + end, lines, st.sampled_from(["", "\n"]))


@given(old=contents, new=contents)
def test_git_can_apply_a_diff(old: str, new: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    diff = difference(old, new, "file", whole=True)
    if old == new:
        return
    place = tmp_path_factory.mktemp("diff")
    (place / "file").write_bytes(old.encode())
    done = subprocess.run(
        ["git", "apply", "--unidiff-zero", "-p0", "-"],
        input=diff.encode() + b"\n",
        cwd=place,
        capture_output=True,
        check=False,
    )
    assert done.returncode == 0, (diff, done.stderr)
    made = (place / "file").read_bytes() if (place / "file").exists() else b""
    assert made.decode() == new, "the diff has every character of the change"


def test_a_diff_counts_from_the_beginning_of_the_file() -> None:
    before = "".join(f"{number}\n" for number in range(1, 41))
    assert difference(before, before.replace("20\n", "x\n"), "f").split("\n")[2] == "@@ -17,7 +17,7 @@"


def test_a_diff_of_a_very_large_change_is_one_line() -> None:
    before, after = "\n".join(map(str, range(9000))), "\n".join(map(str, range(9000, 18000)))
    assert difference(before, after, "file") == "file: lines 1 to 9000 are now 1 to 9000."
    with pytest.raises(NotShown, match="more than 3000 lines"):
        difference(before, after, "file", whole=True)
