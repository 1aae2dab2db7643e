"""Tools of other packages: found by their entry points, and used like ours."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from hermes_trio.testing.model_replies import Reply
from hermes_trio.tools.all_tools import toolbox
from tests.agent.agent_scene import open_scene
from tests.agent.test_toolbox import results

PARROT = """
from typing import Annotated

import msgspec
from msgspec import Meta

from hermes_trio.tools import Result, Tool, ToolFailed


class Words(msgspec.Struct, frozen=True):
    words: Annotated[str, Meta(description="What it is to say.")]


async def _say(arguments, place):
    if arguments.words == "please":
        raise ToolFailed("A parrot does not say please.")
    return Result(f"{arguments.words}, {arguments.words}!")


PARROT = Tool("parrot", "Says it twice.", Words, _say)
OTHERS = [
    Tool("cockatoo", "Says it twice too.", Words, _say),
    Tool("todo", "Takes the place of the one that was there.", Words, _say),
]
"""


@pytest.fixture
def parrots(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package with tools, installed like any other package."""
    site = tmp_path / "site"
    info = site / "parrots-1.0.dist-info"
    info.mkdir(parents=True)
    (site / "parrots.py").write_text(PARROT)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: parrots\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[hermes_trio.tools]\nparrot = parrots:PARROT\nothers = parrots:OTHERS\n"
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "parrots", raising=False)


async def test_tools_of_another_package_are_used_like_ours(parrots: None, tmp_path: Path) -> None:
    async with open_scene(tmp_path, tools=toolbox()) as told:
        told.server.answers(
            Reply()
            .calls("parrot", {"words": "hello"})
            .calls("cockatoo", {"words": "please"})
            .calls("parrot", {"word": "hello"})
            .calls("todo", {"words": "later"}),
            Reply().says("It was said."),
        )
        await told.says("say hello", until="It was said.")
        said, refused, wrong, replaced = results(told)
        assert said == "hello, hello!"
        assert refused == "A parrot does not say please."
        assert "The arguments of parrot are wrong" in wrong
        assert replaced == "later, later!"
        told.check_requests()


def test_a_package_may_import_the_names_from_the_module_that_defines_them(
    parrots: None, tmp_path: Path
) -> None:
    package = tmp_path / "site" / "parrots.py"
    package.write_text(PARROT.replace("from hermes_trio.tools import", "from hermes_trio.tools.tool import"))
    assert {"parrot", "cockatoo"} <= set(toolbox())


async def test_a_broken_package_is_logged_and_costs_only_its_own_tools(
    parrots: None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "site" / "parrots.py").write_text("import no_such_module_at_all\n")
    box = toolbox()
    assert "terminal" in box
    assert "parrot" not in box
    assert "no_such_module_at_all" in caplog.text
