"""`hermes-trio prompt show`: what each request to the model begins with, and the length of each part.

It builds the prompt of a new session on the page as a running gateway would, and connects the configured MCP
servers for it, because their tools are a part of each request. Lengths are the estimates by which
conversations are shortened.
"""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import trio

from ...agent.compaction import tokens_of_text, tokens_of_tool
from ...agent.demo_model import DemoModel
from ...agent.prompt import prompt_parts
from ...agent.toolset import Toolbox, Toolset, disabled_tools
from ...base.world import World
from ...config.config_file import Loaded, home_directory, load_config
from ...config.known_secrets import masking_of
from ...tools.all_tools import toolbox
from ...tools.builtin.memory import snapshot
from ...tools.builtin.skill import SKILL
from ...tools.mcp.mcp_servers import open_servers
from ...tools.memory_folder import FOLDER
from ...tools.skill_folders import find_skills
from ..home_reader import print_table

CONNECTS_WITHIN = 20.0
"""Seconds in which an MCP server has to be ready to be counted."""


@click.group()
def command() -> None:
    """Print what a request to the model begins with."""


@command.command()
@click.option("--text", is_flag=True, help="Print the text of the prompt instead of the lengths.")
def show(text: bool) -> None:
    """Print the parts of the prompt of a new session on the page, and the tools, with the tokens of each.

    A session keeps its prompt, so that the cache of a provider holds over all its requests.
    """
    home = home_directory(os.environ)
    loaded = load_config(home, os.environ)
    world = World()
    with TemporaryDirectory(prefix="hermes-trio-prompt-") as folder:  # the logs of the servers do not mix
        tools = trio.run(_tools, loaded, Path(folder), world)
    skills = find_skills(home).skills.values() if SKILL.name in tools.tools else ()
    parts = prompt_parts(home, None, world.now(), snapshot(home / FOLDER), skills)
    if text:
        click.echo("\n\n".join(parts.values()))
        return
    lengths = {name: tokens_of_text(part) for name, part in parts.items()}
    lengths |= {f"tool {spec.name}": tokens_of_tool(spec) for spec in tools.specs}
    lengths["all"] = sum(lengths.values())
    print_table(("part", "tokens"), [(name, f"{tokens:6,}") for name, tokens in lengths.items()], texts=[0])
    click.echo("Tokens are estimated. A session keeps the prompt it began with.")


async def _tools(loaded: Loaded, folder: Path, world: World) -> Toolset:
    """Return the tools that a gateway with this configuration offers. MCP servers have their logs in
    `folder`."""
    config, tell = loaded.config, partial(click.echo, err=True)
    redact = masking_of(loaded.path.parent, config, loaded.environ)
    async with open_servers(
        config, folder, world, redact=redact, tell=tell, connects_within=CONNECTS_WITHIN
    ) as servers:
        for one in servers.every if servers else ():
            await one.settled.wait()
        box = Toolbox(
            lambda: nullcontext(DemoModel(world)), toolbox(), servers, disabled=disabled_tools(config)
        )
        return await box.tools()
