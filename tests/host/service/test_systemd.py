"""Questions to systemd, and the use of its answers."""

from __future__ import annotations

from pathlib import Path

import pytest

from hermes_trio.host.service import systemd
from hermes_trio.host.service.systemd import Unit, is_restarting, queue_restart, unit_in, unit_of
from tests.machine import write_systemctl

OF_A_USER = "0::/user.slice/user-1000.slice/user@1000.service/app.slice/hermes-trio.service\n"
OF_THE_MACHINE = "12:cpu:/x.service\n1:name=systemd:/system.slice/our gateway.service\n"


def ours(tmp_path: Path, script: str = "", scope: str = "user") -> dict[str, str]:
    """Return the environment of our unit, with a systemctl that runs this script."""
    write_systemctl(tmp_path, script)
    unit = {"HERMES_SYSTEMD_UNIT": "hermes-trio.service", "HERMES_SYSTEMD_SCOPE": scope}
    return {"PATH": f"{tmp_path}:/usr/bin:/bin", **unit}


@pytest.mark.parametrize(
    ("cgroups", "unit"),
    [
        (OF_A_USER, Unit("hermes-trio.service", "user")),
        (OF_THE_MACHINE, Unit("our gateway.service", "system")),
        ("0::/system.slice/docker.service/payload\n", Unit("docker.service", "system")),
        ("0::/user.slice/user-1000.slice/user@1000.service/init.scope\n", None),
        ("0::/user.slice/user-0.slice/session-3.scope\n", None),
        ("0::/\n", None),
        ("", None),
    ],
)
def test_the_unit_is_the_innermost_service(cgroups: str, unit: Unit | None) -> None:
    assert unit_in(cgroups) == unit


def test_a_missing_process_has_no_unit() -> None:
    assert unit_of(2**22 + 1) is None


@pytest.mark.parametrize(
    ("jobs", "restarting"),
    [
        ("17 hermes-trio.service restart running", True),
        ("17 hermes-trio.service stop running", False),
        ("16 other.service restart waiting\n17 hermes-trio.service stop running", False),
        ("", False),
    ],
)
def test_a_queued_job_distinguishes_a_restart_from_a_stop(
    tmp_path: Path, jobs: str, restarting: bool
) -> None:
    assert is_restarting(ours(tmp_path, f'echo "{jobs}"')) is restarting
    assert (tmp_path / "calls").read_text().split() == [
        "--user",
        "list-jobs",
        "--no-legend",
        "--plain",
        "hermes-trio.service",
    ]


def test_without_an_answer_of_systemctl_it_is_a_stop(tmp_path: Path) -> None:
    assert not is_restarting(ours(tmp_path, 'echo "17 hermes-trio.service restart running" >&2; exit 1'))
    assert not is_restarting({"PATH": "/nowhere", "HERMES_SYSTEMD_UNIT": "hermes-trio.service"})
    assert not is_restarting({"PATH": "/nowhere"})


@pytest.mark.parametrize(
    ("main_pid", "restart", "comes_back"),
    [
        (42, "always", True),
        (42, "on-success", True),
        (42, "on-failure", False),
        (42, "no", False),
        (41, "always", False),
    ],
)
def test_a_foreign_unit_may_restart_its_main_process_after_an_intended_end(
    tmp_path: Path, main_pid: int, restart: str, comes_back: bool
) -> None:
    script = f'case "$*" in *MainPID*) echo {main_pid};; *Restart*) echo {restart};; esac'
    environ = ours(tmp_path, script)
    assert systemd.restarts_after_exit(Unit("gateway.service", "user"), 42, environ) is comes_back
    assert not systemd.restarts_after_exit(Unit("gateway.service", "user"), 42, {"PATH": "/nowhere"})


def test_a_restart_is_queued_in_the_scope_of_the_unit(tmp_path: Path) -> None:
    assert queue_restart(ours(tmp_path, scope="system")).ok
    assert queue_restart(ours(tmp_path, scope="user")).ok
    assert not queue_restart(ours(tmp_path, "exit 1")).ok
    assert not queue_restart({"PATH": str(tmp_path)}).ok
    assert (tmp_path / "calls").read_text().splitlines()[:2] == [
        "--no-block restart hermes-trio.service",
        "--user --no-block restart hermes-trio.service",
    ]


def test_the_path_of_a_user_unit_follows_xdg_config_home(tmp_path: Path) -> None:
    assert systemd.unit_file("user", {"XDG_CONFIG_HOME": str(tmp_path)}) == (
        tmp_path / "systemd/user/hermes-trio.service"
    )
    assert systemd.unit_file("user", {}) == Path("~/.config/systemd/user/hermes-trio.service").expanduser()
    assert systemd.unit_file("system", {}) == Path("/etc/systemd/system/hermes-trio.service")
