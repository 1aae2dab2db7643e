"""Skills: instructions for a kind of work, each in a folder of the owner's with a file `SKILL.md`.

    ---
    name: invoices
    description: Write an invoice as the firm wants it.
    ---
    Take the number from ...

The file begins with a head in YAML, and goes on with instructions in Markdown. Other files that they speak of
lie beside it. The prompt of a session has the names and the descriptions only; the agent loads a skill when
it needs it. Nothing of a skill is ever run unasked, and none is fetched.

Commands of the agent can read these directories and not write to them. A linked folder that they can write to
is not loaded: what one conversation has written there would instruct the next ones.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..base.errors import ConfigInvalid, GatewayError
from ..config.config_text import Scalar, parse_yaml
from ..host.files.json_files import LARGEST, UnreadableFile, read_small
from .sandbox.session_sandbox import SessionSandbox

FILE = "SKILL.md"
MOST_SKILLS = 200
MOST_DIRECTORIES = 2_000
DEPTH = 4
"""Directories below a place of skills in which they are looked for."""
LONGEST_DESCRIPTION = 300
MOST_FILES = 200

_HEAD = re.compile(r"\A\ufeff?---[ \t]*\r?\n(.*?)^---[ \t]*\r?\n?(.*)\Z", re.DOTALL | re.MULTILINE)
_NAME = re.compile(r"[a-z0-9]+(?:[-_.][a-z0-9]+)*")
LONGEST_NAME = 64


class SkillInvalid(GatewayError):
    """A folder holds no skill that can be loaded."""

    def __init__(self, folder: Path, problem: str, remedy: str) -> None:
        super().__init__(f"{folder}: {problem}. {remedy}")
        self.folder, self.problem, self.remedy = folder, problem, remedy


@dataclass(frozen=True, slots=True)
class Skill:
    """A skill that can be loaded."""

    name: str
    description: str
    """Its purpose, in one line."""
    folder: Path
    instructions: str

    @property
    def files(self) -> list[str]:
        """The names of the other files in its folder."""
        found = (path for path in _files_below(self.folder) if path != self.folder / FILE)
        return sorted(str(path.relative_to(self.folder)) for path in found)


@dataclass(frozen=True, slots=True)
class FoundSkills:
    """The skills in the places for them, by name, and the folders that hold none that can be loaded."""

    skills: dict[str, Skill]
    refused: tuple[SkillInvalid, ...]


def skill_places(home: Path) -> tuple[Path, ...]:
    """Return the directories of skills; of two skills with one name, that in the first directory counts. The
    second directory is that of hermes-agent."""
    return (home / "skills", Path("~/.hermes/skills").expanduser())


def find_skills(home: Path, sandbox: SessionSandbox | None = None) -> FoundSkills:
    """Look for all skills. With a sandbox, those that its commands could change are refused."""
    skills: dict[str, Skill] = {}
    refused: list[SkillInvalid] = []
    folders = [(folder, place) for place in skill_places(home) for folder in _skill_folders(place)]
    for folder, place in folders:
        try:
            skill = read_skill(folder)
            if sandbox is not None and _is_open(folder, place, sandbox):
                remedy = "Copy it with `hermes-trio skills add`."
                raise SkillInvalid(folder, "commands of the agent can change it", remedy)
            if (first := skills.get(skill.name)) is not None:
                raise SkillInvalid(
                    folder, f"{skill.name} is the name of {first.folder} too", "Rename one of them."
                )
            if len(skills) == MOST_SKILLS:
                raise SkillInvalid(folder, f"there are more than {MOST_SKILLS} skills", "Remove some.")
        except SkillInvalid as error:
            refused.append(error)
        else:
            skills[skill.name] = skill
    return FoundSkills(skills, tuple(refused))


def read_skill(folder: Path) -> Skill:
    """Read the skill in a folder. Raises `SkillInvalid`."""
    try:
        data, _ = read_small(folder / FILE)
    except UnreadableFile as error:
        remedy = f"{FILE} is a text of at most {LARGEST // 1024} KiB; put the rest into other files."
        raise SkillInvalid(folder, f"{FILE} {error}", remedy) from None
    except OSError as error:
        problem = f"{FILE} cannot be read ({error.strerror})"
        raise SkillInvalid(folder, problem, "Check the path and its permissions.") from None
    head = _HEAD.match(data.decode("utf-8", "replace"))
    if head is None:
        remedy = "Begin it with a line ---, the lines name: and description:, and another line ---."
        raise SkillInvalid(folder, f"{FILE} has no head", remedy)
    try:
        values = parse_yaml(head[1], folder / FILE)
    except ConfigInvalid as error:
        raise SkillInvalid(folder, f"the head of {FILE} is not valid YAML", str(error)) from None
    name, description = (_text(values.get(key)) for key in ("name", "description"))
    name = name or folder.name
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        remedy = f"Use at most {LONGEST_NAME} small letters and digits, with -, _ or . between them."
        raise SkillInvalid(folder, f"{name[:LONGEST_NAME]!r} cannot be its name", remedy)
    if not description:
        raise SkillInvalid(folder, "it has no description", "Say in one line what it is for.")
    if any(unicodedata.category(letter) in ("Cc", "Cf", "Co", "Cs") for letter in description):
        raise SkillInvalid(folder, "its description has invisible characters", "Remove them.")
    if len(description) > LONGEST_DESCRIPTION:
        description = f"{description[: LONGEST_DESCRIPTION - 1]}…"
    return Skill(name, description, folder, head[2].strip())


def _is_open(folder: Path, place: Path, sandbox: SessionSandbox) -> bool:
    """Return True if a command in the sandbox can write to a folder that is linked into a place of skills."""
    real = Path(os.path.realpath(folder))
    return sandbox.confines and not real.is_relative_to(os.path.realpath(place)) and sandbox.may_write(real)


def _text(value: object) -> str:
    """Return a value of the head as one line."""
    return " ".join(value.text.split()) if isinstance(value, Scalar) else ""


def _skill_folders(place: Path) -> Iterator[Path]:
    """Yield the folders with a `SKILL.md` at most `DEPTH` levels below a directory, each real one once. Below
    a skill there are no others."""
    seen: set[str] = set()
    waiting = [(place, 0)]
    while waiting and len(seen) < MOST_DIRECTORIES:
        folder, depth = waiting.pop()
        real = os.path.realpath(folder)
        if real in seen:
            continue
        seen.add(real)
        if depth and os.path.lexists(folder / FILE):
            yield folder
        elif depth < DEPTH:
            waiting += [(path, depth + 1) for path in reversed(_directories(folder))]


def _directories(folder: Path) -> list[Path]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:  # there is none, or it is closed to this account
        return []
    return [Path(entry.path) for entry in entries if not entry.name.startswith(".") and entry.is_dir()]


def _files_below(folder: Path) -> Iterator[Path]:
    """Yield the first files below a folder, without hidden ones and without following links."""
    count = 0
    for top, directories, names in os.walk(folder):
        directories[:] = sorted(name for name in directories if not name.startswith("."))
        for name in sorted(names):
            if count == MOST_FILES:
                return
            if not name.startswith("."):
                count += 1
                yield Path(top, name)
