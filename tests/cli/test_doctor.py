"""`hermes-trio doctor`: one home that is well, and one for each thing that can be wrong with it."""

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

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the stories play under systemd")


PROGRAM = str(Path(__file__).parents[1] / "tools" / "mcp" / "program.py")


class Patient:
    """A home that is well, until a story does something to it."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.unit = folder / "config" / "systemd" / "user" / "hermes-trio.service"
        self._bin = folder / "bin"
        write_systemctl(self._bin)
        configure(self.home)
        with (self.home / "config.yaml").open("a") as config:
            config.write("model: {provider: demo}\n")  # and no server that happens to listen here
        opened = open_connections(self.home / "gateway.db", World(), shipped_steps())
        opened.reading.close()
        opened.writing.close()

    def store(self, function: Callable[..., object], *arguments: object) -> None:
        """Store something, as the gateway would."""
        with closing(sqlite3.connect(self.home / "gateway.db")) as db, db:
            function(db, *arguments)

    def hermes(self, *arguments: str) -> Result:
        path = f"{self._bin}:/usr/bin:/bin"
        environ = environment(self.home, PATH=path, XDG_CONFIG_HOME=str(self.unit.parents[2]), USER="nobody-")
        return CliRunner().invoke(main, arguments, env={**dict.fromkeys(os.environ), **environ})

    def finding(self, level: str) -> list[str]:
        """The lines of this level, without its name."""
        lines = self.hermes("doctor").stdout.splitlines()
        return [line[len(level) :].strip() for line in lines if line.startswith(level)]

    def problem(self) -> str:
        """The one problem there is."""
        assert self.hermes("doctor").exit_code == 1
        (problem,) = self.finding("problem")
        return problem


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    return Patient(tmp_path)


def test_a_home_that_is_well(patient: Patient) -> None:
    result = patient.hermes("doctor")
    assert result.exit_code == 0
    assert patient.finding("problem") == []
    assert patient.finding("warning") == []
    assert "The demo answers, because config.yaml says so." in patient.finding("ok")


def test_for_programs_each_finding_names_its_check(patient: Patient) -> None:
    patient.store(meta.put, f"{ALWAYS}deletes files", "0.0")
    findings = json.loads(patient.hermes("doctor", "--json").stdout)
    assert {finding["check"] for finding in findings} == {check.__name__ for check in CHECKS}
    assert {finding["level"] for finding in findings} <= {"ok", "warning", "problem"}


def test_a_home_that_is_not_there_yet_is_no_problem_and_is_not_made(tmp_path: Path) -> None:
    environ = environment(tmp_path / "new", XDG_CONFIG_HOME=str(tmp_path))
    result = CliRunner().invoke(main, ["doctor"], env={**dict.fromkeys(os.environ), **environ})
    assert result.exit_code == 0
    assert not (tmp_path / "new").exists()


def test_what_may_run_without_being_asked_about_is_shown(patient: Patient) -> None:
    patient.store(meta.put, f"{ALWAYS}deletes files", "86400.0")
    (line,) = [line for line in patient.finding("ok") if "without being asked" in line]
    assert re.fullmatch(
        r"commands run without being asked about that: deletes files \(since 1970-01-0[123]\); "
        "/deny always in a chat takes that back.",
        line,
    )


def test_a_configuration_that_cannot_be(patient: Patient) -> None:
    (patient.home / "config.yaml").write_text("agent: {max_turns: many}")
    assert patient.problem().startswith("agent.max_turns: 'many' is not a whole number")


def test_a_platform_that_nobody_has_installed(patient: Patient) -> None:
    (patient.home / "config.yaml").write_text("platforms: {telegraph: {allow_from: all}}")
    assert patient.problem() == "platforms.telegraph: no such platform is installed. Did you mean telegram?"


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("telegram", "telegram is not configured. Run `hermes-trio setup telegram`."),
        ("telegraph", "no platform telegraph is installed. Install its package."),
    ],
)
def test_a_platform_that_is_asked_after_and_not_there(patient: Patient, name: str, problem: str) -> None:
    patient.store(meta.put, "anything", "so that there is a database")
    result = patient.hermes("doctor", name)
    assert (result.exit_code, f"problem  {problem}" in result.stdout.splitlines()) == (1, True)
    assert "has been heard" not in result.stdout, "what is not there is not asked about"


def test_a_key_that_nobody_knows_is_one_sentence(patient: Patient) -> None:
    (patient.home / "config.yaml").write_text("agnt: {}\nplatforms: {loopback: {allow_from: all, port: 1}}\n")
    assert "agnt is an unknown key; did you mean agent?" in patient.finding("warning")


def test_a_platform_that_is_open_to_all_has_nobody_who_approves(patient: Patient) -> None:
    config = patient.home / "config.yaml"
    config.write_text("platforms: {loopback: {allow_from: all, port: 1}}\n")
    told = (
        "platforms.loopback.allow_from is all and platforms.loopback.allow_admin_from names nobody, "
        "so nobody there may approve commands or give admin commands"
    )
    assert f"{told}." in patient.finding("warning")
    assert f"warning: {told}" in patient.hermes("config", "check").stdout
    config.write_text("platforms: {loopback: {allow_from: all, allow_admin_from: [42], port: 1}}\n")
    assert "allow_admin_from" not in patient.hermes("config", "check").stdout


def test_a_platform_whose_own_keys_are_wrong(patient: Patient) -> None:
    (patient.home / "config.yaml").write_text("platforms: {loopback: {allow_from: all, port: none}}")
    assert patient.problem().startswith("platforms.loopback.port: ")


def test_a_home_that_others_may_read(patient: Patient) -> None:
    (patient.home / "config.yaml").chmod(0o644)
    assert (
        f"others may read {patient.home / 'config.yaml'}. Run `chmod go= '{patient.home}/config.yaml'`."
        in (patient.finding("warning"))
    )


def test_a_damaged_database(patient: Patient) -> None:
    path = patient.home / "gateway.db"
    path.write_bytes(path.read_bytes()[:4096] + b"\xff" * 60_000)
    before = path.read_bytes()
    assert "gateway.db is not sound" in patient.problem()
    assert path.read_bytes() == before


def test_a_database_of_a_newer_version(patient: Patient) -> None:
    with closing(sqlite3.connect(patient.home / "gateway.db")) as connection, connection:
        connection.execute("INSERT INTO schema_steps VALUES ('9999_of_tomorrow', 0)")
    assert "is of a newer version (it has 9999_of_tomorrow)" in patient.problem()


def test_a_journal_that_is_no_directory(patient: Patient) -> None:
    (patient.home / "journal").write_text("")
    assert "journal cannot be written to" in patient.problem()


def test_a_platform_that_refused_the_gateway(patient: Patient) -> None:
    with locked_home(patient.home) as lock:
        board = StatusBoard(lock.process, "life", World())
        board.set(state=board.status.gateway_state)
        board.set_platform("loopback", PlatformState.FATAL, "loopback refused its token. Renew it.")
        write_status(patient.home, board)
        assert patient.problem() == "loopback is given up. loopback refused its token. Renew it."
    write_status(patient.home, board)
    assert patient.finding("problem") == [], "it is over"


def write_status(home: Path, board: StatusBoard) -> None:
    import msgspec

    assert board.status.platforms["loopback"] == PlatformStatus(
        PlatformState.FATAL, "loopback refused its token. Renew it."
    )
    (home / "gateway_state.json").write_bytes(msgspec.json.encode(board.status))


def test_a_gateway_that_was_killed(patient: Patient) -> None:
    (patient.home / "gateway.lock").write_text('{"pid": 4194304, "started": 1.0}')
    assert any("the last one was killed" in line for line in patient.finding("ok"))


def test_a_service_that_agrees(patient: Patient) -> None:
    assert patient.hermes("service", "install").exit_code == 0
    assert f"{patient.unit} is installed." in patient.finding("ok")
    assert patient.finding("problem") == []


def test_a_service_less_patient_than_the_grace(patient: Patient) -> None:
    patient.hermes("service", "install")
    configure(patient.home, grace=120)
    assert patient.problem() == (
        "the grace asks for a TimeoutStopSec of 150, and hermes-trio.service has 90. "
        "Run `hermes-trio service install`."
    )
    patient.hermes("service", "install")
    assert patient.finding("problem") == []


def test_a_service_that_somebody_edited_or_another_version_wrote(patient: Patient) -> None:
    patient.hermes("service", "install")
    written = patient.unit.read_text()
    patient.unit.write_text(written.replace("ExecStart=", "ExecStart=/usr/bin/env "))
    assert any("somebody has edited" in line for line in patient.finding("warning"))
    assert patient.problem().startswith("hermes-trio.service starts another program")
    patient.unit.write_text(written.replace("# hermes-trio ", "# hermes-trio 0.0.1-", 1))
    assert any("was written by version 0.0.1-" in line for line in patient.finding("warning"))


def test_a_service_of_another_home(patient: Patient) -> None:
    patient.hermes("service", "install")
    other = patient.home.with_name("other")
    patient.unit.write_text(patient.unit.read_text())
    configure(other)
    patient.home = other
    assert f"{patient.unit} is the service of another home." in patient.finding("warning")


# --- the model ----------------------------------------------------------------------------------------


def with_model(patient: Patient, url: str, more: str = "name: m, provider: openai") -> None:
    (patient.home / "config.yaml").write_text(f"model: {{base_url: '{url}', {more}}}\n")


async def doctor(patient: Patient) -> Result:
    return await trio.to_thread.run_sync(patient.hermes, "doctor")


async def test_a_model_that_answers(patient: Patient) -> None:
    async with open_model_server() as server:
        server.answers(Reply().says("Yes.").finishes())
        with_model(patient, server.openai_url)
        result = await doctor(patient)
    assert result.exit_code == 0, result.stdout
    assert f"ok       m at {server.openai_url} is asked, because config.yaml says so." in result.stdout
    assert f"ok       m at {server.openai_url} answers." in result.stdout


REFUSALS = [
    (refused("openai", 401, "invalid_api_key", "No."), "it wants a key", "api_key"),
    (refused("openai", 404, "model_not_found", "No such model."), "knows no such model", "model.name"),
    (refused("openai", 402, "insufficient_quota", "Empty."), "no credit left", "Top it up"),
    (Plain(200, "<html>Hello</html>", {"content-type": "text/html"}), "no model server", "/v1"),
]


@pytest.mark.parametrize(("answer", "problem", "remedy"), REFUSALS)
async def test_a_model_that_refuses(patient: Patient, answer: Plain, problem: str, remedy: str) -> None:
    async with open_model_server() as server:
        server.answers(answer)
        with_model(patient, server.openai_url)
        result = await doctor(patient)
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("problem")]
    assert problem in line
    assert remedy in line
    assert result.exit_code == 1


async def test_a_fallback_is_asked_too(patient: Patient) -> None:
    async with open_model_server() as server:
        server.answers(Reply().says("Yes.").finishes())
        other = "fallback: {name: other, base_url: 'http://127.0.0.1:9/v1'}"
        with_model(patient, server.openai_url, f"name: m, provider: openai, {other}")
        result = await doctor(patient)
    assert "ok       m at" in result.stdout
    assert "problem  other at http://127.0.0.1:9/v1: no connection" in result.stdout


def test_a_model_server_that_is_dead(patient: Patient) -> None:
    with_model(patient, "http://127.0.0.1:9/v1")
    assert "m at http://127.0.0.1:9/v1: no connection" in patient.problem()
    assert "Start the server" in patient.problem()


async def test_a_model_that_never_answers(patient: Patient) -> None:
    async with open_model_server() as server:
        server.answers(Reply().hangs())
        with_model(patient, server.openai_url)
        loaded = load_config(patient.home, {})
        (_, found) = await ask_model(loaded, within=0.5)
    assert (found.level, found.text) == ("problem", f"m at {server.openai_url} has not answered within 0.5 s")


# --- servers of tools ---------------------------------------------------------------------------------


def with_servers(patient: Patient, **servers: list[str]) -> None:
    programs = {name: {"command": sys.executable, "args": args} for name, args in servers.items()}
    config = {"model": {"provider": "demo"}, "mcp_servers": programs}
    (patient.home / "config.yaml").write_text(json.dumps(config))


def test_servers_of_tools_are_asked_and_ended(patient: Patient) -> None:
    marker = str(patient.home / "marker-of-this-test")
    with_servers(patient, good=[PROGRAM, "well", marker])
    assert "the server of tools 'good' offers 11 tools." in patient.finding("ok")
    assert not [one for one in psutil.process_iter(["cmdline"]) if marker in (one.info["cmdline"] or [])]
    assert not (patient.home / "logs").exists(), "nothing is changed"


def test_a_server_of_tools_that_fails(patient: Patient) -> None:
    with_servers(patient, bad=["-c", "import sys; sys.exit('My licence has expired.')"])
    assert "the server of tools 'bad' is not connected" in patient.problem()
    assert patient.problem().endswith("It complained: My licence has expired.")


def test_a_server_of_tools_without_command_and_url(patient: Patient) -> None:
    (patient.home / "config.yaml").write_text("model: {provider: demo}\nmcp_servers: {odd: {}}\n")
    assert patient.problem() == "The server of tools 'odd' is not used: give it either a command or a url."


# --- a fresh install ----------------------------------------------------------------------------------


async def test_a_fresh_install_gets_no_warning_before_while_and_after_it_runs(tmp_path: Path) -> None:
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
