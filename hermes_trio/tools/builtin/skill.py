"""The tool `skill`: loads the instructions of the owner for a kind of work."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import trio
from msgspec import Meta

from ..sandbox.session_sandbox import SessionSandbox
from ..skill_folders import LONGEST_NAME, find_skills
from ..tool import Result, Tool, ToolFailed, Workplace


class SkillArguments(msgspec.Struct, frozen=True):
    name: Annotated[str, Meta(max_length=LONGEST_NAME, description="The name of the skill.")]


async def _load(arguments: SkillArguments, place: Workplace) -> Result:
    find = partial(_found, arguments.name, place.home, place.sandbox)
    return Result(await trio.to_thread.run_sync(find, abandon_on_cancel=True))


def _found(name: str, home: Path, sandbox: SessionSandbox) -> str:
    """Return a skill as the model gets it. Raises `ToolFailed` if there is none by this name."""
    skills = find_skills(home, sandbox).skills
    if (skill := skills.get(name)) is None:
        raise ToolFailed(f"There is no skill {name!r}. There are: {', '.join(skills) or 'none'}.")
    files = f"Other files in it: {', '.join(skill.files)}\n" if skill.files else ""
    return f"Skill {skill.name}, in {skill.folder}\n{files}\n{skill.instructions}"


SKILL = Tool(
    "skill",
    "Loads a skill by its name: the owner's instructions for a kind of work. Do it before such work, and "
    "follow them.",
    SkillArguments,
    _load,
    reads_only=True,
)
