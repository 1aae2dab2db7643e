"""`hermes-trio service`: the files that it writes, those that it never overwrites, and its output."""

from __future__ import annotations

import json
import os
import stat
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from hermes_trio.cli import main
from hermes_trio.host.home.markers import PLANNED_STOP
from tests.machine import configure, environment, write_systemctl

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the tests need systemd")


class Machine:
    """A machine with a `systemctl` that records its calls."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.file = folder / "config" / "systemd" / "user" / "hermes-trio.service"
        self._bin = folder / "bin"
        self.systemd()
        configure(self.home)

    def systemd(self, script: str = "") -> None:
        """Replace `systemctl` by one that runs this script."""
        self._calls = write_systemctl(self._bin, script)

    @property
    def asked(self) -> list[str]:
        return self._calls.read_text().splitlines()

    def service(self, *arguments: str, **environ: str) -> Result:
        xdg, path = str(self.file.parents[2]), f"{self._bin}:/usr/bin:/bin:relative"
        # CliRunner adds variables to the environment and removes none.
        clean = dict.fromkeys(os.environ)
        env = {**clean, **environment(self.home, XDG_CONFIG_HOME=xdg, PATH=path), **environ}
        return CliRunner().invoke(main, ["service", *arguments], env=env)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_install_writes_the_unit_and_prints_the_next_steps(machine: Machine) -> None:
    result = machine.service("install")
    assert result.exit_code == 0
    assert result.stdout.splitlines() == [
        f"Written: {machine.file}",
        "Next:",
        "  systemctl --user daemon-reload",
        "  systemctl --user enable --now hermes-trio.service",
        "  loginctl enable-linger",
        "A service does not see the variables of this shell: "
        f"write the variables that it needs into {machine.home / '.env'}.",
    ]
    assert f'Environment="HERMES_HOME={machine.home}"' in machine.file.read_text()
    assert stat.S_IMODE(machine.file.stat().st_mode) == 0o644
    assert [path.name for path in machine.file.parent.iterdir()] == ["hermes-trio.service"]
    assert machine.service("show").stdout == machine.file.read_text()


def test_the_path_of_a_service_has_the_absolute_entries_of_this_shell(machine: Machine) -> None:
    text = machine.service("show").stdout
    (line,) = (line for line in text.splitlines() if line.startswith('Environment="PATH='))
    parts = line.removesuffix('"').partition("PATH=")[2].split(":")
    assert parts[0] == str(Path(sys.executable).parent)
    assert parts[-2:] == ["/usr/bin", "/bin"]


@pytest.mark.parametrize("mode", [0o755, 0o4755])
def test_a_unit_takes_no_rights_from_a_setuid_sandbox(machine: Machine, tmp_path: Path, mode: int) -> None:
    program = tmp_path / "bwrap"
    program.write_text("#!/bin/sh\n")
    program.chmod(mode)
    text = machine.service("show", PATH=f"{tmp_path}:/bin").stdout
    assert ("NoNewPrivileges=yes" in text) == (mode == 0o755)


def test_show_writes_nothing(machine: Machine) -> None:
    result = machine.service("show")
    assert result.stderr == f"{machine.file}: nothing is installed\n"
    assert result.stdout.startswith("# hermes-trio ")
    assert not machine.file.exists()
    assert machine.asked == []


def test_install_replaces_an_older_grace(machine: Machine) -> None:
    machine.service("install")
    configure(machine.home, grace=500)
    assert "would change it" in machine.service("show").stderr
    assert machine.service("install").exit_code == 0
    assert "TimeoutStopSec=530\n" in machine.file.read_text()
    assert machine.service("show").stderr == f"{machine.file}: installed\n"


@pytest.mark.parametrize("command", ["install", "uninstall"])
def test_an_edited_service_file_is_changed_only_with_force(machine: Machine, command: str) -> None:
    machine.service("install")
    edited = machine.file.read_text().replace("RestartSec=5", "RestartSec=60")
    machine.file.write_text(edited)
    result = machine.service(command)
    assert result.exit_code == 1
    assert "--force" in result.stderr
    assert machine.file.read_text() == edited
    assert machine.service(command, "--force").exit_code == 0
    assert not machine.file.exists() or machine.file.read_text() != edited


def test_the_service_of_another_home_is_left_alone(machine: Machine, tmp_path: Path) -> None:
    machine.service("install")
    result = machine.service("install", HERMES_HOME=str(tmp_path / "other"))
    assert result.exit_code == 1
    assert "is the service of another home" in result.stderr
    assert not (tmp_path / "other").exists()


def test_install_without_systemd_writes_nothing_and_names_remedies(machine: Machine) -> None:
    machine.systemd("exit 1")
    result = machine.service("install")
    assert result.exit_code == 1
    for word in ("--system", "`hermes-trio run --if-wanted`", "HERMES_GATEWAY_EXTERNAL_SUPERVISOR=1"):
        assert word in result.stderr
    assert not machine.file.exists()


def test_an_unwritable_service_file_is_an_error_with_a_remedy(machine: Machine) -> None:
    machine.file.parent.parent.mkdir(parents=True)
    machine.file.parent.symlink_to("/proc")
    result = machine.service("install")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith(f"error: {machine.file} cannot be changed (")
    assert result.stderr.endswith("). Correct the permissions there.\n")
    (machine.home / "logs").rmdir()
    (machine.home / "logs").touch()
    assert "logs cannot be written (is not a directory)" in machine.service("install").stderr


def test_uninstall_stops_the_service_before_it_removes_the_file(machine: Machine) -> None:
    machine.service("install")
    machine.systemd(f"test $2 != daemon-reload || test ! -e {machine.file}")
    result = machine.service("uninstall")
    assert (result.exit_code, result.stdout) == (0, f"Removed: {machine.file}\n")
    assert machine.asked[-2:] == ["--user disable --now hermes-trio.service", "--user daemon-reload"]
    assert not machine.file.exists()
    assert machine.service("uninstall").stdout == f"{machine.file}: nothing is installed\n"


def test_uninstall_keeps_the_file_if_systemd_refuses(machine: Machine) -> None:
    machine.service("install")
    machine.systemd("echo 'Access denied' >&2; exit 1")
    result = machine.service("uninstall")
    assert result.exit_code == 1
    assert "Access denied" in result.stderr
    assert machine.file.exists()


def test_a_system_service_belongs_to_the_user_who_called_sudo(machine: Machine) -> None:
    shown = machine.service("show", "--system", SUDO_USER="root", HERMES_HOME="").stdout
    assert "\nUser=root\n" in shown
    assert f'"HERMES_HOME={Path("~root").expanduser()}/.hermes-trio"' in shown


@pytest.mark.parametrize("kind", ["stop", "restart"])
def test_the_stop_command_of_the_unit_announces_the_kind_of_stop(machine: Machine, kind: str) -> None:
    machine.systemd(f"echo '17 hermes-trio.service {kind} running'")
    unit = {"HERMES_SYSTEMD_UNIT": "hermes-trio.service", "HERMES_SYSTEMD_SCOPE": "user"}
    assert machine.service("stopping", MAINPID=str(os.getpid()), **unit).exit_code == 0
    marker = json.loads((machine.home / PLANNED_STOP).read_text())
    assert (marker["target_pid"], marker["kind"], marker["asked_by"]) == (os.getpid(), kind, "systemd")
    assert marker["target_start_time"]


def test_no_marker_is_written_for_a_gateway_that_has_ended(machine: Machine) -> None:
    assert machine.service("stopping").exit_code == 0
    assert not (machine.home / PLANNED_STOP).exists()
    assert "stopping" not in machine.service("--help").stdout
