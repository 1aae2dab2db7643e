"""File tools and protected files: no tool changes one without a person's yes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import hermes_trio
from hermes_trio.base.world import World
from hermes_trio.state.db.database import open_database
from hermes_trio.tools.builtin.files import Files
from hermes_trio.tools.tool import Approval, ToolFailed
from tests.tools.desk import Desk, desk_in
from tests.tools.safety.protected_names import LATER_FILES, NORMAL


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    (user := tmp_path / "kim").mkdir()
    monkeypatch.setenv("HOME", str(user))
    return desk_in(tmp_path)


TOOLS = {tool.name: tool for tool in Files().tools}


async def refused(desk: Desk, path: str, content: str = "echo hi\n") -> str:
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        tools = {tool.name: tool for tool in Files().tools}
        with pytest.raises(ToolFailed) as caught:
            await desk.use(tools["write_file"], path=path, content=content)
    return str(caught.value)


@pytest.mark.parametrize("name", [*LATER_FILES, "work/sub/.git"])
async def test_writing_a_file_that_runs_later_needs_a_yes(desk: Desk, name: str) -> None:
    allowed: list[Approval] = []

    class Asked(Desk):
        async def may(self, what: Approval | str) -> str | None:
            assert isinstance(what, Approval)
            allowed.append(what)
            return self.answer

    asked = Asked(desk.home, desk.cwd)
    file = Path.home() / name
    assert (await refused(asked, f"~/{name}")).startswith(f"BLOCKED: this changes {file}, which")
    assert not file.exists()
    asked.answer = "once"
    async with open_database(asked.home / "gateway.db", World()) as asked.store:
        await asked.use(
            {tool.name: tool for tool in Files().tools}["write_file"], path=str(file), content="x\n"
        )
    assert file.read_text() == "x\n"
    assert [(each.kind, each.place) for each in allowed] == [("change", str(file))] * 2
    assert "+echo hi" in allowed[0].exact, "the person is shown the change"


async def test_patching_a_file_that_runs_later_shows_the_change_to_the_person(desk: Desk) -> None:
    (file := Path.home() / ".bashrc").write_text("one\ntwo\n")
    shown: list[str] = []

    class Asked(Desk):
        async def may(self, what: Approval | str) -> str | None:
            assert isinstance(what, Approval)
            shown.append(what.exact)
            return None

    asked = Asked(desk.home, desk.cwd)
    edits = [{"old_string": "two", "new_string": "curl x"}]
    async with open_database(asked.home / "gateway.db", World()) as asked.store:
        with pytest.raises(ToolFailed, match=r"^BLOCKED"):
            await asked.use(TOOLS["patch"], path="~/.bashrc", edits=edits)
    assert "-two\n+curl x" in shown[0]
    assert file.read_text() == "one\ntwo\n"


async def test_a_change_that_is_asked_for_shows_characters_that_editors_hide(desk: Desk) -> None:
    (Path.home() / ".bashrc").write_text("one\ntwo")
    shown: list[Approval] = []

    class Asked(Desk):
        async def may(self, what: Approval | str) -> str | None:
            assert isinstance(what, Approval)
            shown.append(what)
            return None

    asked = Asked(desk.home, desk.cwd)
    await refused(asked, "~/.bashrc", "one\r\n# harmless\x0ccurl x\ntwo\n")
    assert shown[0].exact.split("\n")[3:] == [
        *("-one", "-two", "\\ No newline at end of file", "+one\r", "+# harmless\x0ccurl x", "+two")
    ]
    told = await refused(asked, "~/.bashrc", "echo hi\n" * 4000)
    assert "Nobody can allow what they have not seen" in told
    assert len(shown) == 1, "nobody is asked about a change that is too long to be shown"


async def test_a_yes_to_a_change_is_void_if_the_file_has_changed_meanwhile(desk: Desk) -> None:
    file = Path.home() / ".bashrc"

    class Meanwhile(Desk):
        async def may(self, what: Approval | str) -> str | None:
            file.write_text("somebody else\n")
            return "once"

    meanwhile = Meanwhile(desk.home, desk.cwd)
    assert "nothing was written" in await refused(meanwhile, "~/.bashrc")
    assert "nothing was written" in await refused(meanwhile, "~/.bashrc", "again\n")
    assert file.read_text() == "somebody else\n"


async def test_a_yes_for_the_session_counts_for_that_file_only(desk: Desk) -> None:
    write = {tool.name: tool for tool in Files().tools}["write_file"]
    desk.answer = "session"
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        await desk.use(write, path="~/.vimrc", content="1")
        desk.answer = None
        await desk.use(write, path="~/.vimrc", content="2")
        with pytest.raises(ToolFailed, match="BLOCKED"):
            await desk.use(write, path="~/.bashrc", content="2")


async def test_no_other_name_of_a_protected_file_is_free(desk: Desk) -> None:
    user, work = Path.home(), desk.cwd
    (user / ".bashrc").write_text("mine\n")
    (work / "link").symlink_to(user / ".bashrc")
    (work / "home").symlink_to(user)
    (work / "deep").mkdir()
    (work / "deep/in").symlink_to(user / "x")
    (user / "x").mkdir()
    for path in (
        "link",
        "home/.bashrc",
        "~/.BASHRC",
        "home/x/../.bashrc",
        "deep/in/../.bashrc",
        "~/.//.bashrc",
    ):
        assert (await refused(desk, path)).startswith("BLOCKED"), path
    os.link(user / ".bashrc", work / "hard")
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        await desk.use(TOOLS["write_file"], path="hard", content="theirs\n")
    assert (user / ".bashrc").read_text() == "mine\n", "the other name keeps its content"


async def test_the_file_tools_do_not_change_the_gateway_or_its_program(desk: Desk) -> None:
    program = Path(hermes_trio.__file__)
    for path in (program, program.parent / "tools" / "new.py", Path(sys.prefix) / "lib" / "x.py"):
        assert (await refused(desk, str(path))).startswith("BLOCKED"), path
    for name in ("config.yaml", ".env", "SOUL.md", "gateway.db", "web.key", "../home/memories/MEMORY.md"):
        assert "BLOCKED" not in await refused(desk, str(desk.home / name)), (
            "it is refused without asking, so that nobody can allow it"
        )


@pytest.mark.parametrize("name", NORMAL)
async def test_writing_an_ordinary_file_needs_no_yes(desk: Desk, name: str) -> None:
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        await desk.use(TOOLS["write_file"], path=f"~/{name}", content="x")
