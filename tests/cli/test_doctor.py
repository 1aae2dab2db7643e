"""`hermes-trio doctor`: a home without problems, and homes with one problem each."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import psutil
import pytest
import trio
from click.testing import CliRunner, Result

from hermes_trio.base.world import World
from hermes_trio.cli import main
from hermes_trio.cli.probes import ask_model
from hermes_trio.cli.subcommands.doctor_command import CHECKS
from hermes_trio.config.config_file import load_config
from hermes_trio.host.home.home_lock import locked_home
from hermes_trio.host.home.state_file import PlatformState, PlatformStatus
from hermes_trio.host.home.status_board import StatusBoard
from hermes_trio.state.db.migrations import shipped_steps
from hermes_trio.state.db.opening import open_connections
from hermes_trio.state.tables import meta
from hermes_trio.state.tables.approvals import ALWAYS
from hermes_trio.testing.model_replies import Plain, Reply, refused
from hermes_trio.testing.model_server import open_model_server
from tests.machine import configure, environment, hermes, living, write_systemctl

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests need systemd")


PROGRAM = str(Path(__file__).parents[1] / "tools" / "mcp" / "program.py")


class BrokenHome:
    """A home without problems, until a test adds one."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.unit = folder / "config" / "systemd" / "user" / "hermes-trio.service"
        self._bin = folder / "bin"
        write_systemctl(self._bin)
        configure(self.home)
        with (self.home / "config.yaml").open("a") as config:
            config.write("model: {provider: demo}\n")  # not a server that may run on this machine
        opened = open_connections(self.home / "gateway.db", World(), shipped_steps())
        opened.reading.close()
        opened.writing.close()

    def store(self, function: Callable[..., object], *arguments: object) -> None:
        """Call a function of the store with the database."""
        with closing(sqlite3.connect(self.home / "gateway.db")) as db, db:
            function(db, *arguments)

    def hermes(self, *arguments: str) -> Result:
        path = f"{self._bin}:/usr/bin:/bin"
        environ = environment(self.home, PATH=path, XDG_CONFIG_HOME=str(self.unit.parents[2]), USER="nobody-")
        return CliRunner().invoke(main, arguments, env={**dict.fromkeys(os.environ), **environ})

    def finding(self, level: str) -> list[str]:
        """Return the findings of a level."""
        lines = self.hermes("doctor").stdout.splitlines()
        return [line[len(level) :].strip() for line in lines if line.startswith(level)]

    def problem(self) -> str:
        """Return the only problem."""
        assert self.hermes("doctor").exit_code == 1
        (problem,) = self.finding("problem")
        return problem


@pytest.fixture
def broken_home(tmp_path: Path) -> BrokenHome:
    return BrokenHome(tmp_path)


def test_a_home_without_problems_has_no_findings(broken_home: BrokenHome) -> None:
    result = broken_home.hermes("doctor")
    assert result.exit_code == 0
    assert broken_home.finding("problem") == []
    assert broken_home.finding("warning") == []
    assert "The demo answers, because config.yaml says so." in broken_home.finding("ok")


def test_each_finding_as_json_names_its_check(broken_home: BrokenHome) -> None:
    broken_home.store(meta.put, f"{ALWAYS}deletes files", "0.0")
    findings = json.loads(broken_home.hermes("doctor", "--json").stdout)
    assert {finding["check"] for finding in findings} == {check.__name__ for check in CHECKS}
    assert {finding["level"] for finding in findings} <= {"ok", "warning", "problem"}


def test_a_missing_home_is_no_problem_and_is_not_made(tmp_path: Path) -> None:
    environ = environment(tmp_path / "new", XDG_CONFIG_HOME=str(tmp_path))
    result = CliRunner().invoke(main, ["doctor"], env={**dict.fromkeys(os.environ), **environ})
    assert result.exit_code == 0
    assert not (tmp_path / "new").exists()


def test_permanent_approvals_are_listed(broken_home: BrokenHome) -> None:
    broken_home.store(meta.put, f"{ALWAYS}deletes files", "86400.0")
    (line,) = [line for line in broken_home.finding("ok") if "no approval is needed" in line]
    assert re.fullmatch(
        r"no approval is needed for: deletes files \(since 1970-01-0[123]\); "
        r"/deny always in a chat revokes that\.",
        line,
    )


def test_an_invalid_configuration_is_a_problem(broken_home: BrokenHome) -> None:
    (broken_home.home / "config.yaml").write_text("agent: {max_turns: many}")
    assert broken_home.problem().startswith("agent.max_turns: 'many' is not a whole number")


def test_a_platform_that_is_not_installed_is_a_problem(broken_home: BrokenHome) -> None:
    (broken_home.home / "config.yaml").write_text("platforms: {telegraph: {allow_from: all}}")
    assert (
        broken_home.problem() == "platforms.telegraph: no such platform is installed. Did you mean telegram?"
    )


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("telegram", "telegram is not configured. Run `hermes-trio setup telegram`."),
        ("telegraph", "no platform telegraph is installed. Install its package."),
    ],
)
def test_doctor_with_an_unknown_or_unconfigured_platform_is_a_problem(
    broken_home: BrokenHome, name: str, problem: str
) -> None:
    broken_home.store(meta.put, "anything", "so that there is a database")
    result = broken_home.hermes("doctor", name)
    assert (result.exit_code, f"problem  {problem}" in result.stdout.splitlines()) == (1, True)
    assert "there were no messages" not in result.stdout, "an unknown platform has no conversation"


def test_a_folder_that_is_no_skill_is_a_warning(broken_home: BrokenHome) -> None:
    folder = broken_home.home / "skills" / "tea"
    folder.mkdir(parents=True)
    (folder / "SKILL.md").write_text("Boil water.")
    [warning] = [one for one in broken_home.finding("warning") if "skill" in one]
    assert warning.startswith(f"{folder} is no skill: SKILL.md has no head. Begin it with")


def test_an_unknown_key_is_a_warning(broken_home: BrokenHome) -> None:
    (broken_home.home / "config.yaml").write_text(
        "agnt: {}\nplatforms: {loopback: {allow_from: all, port: 1}}\n"
    )
    assert "agnt is an unknown key; did you mean agent?" in broken_home.finding("warning")


def test_a_platform_open_to_all_without_admins_is_a_warning(broken_home: BrokenHome) -> None:
    config = broken_home.home / "config.yaml"
    config.write_text("platforms: {loopback: {allow_from: all, port: 1}}\n")
    warning = (
        "platforms.loopback.allow_from is all and platforms.loopback.allow_admin_from names nobody, "
        "so nobody there may approve commands or give admin commands"
    )
    assert f"{warning}." in broken_home.finding("warning")
    assert f"warning: {warning}" in broken_home.hermes("config", "check").stdout
    config.write_text("platforms: {loopback: {allow_from: all, allow_admin_from: [42], port: 1}}\n")
    assert "allow_admin_from" not in broken_home.hermes("config", "check").stdout


def test_a_platform_open_to_all_without_approvals_is_a_warning(broken_home: BrokenHome) -> None:
    config = broken_home.home / "config.yaml"
    platform = "platforms: {loopback: {allow_from: %s, allow_admin_from: [42], port: 1}}\n"
    config.write_text("approvals: {mode: off}\n" + platform % "all")
    warning = "platforms.loopback.allow_from is all and approvals.mode is off, so every stranger there may "
    warning += "have every command run"
    assert f"{warning}." in broken_home.finding("warning")
    assert f"warning: {warning}" in broken_home.hermes("config", "check").stdout
    config.write_text("approvals: {mode: off}\n" + platform % "[42]")
    assert "stranger" not in broken_home.hermes("config", "check").stdout


def test_a_wrong_own_key_of_a_platform_is_a_problem(broken_home: BrokenHome) -> None:
    (broken_home.home / "config.yaml").write_text("platforms: {loopback: {allow_from: all, port: none}}")
    assert broken_home.problem().startswith("platforms.loopback.port: ")


def test_a_file_that_other_accounts_can_read_is_a_warning(broken_home: BrokenHome) -> None:
    (broken_home.home / "config.yaml").chmod(0o644)
    path = broken_home.home / "config.yaml"
    assert f"other accounts can read {path}. Run `chmod go= '{path}'`." in broken_home.finding("warning")


def test_a_damaged_database_is_a_problem_and_is_not_changed(broken_home: BrokenHome) -> None:
    path = broken_home.home / "gateway.db"
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 60_000)
    before = path.read_bytes()
    assert "gateway.db is damaged" in broken_home.problem()
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version_is_a_problem(broken_home: BrokenHome) -> None:
    with closing(sqlite3.connect(broken_home.home / "gateway.db")) as connection, connection:
        connection.execute("INSERT INTO schema_steps VALUES ('9999_of_tomorrow', 0, NULL)")
    assert "was written by a newer version (it has 9999_of_tomorrow)" in broken_home.problem()


def test_a_journal_that_is_no_directory_is_a_problem(broken_home: BrokenHome) -> None:
    (broken_home.home / "journal").write_text("")
    assert "journal is not writable" in broken_home.problem()


def test_a_platform_that_refused_the_running_gateway_is_a_problem(broken_home: BrokenHome) -> None:
    with locked_home(broken_home.home) as lock:
        board = StatusBoard(lock.process, "life", World())
        board.set(state=board.status.gateway_state)
        board.set_platform("loopback", PlatformState.FATAL, "loopback refused its token. Renew it.")
        write_status(broken_home.home, board)
        assert broken_home.problem() == "loopback is given up. loopback refused its token. Renew it."
    write_status(broken_home.home, board)
    assert broken_home.finding("problem") == [], "the gateway has ended"


def write_status(home: Path, board: StatusBoard) -> None:
    import msgspec

    assert board.status.platforms["loopback"] == PlatformStatus(
        PlatformState.FATAL, "loopback refused its token. Renew it."
    )
    (home / "gateway_state.json").write_bytes(msgspec.json.encode(board.status))


def test_a_killed_gateway_is_reported(broken_home: BrokenHome) -> None:
    (broken_home.home / "gateway.lock").write_text('{"pid": 4194304, "started": 1.0}')
    assert any("the last one was killed" in line for line in broken_home.finding("ok"))


def test_a_fitting_service_is_no_problem(broken_home: BrokenHome) -> None:
    assert broken_home.hermes("service", "install").exit_code == 0
    assert f"{broken_home.unit} is installed." in broken_home.finding("ok")
    assert broken_home.finding("problem") == []


def test_a_service_with_a_timeout_below_the_grace_is_a_problem(broken_home: BrokenHome) -> None:
    broken_home.hermes("service", "install")
    configure(broken_home.home, grace=120)
    assert broken_home.problem() == (
        "the grace asks for a TimeoutStopSec of 150, and hermes-trio.service has 90. "
        "Run `hermes-trio service install`."
    )
    broken_home.hermes("service", "install")
    assert broken_home.finding("problem") == []


def test_an_edited_or_older_service_file_is_a_warning(broken_home: BrokenHome) -> None:
    broken_home.hermes("service", "install")
    written = broken_home.unit.read_text()
    broken_home.unit.write_text(written.replace("ExecStart=", "ExecStart=/usr/bin/env "))
    assert any("was edited" in line for line in broken_home.finding("warning"))
    assert broken_home.problem().startswith("hermes-trio.service starts another program")
    broken_home.unit.write_text(written.replace("# hermes-trio ", "# hermes-trio 0.0.1-", 1))
    assert any("was written by version 0.0.1-" in line for line in broken_home.finding("warning"))


def test_a_service_of_another_home_is_a_warning(broken_home: BrokenHome) -> None:
    broken_home.hermes("service", "install")
    other = broken_home.home.with_name("other")
    broken_home.unit.write_text(broken_home.unit.read_text())
    configure(other)
    broken_home.home = other
    assert f"{broken_home.unit} is the service of another home." in broken_home.finding("warning")


# --- the model ----------------------------------------------------------------------------------------


def with_model(broken_home: BrokenHome, url: str, more: str = "name: m, provider: openai") -> None:
    (broken_home.home / "config.yaml").write_text(f"model: {{base_url: '{url}', {more}}}\n")


async def doctor(broken_home: BrokenHome) -> Result:
    return await trio.to_thread.run_sync(broken_home.hermes, "doctor")


async def test_a_model_that_answers_is_ok(broken_home: BrokenHome) -> None:
    async with open_model_server(models=("m", "m-2")) as server:
        server.answers(Reply().says("Yes.").finishes())
        with_model(broken_home, server.openai_url)
        result = await doctor(broken_home)
    assert result.exit_code == 0, result.stdout
    assert f"ok       {server.openai_url} has 2 models: m, m-2." in result.stdout
    assert f"ok       m at {server.openai_url} is asked, because config.yaml says so." in result.stdout
    assert f"ok       m at {server.openai_url} answers." in result.stdout


REFUSALS = [
    (refused("openai", 401, "invalid_api_key", "No."), "it wants a key", "api_key"),
    (refused("openai", 404, "model_not_found", "No such model."), "knows no such model", "model.name"),
    (refused("openai", 402, "insufficient_quota", "Empty."), "no credit left", "Top it up"),
    (Plain(200, "<html>Hello</html>", {"content-type": "text/html"}), "no model server", "/v1"),
]


@pytest.mark.parametrize(("answer", "problem", "remedy"), REFUSALS)
async def test_a_model_that_refuses_is_a_problem_with_a_remedy(
    broken_home: BrokenHome, answer: Plain, problem: str, remedy: str
) -> None:
    async with open_model_server() as server:
        server.answers(answer)
        with_model(broken_home, server.openai_url)
        result = await doctor(broken_home)
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("problem")]
    assert problem in line
    assert remedy in line
    assert result.exit_code == 1


async def test_the_fallback_model_is_asked_too(broken_home: BrokenHome) -> None:
    async with open_model_server() as server:
        server.answers(Reply().says("Yes.").finishes())
        other = "fallback: {name: other, base_url: 'http://127.0.0.1:9/v1'}"
        with_model(broken_home, server.openai_url, f"name: m, provider: openai, {other}")
        result = await doctor(broken_home)
    assert "ok       m at" in result.stdout
    assert "problem  other at http://127.0.0.1:9/v1: no connection" in result.stdout


def test_an_unreachable_model_server_is_a_problem(broken_home: BrokenHome) -> None:
    with_model(broken_home, "http://127.0.0.1:9/v1")
    assert "m at http://127.0.0.1:9/v1: no connection" in broken_home.problem()
    assert "Start the server" in broken_home.problem()


async def test_a_model_that_does_not_answer_in_time_is_a_problem(broken_home: BrokenHome) -> None:
    async with open_model_server() as server:
        server.answers(Reply().hangs())
        with_model(broken_home, server.openai_url)
        loaded = load_config(broken_home.home, {})
        (_, found, _) = await ask_model(loaded, within=0.5)
    assert (found.level, found.text) == ("problem", f"m at {server.openai_url} has not answered within 0.5 s")


# --- MCP servers ---------------------------------------------------------------------------------------


def with_servers(broken_home: BrokenHome, **servers: list[str]) -> None:
    programs = {name: {"command": sys.executable, "args": args} for name, args in servers.items()}
    config = {"model": {"provider": "demo"}, "mcp_servers": programs}
    (broken_home.home / "config.yaml").write_text(json.dumps(config))


def test_mcp_servers_are_asked_for_tools_and_ended(broken_home: BrokenHome) -> None:
    marker = str(broken_home.home / "marker-of-this-test")
    with_servers(broken_home, good=[PROGRAM, "well", marker])
    assert "the MCP server 'good' offers 11 tools." in broken_home.finding("ok")
    assert not [one for one in psutil.process_iter(["cmdline"]) if marker in (one.info["cmdline"] or [])]
    assert not (broken_home.home / "logs").exists(), "doctor changes nothing"


def test_an_mcp_server_that_fails_is_a_problem(broken_home: BrokenHome) -> None:
    with_servers(broken_home, bad=["-c", "import sys; sys.exit('My licence has expired.')"])
    assert "the MCP server 'bad' is not connected" in broken_home.problem()
    assert broken_home.problem().endswith("The last line of its log: My licence has expired.")


def test_an_mcp_server_without_command_and_url_is_a_problem(broken_home: BrokenHome) -> None:
    (broken_home.home / "config.yaml").write_text("model: {provider: demo}\nmcp_servers: {odd: {}}\n")
    assert broken_home.problem() == "The MCP server 'odd' is not used: give it either a command or a url."


# --- a fresh install ----------------------------------------------------------------------------------


async def test_a_new_installation_has_no_warnings_before_during_and_after_a_run(tmp_path: Path) -> None:
    home = tmp_path / "home"
    environ = environment(home, XDG_CONFIG_HOME=str(tmp_path))

    async def finds_nothing() -> None:
        done = await hermes("doctor", environ=environ)
        lines = [line for line in done.stdout.splitlines() if not line.startswith("ok")]
        assert (done.returncode, lines) == (0, [])

    await finds_nothing()
    home.mkdir(mode=0o700)
    (home / "config.yaml").write_text("web: {port: 0}\nmodel: {provider: demo}\n")
    (home / "config.yaml").chmod(0o600)
    async with living(home, environ=environ) as life:
        await life.up()
        await finds_nothing()
        await hermes("stop", environ=environ)
        await life.ended()
    await finds_nothing()


def test_doctor_warns_of_paths_for_commands_that_do_not_exist(
    broken_home: BrokenHome, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    with (broken_home.home / "config.yaml").open("a") as config:
        config.write(
            f"terminal: {{writable: [{tmp_path}/notes, {tmp_path}/gone], readable: [~/.config/gone]}}\n"
        )
    warnings = [one for one in broken_home.finding("warning") if one.startswith("terminal.")]
    remedy = "Make it, or remove it from config.yaml."
    assert warnings == [
        f"terminal.writable: there is no {tmp_path}/gone. {remedy}",
        f"terminal.readable: there is no ~/.config/gone. {remedy}",
    ]
