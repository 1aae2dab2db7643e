"""Landlock without namespaces cannot protect a file inside of a directory that may be written. A person is
asked before a command runs there, and told the names."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import msgspec
import pytest

from hermes_trio.base.world import World
from hermes_trio.config.schema import ApprovalsConfig, GatewayConfig, TerminalConfig
from hermes_trio.state.db.database import open_database
from hermes_trio.state.tables import meta
from hermes_trio.state.tables.approvals import ALWAYS
from hermes_trio.tools.approval import Permissions
from hermes_trio.tools.needs import needed
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind
from hermes_trio.tools.tool import Approval, ToolFailed
from tests.tools.desk import Desk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")


@dataclass
class Asked(Desk):
    """A desk in this sandbox, whose person sees what is asked."""

    kind: SandboxKind = SandboxKind.LANDLOCK_ALONE
    answer: str | None = "once"
    shown: list[Approval] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    async def may(self, what: Approval | str) -> str | None:
        assert isinstance(what, Approval)
        self.shown.append(what)
        return self.answer

    async def runs(self, permissions: Permissions, *needs: str) -> bool:
        """Return whether a command may run, with these needs."""
        try:
            await permissions.grant("make site", needed(needs, self.cwd), self, cwd=self.cwd)
        except ToolFailed as error:
            self.refusals.append(str(error))
            return False
        return True


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Asked]:
    top = tmp_path.resolve()
    for name in ("home", "work/.git/hooks"):
        (top / name).mkdir(parents=True)
    (top / "work" / ".env").touch()
    desk = Asked(top / "home", top / "work")
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        yield desk


async def test_the_question_names_the_places_and_the_way_to_end_it(desk: Asked) -> None:
    assert await desk.runs(Permissions())
    (shown,) = desk.shown
    assert shown.grants == (
        f"exposed secret {desk.cwd}/.env",
        f"exposed file that runs later {desk.cwd}/.git/hooks",
    )
    assert shown.description.startswith(
        f"This can read secrets in {desk.cwd}; can change files that run later in {desk.cwd}. "
    )
    assert "So that nobody is asked: install bubblewrap" in shown.description


@pytest.mark.parametrize("answer", [None, "deny"])
async def test_without_a_yes_nothing_runs(desk: Asked, answer: str | None) -> None:
    desk.answer = answer
    assert not await desk.runs(Permissions())
    assert "So that nobody is asked: install bubblewrap" in desk.refusals[0]


async def test_a_yes_for_the_session_is_one_question(desk: Asked) -> None:
    permissions, desk.answer = Permissions(), "session"
    assert await desk.runs(permissions)
    (desk.cwd / ".git" / "config").touch()
    desk.answer = None
    assert await desk.runs(permissions), "another file of the same kind in the same directory is included"
    desk.session_id = "session-2"
    assert not await desk.runs(permissions)


async def test_a_yes_to_settings_does_not_include_a_secret_that_comes_later(desk: Asked) -> None:
    (desk.cwd / ".env").unlink()
    permissions, desk.answer = Permissions(), "always"
    assert await desk.runs(permissions)
    ((stored, _),) = await desk.database.read(meta.every, ALWAYS)
    assert stored == f"{ALWAYS}grant: exposed files that run later in {desk.cwd}"
    (desk.cwd / ".env").touch()
    desk.answer = None
    assert not await desk.runs(permissions)
    assert desk.shown[-1].description.startswith(f"This can read secrets in {desk.cwd}. ")


async def test_another_writable_directory_is_asked_about_by_its_name(desk: Asked) -> None:
    (shared := desk.home.parent / "shared").mkdir()
    (shared / ".envrc").touch()
    permissions, desk.answer = Permissions(), "session"
    assert await desk.runs(permissions)
    terminal = TerminalConfig(writable=(str(shared),))
    desk.config, desk.answer = msgspec.structs.replace(desk.config, terminal=terminal), None
    assert not await desk.runs(permissions)
    assert f"exposed file that runs later {shared}/.envrc" in desk.shown[-1].grants
    assert desk.shown[-1].description.startswith(f"This can change files that run later in {shared}. ")


async def test_nobody_is_asked_where_nothing_is_exposed(desk: Asked) -> None:
    desk.answer = None
    desk.kind = SandboxKind.BUBBLEWRAP
    assert await desk.runs(Permissions())
    desk.kind = SandboxKind.LANDLOCK_ALONE
    desk.config = msgspec.structs.replace(GatewayConfig(), approvals=ApprovalsConfig(mode="off"))
    assert await desk.runs(Permissions()), "the owner has turned the questions off"
    desk.config = GatewayConfig()
    (desk.cwd / ".env").unlink()
    (desk.cwd / ".git" / "hooks").rmdir()
    assert await desk.runs(Permissions())
    assert not desk.shown


async def test_many_places_are_counted(desk: Asked) -> None:
    for number in range(30):
        (desk.cwd / f".env.{number:02}").touch()
    assert await desk.runs(Permissions())
    assert len(desk.shown[0].grants) == 13
    assert desk.shown[0].grants[-1] == "exposed places that are not named here: 20"
