"""A person is shown everything that a command would get, and what was shown is what runs."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from hermes_trio.base.world import World
from hermes_trio.config.schema import GatewayConfig, TerminalConfig
from hermes_trio.host.processes.process_groups import ChildProcess
from hermes_trio.state.db.database import open_database
from hermes_trio.tools.approval import Permissions
from hermes_trio.tools.background_process import BackgroundProcess
from hermes_trio.tools.builtin.process import Processes
from hermes_trio.tools.needs import needed
from hermes_trio.tools.sandbox.granted_hosts import Host
from hermes_trio.tools.sandbox.session_sandbox import SandboxKind
from hermes_trio.tools.sandbox.views import Grants
from hermes_trio.tools.tool import Approval, ToolFailed
from tests.tools.desk import Desk

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandboxes are Linux's")


@dataclass
class RunningProcess:
    """A stand-in for a process that takes input; it is never given any here."""

    stdin: object = field(default_factory=object)
    exit_code: None = None


@dataclass
class Asked(Desk):
    """A desk in a sandbox, whose person sees what is asked."""

    kind: SandboxKind = SandboxKind.BUBBLEWRAP
    answer: str | None = "once"
    shown: list[Approval] = field(default_factory=list)
    processes: list[BackgroundProcess] = field(default_factory=list)

    async def may(self, what: Approval | str) -> str | None:
        assert isinstance(what, Approval)
        self.shown.append(what)
        return self.answer

    def background(self) -> list[BackgroundProcess]:
        return self.processes


@pytest.fixture
async def desk(tmp_path: Path) -> AsyncIterator[Asked]:
    top = tmp_path.resolve()
    for name in ("home", "work", "site"):
        (top / name).mkdir()
    desk = Asked(top / "home", top / "work")
    async with open_database(desk.home / "gateway.db", World()) as desk.store:
        yield desk


async def granted(desk: Asked, permissions: Permissions, *needs: str, cwd: Path | None = None) -> Grants:
    cwd = cwd or desk.cwd
    return await permissions.grant("make site", needed(needs, cwd), desk, cwd=cwd)


@pytest.mark.parametrize(
    ("needs", "grants"),
    [
        (["network"], ["network"]),
        (["network example.org"], ["network example.org"]),
        (
            ["network Example.org.", "network [2606:4700::1111]:8443"],
            ["network example.org", "network [2606:4700::1111]:8443"],
        ),
        (["network example.org", "network"], ["network"]),
        (["write ../site"], ["write {top}/site"]),
        (["write ../site", "network"], ["network", "write {top}/site"]),
        (["everything", "network"], ["everything: it runs outside of the sandbox"]),
    ],
)
async def test_a_person_is_shown_what_a_command_would_get(
    desk: Asked, needs: Sequence[str], grants: Sequence[str]
) -> None:
    await granted(desk, Permissions(), *needs)
    [asked] = desk.shown
    assert (asked.exact, asked.place) == ("make site", str(desk.cwd))
    assert list(asked.grants) == [grant.format(top=desk.cwd.parent) for grant in grants]


async def test_a_person_is_also_shown_what_was_allowed_before(desk: Asked) -> None:
    permissions = Permissions()
    desk.answer = "session"
    await granted(desk, permissions, "network")
    await granted(desk, permissions, "network", "write ../site")
    assert desk.shown[-1].grants == ("network", f"write {desk.cwd.parent}/site")
    assert "network" not in desk.shown[-1].description, "only the new grant is a question"
    desk.config = GatewayConfig(terminal=TerminalConfig(network="on"))
    await granted(desk, Permissions(), "write ../site")
    assert desk.shown[-1].grants == ("network", f"write {desk.cwd.parent}/site")


@pytest.mark.parametrize("answer", ["session", "always"])
async def test_a_yes_for_a_host_is_for_this_host_only(desk: Asked, answer: str) -> None:
    permissions = Permissions()
    desk.answer = answer
    first = await granted(desk, permissions, "network example.org")
    assert (first.network, first.hosts) == (False, (Host("example.org"),))
    assert desk.shown[-1].description == "This connects to example.org."
    assert await granted(desk, permissions, "network example.org") == first
    assert len(desk.shown) == 1, "it was allowed before"
    for other in ("network other.org", "network example.org:22", "network sub.example.org", "network"):
        desk.answer = None
        with pytest.raises(ToolFailed, match="That needs a person's yes"):
            await granted(desk, permissions, other)
    desk.answer = "session"
    await granted(desk, permissions, "network")
    asked = len(desk.shown)
    await granted(desk, permissions, "network other.org")
    assert len(desk.shown) == asked, "the whole network was allowed before"


async def test_the_setting_of_the_network_holds_for_single_hosts(desk: Asked) -> None:
    desk.config = GatewayConfig(terminal=TerminalConfig(network="off"))
    with pytest.raises(ToolFailed, match="turned the network off"):
        await granted(desk, Permissions(), "network example.org")
    desk.config = GatewayConfig(terminal=TerminalConfig(network="on"))
    assert await granted(desk, Permissions(), "network example.org") == Grants(network=True)
    assert desk.shown == []


@pytest.mark.parametrize("host", ["localhost", "localhost:8642", "127.0.0.1", "127.3.2.1:80", "[::1]"])
async def test_this_machine_is_no_host_that_can_be_granted(desk: Asked, host: str) -> None:
    with pytest.raises(ToolFailed, match="is this machine, which is reached with `network` only"):
        await granted(desk, Permissions(), f"network {host}")


@pytest.mark.parametrize("host", ["https://example.org", "*.example.org", "example.org/page", "a b", "127.1"])
async def test_a_need_that_names_no_host_is_refused(desk: Asked, host: str) -> None:
    with pytest.raises(ToolFailed, match="is no host"):
        await granted(desk, Permissions(), f"network {host}")


async def test_a_grant_with_a_secret_of_the_gateway_is_not_asked_for(desk: Asked) -> None:
    secret = desk.cwd.parent / "a-secret-of-the-gateway"
    secret.mkdir()
    (desk.home / "web.key").write_text(secret.name)
    with pytest.raises(ToolFailed, match="holds a secret of the gateway"):
        await granted(desk, Permissions(), f"write {secret}")
    assert desk.shown == []


@pytest.mark.parametrize("swapped", ["work/made", "site"])
async def test_a_yes_is_void_if_a_path_leads_elsewhere_meanwhile(desk: Asked, swapped: str) -> None:
    top = desk.cwd.parent
    (desk.cwd / "made").mkdir()

    class Meanwhile(Asked):
        async def may(self, what: Approval | str) -> str | None:
            (top / swapped).rename(top / "aside")
            (top / swapped).symlink_to(self.home)
            return await super().may(what)

    meanwhile = Meanwhile(desk.home, desk.cwd, store=desk.store)
    with pytest.raises(ToolFailed, match="was replaced while the person was asked"):
        await granted(meanwhile, Permissions(), f"write {top}/site", cwd=desk.cwd / "made")
    assert len(meanwhile.shown) == 1


@pytest.mark.parametrize("program", ["bash", "python3 -i", "ssh host"])
async def test_input_is_shown_with_the_process_that_gets_it_and_its_grants(desk: Asked, program: str) -> None:
    running = cast(ChildProcess, RunningProcess())
    process = BackgroundProcess("proc_1", "session-1", "key", program, running, 0.0, desk.cwd)
    process.grants = Grants(network=True)
    desk.processes, desk.answer = [process], None
    with pytest.raises(ToolFailed, match="BLOCKED"):
        await desk.use(Processes().tool, action="submit", process_id="proc_1", data="rm -rf build")
    [asked] = desk.shown
    assert asked.exact == f"{program}\n# is given:\nrm -rf build\n"
    assert (asked.place, asked.grants) == (str(desk.cwd), ("network",))
