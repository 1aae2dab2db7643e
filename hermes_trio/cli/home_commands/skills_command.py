"""`hermes-trio skills`: list, print, add and check the skills of a home. It works beside a running gateway;
sessions that begin afterwards know the change."""

from __future__ import annotations

import os
import shutil
import tempfile
from pathlib import Path

import click

from ...base.errors import GatewayError
from ...base.plural import counted
from ...config.config_file import home_directory
from ...host.files.private_files import make_private_dir
from ...tools.skill_folders import FILE, MOST_FILES, Skill, find_skills, read_skill, skill_places
from ..home_reader import print_table

LARGEST_SKILL = 16 * 1024 * 1024
FOLDER = click.Path(exists=True, file_okay=False, path_type=Path)


class SkillNotAdded(GatewayError):
    """A skill was not added."""


@click.group()
def command() -> None:
    """List, print, add and check the agent's skills."""


@command.command("list")
def list_() -> None:
    """List the skills that new sessions know."""
    home = home_directory(os.environ)
    found = find_skills(home)
    if found.skills:
        rows = [(one.name, one.description, str(one.folder)) for one in found.skills.values()]
        print_table(("skill", "for", "folder"), rows, texts=[1, 2])
    else:
        click.echo(f"There are no skills. Put folders with a {FILE} into {skill_places(home)[0]}.")
    if found.refused:
        refused = counted(len(found.refused), "folder")
        click.echo(f"{refused} could not be loaded; `hermes-trio skills check` tells why.", err=True)


@command.command()
@click.argument("name")
def show(name: str) -> None:
    """Print the skill NAME."""
    skills = find_skills(home_directory(os.environ)).skills
    if (skill := skills.get(name)) is None:
        raise GatewayError(f"there is no skill {name!r}. `hermes-trio skills list` shows all skills.")
    _print(skill)
    click.echo(f"\n{skill.instructions}")


@command.command()
@click.argument("folder", type=FOLDER)
@click.option("--yes", is_flag=True, help="Add it without a question.")
def add(folder: Path, yes: bool) -> None:
    """Copy the skill in FOLDER into the home, after a look at it. Its instructions and programs are followed
    like your own words, so read them first."""
    home = home_directory(os.environ)
    skill = read_skill(folder)
    _print(skill)
    if (known := find_skills(home).skills.get(skill.name)) is not None:
        raise SkillNotAdded(f"there is a skill {skill.name} already, in {known.folder}. Remove it first.")
    if not yes and not click.confirm("Add it?"):
        raise SkillNotAdded("nothing was added.")
    place = skill_places(home)[0]
    make_private_dir(place)
    _copy(folder, place / skill.name)
    click.echo(f"Added as {place / skill.name}. New sessions know it.")


@command.command()
@click.argument("folder", type=FOLDER, required=False)
def check(folder: Path | None) -> None:
    """Check all skills, or the one in FOLDER. The exit status is 1 if one cannot be loaded."""
    if folder is not None:
        _print(read_skill(folder))
        return
    found = find_skills(home_directory(os.environ))
    for refused in found.refused:
        click.echo(str(refused))
    click.echo(f"{counted(len(found.skills), 'skill')} can be loaded, {len(found.refused)} cannot.")
    raise SystemExit(bool(found.refused))


def _print(skill: Skill) -> None:
    """Print what a skill is, and which of its files are programs."""
    click.echo(f"{skill.name}: {skill.description}")
    for name in skill.files:
        is_program = os.access(skill.folder / name, os.X_OK)
        click.echo(f"  {name}{' (a program)' if is_program else ''}")


def _copy(source: Path, target: Path) -> None:
    """Copy a folder without following links: it appears whole or not at all. Raises `SkillNotAdded`."""
    paths = [path for path in source.rglob("*") if not path.is_dir()]
    if links := [path for path in source.rglob("*") if path.is_symlink()]:
        raise SkillNotAdded(f"{links[0]} is a link. Replace it by what it names.")
    size = sum(path.stat().st_size for path in paths)
    if size > LARGEST_SKILL or len(paths) > MOST_FILES:
        limit = f"{MOST_FILES} files and {LARGEST_SKILL >> 20} MB"
        raise SkillNotAdded(f"{source} has more than {limit}. Leave out what the skill does not need.")
    try:
        with tempfile.TemporaryDirectory(prefix=".", dir=target.parent) as beside:
            shutil.copytree(source, Path(beside, "skill"))
            os.rename(Path(beside, "skill"), target)
    except OSError as error:
        raise SkillNotAdded(f"{target} cannot be written ({error.strerror or error}).") from error
