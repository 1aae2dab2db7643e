"""Folders with a `SKILL.md`: which of them are skills, and why the others are not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from hermes_trio.tools.sandbox.session_sandbox import SandboxKind, SessionSandbox
from hermes_trio.tools.sandbox.views import Room
from hermes_trio.tools.skill_folders import MOST_SKILLS, SkillInvalid, find_skills, read_skill

HEAD = "---\nname: tea\ndescription: Brew a pot of tea.\n---\n"


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The home of a gateway, beside the login of a person."""
    monkeypatch.setenv("HOME", str(tmp_path / "login"))
    return tmp_path / "home"


def written(folder: Path, text: str = HEAD) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_bytes(text.encode("utf-8", "surrogateescape"))
    return folder


def test_skills_of_both_places_are_found_also_in_folders_of_folders(home: Path, tmp_path: Path) -> None:
    tea = written(home / "skills/kitchen/tea", HEAD + "Boil water.\n")
    (tea / "parts").mkdir()
    (tea / "parts/kinds.md").write_text("Green. Black.")
    (tea / ".git").mkdir()
    (tea / ".git/config").write_text("")
    written(tmp_path / "login/.hermes/skills/mail", "---\ndescription: 'Write\n  a letter.'\n---\nDear")
    written(tmp_path / "login/.hermes/skills/.hub/hidden")
    found = find_skills(home)
    assert list(found.skills) == ["tea", "mail"]
    assert (found.skills["tea"].instructions, found.skills["tea"].files) == (
        "Boil water.",
        ["parts/kinds.md"],
    )
    assert found.skills["mail"].description == "Write a letter."
    assert found.refused == ()


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("Boil water.", "SKILL.md has no head"),
        ("---\nname: tea\n", "SKILL.md has no head"),
        ("---\nname: [\n---\n", "the head of SKILL.md is not valid YAML"),
        ("---\n- tea\n---\n", "the head of SKILL.md is not valid YAML"),
        ("---\nname: tea\n---\n", "it has no description"),
        ("---\nname: tea\ndescription: [a]\n---\n", "it has no description"),
        ("---\nname: ../tea\ndescription: x\n---\n", "'../tea' cannot be its name"),
        (f"---\nname: {'t' * 65}\ndescription: x\n---\n", f"'{'t' * 64}' cannot be its name"),
        ('---\nname: tea\ndescription: "a\\u200bb"\n---\n', "its description has invisible characters"),
        (HEAD + "x" * 70_000, "SKILL.md is larger than 65536 bytes"),
    ],
)
def test_a_folder_that_is_no_skill_is_refused_with_the_reason(home: Path, text: str, problem: str) -> None:
    folder = written(home / "skills/tea", text)
    found = find_skills(home)
    assert [(one.folder, one.problem) for one in found.refused] == [(folder, problem)]
    assert all(one.remedy for one in found.refused)
    assert not found.skills


@pytest.mark.parametrize("kind", ["directory", "pipe", "nothing"])
def test_a_skill_file_that_is_no_file_is_refused_at_once(home: Path, kind: str) -> None:
    folder = home / "skills/tea"
    folder.mkdir(parents=True)
    match kind:
        case "directory":
            (folder / "SKILL.md").mkdir()
        case "pipe":
            os.mkfifo(folder / "SKILL.md")
        case _:
            (folder / "SKILL.md").symlink_to("nowhere")
    with pytest.raises(SkillInvalid, match=r"SKILL\.md"):
        read_skill(folder)
    assert len(find_skills(home).refused) == 1


def test_a_long_description_is_shortened_to_one_short_line(home: Path) -> None:
    skill = read_skill(written(home / "tea", f"---\nname: tea\ndescription: {'so ' * 200}\n---\n"))
    assert len(skill.description) == 300
    assert skill.description.endswith("…")


def test_of_two_skills_with_one_name_the_first_counts_and_the_other_is_named(
    home: Path, tmp_path: Path
) -> None:
    mine = written(home / "skills/tea")
    theirs = written(tmp_path / "login/.hermes/skills/tea")
    found = find_skills(home)
    assert found.skills["tea"].folder == mine
    assert [(one.folder, one.problem) for one in found.refused] == [
        (theirs, f"tea is the name of {mine} too")
    ]


def test_linked_folders_are_skills_and_circles_of_links_end(home: Path, tmp_path: Path) -> None:
    written(tmp_path / "elsewhere/tea")
    (home / "skills").mkdir(parents=True)
    (home / "skills/linked").symlink_to(tmp_path / "elsewhere")
    (home / "skills/again").symlink_to(home / "skills")
    assert list(find_skills(home).skills) == ["tea"]


def test_more_skills_than_a_prompt_can_take_are_refused(home: Path) -> None:
    for number in range(MOST_SKILLS + 1):
        written(home / f"skills/s{number:03}", f"---\ndescription: {number}\n---\n")
    found = find_skills(home)
    assert len(found.skills) == MOST_SKILLS
    assert [one.problem for one in found.refused] == [f"there are more than {MOST_SKILLS} skills"]


@pytest.mark.parametrize("kind", [SandboxKind.BUBBLEWRAP, SandboxKind.OFF])
def test_a_linked_skill_that_commands_can_change_is_refused_in_a_sandbox(
    home: Path, tmp_path: Path, kind: SandboxKind
) -> None:
    work = tmp_path / "login/work"
    written(work / "tea")
    written(home / "skills/coffee", "---\ndescription: Coffee.\n---\n")
    (home / "skills/tea").symlink_to(work / "tea")
    # The work directory has the home in it, which commands cannot write to.
    room = Room(home=home, work=tmp_path, scratch=home / "scratch", files=home / "files")
    found = find_skills(home, SessionSandbox(kind, room))
    refused = [(one.folder.name, one.problem) for one in found.refused]
    if kind is SandboxKind.OFF:
        assert (list(found.skills), refused) == (["coffee", "tea"], [])
    else:
        assert (list(found.skills), refused) == (
            ["coffee"],
            [("tea", "commands of the agent can change it")],
        )
