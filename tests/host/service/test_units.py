"""The files of a service: their content, reading them back, and the agreement of their numbers with the code
and the documents."""

from __future__ import annotations

import plistlib
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.errors import EXIT_CONFIG
from hermes_trio.gateway.ending.endings_table import GATEWAY_SERVICE_RESTART_EXIT_CODE, MARGIN
from hermes_trio.host.loop.watchdog import watch_loop
from hermes_trio.host.service import launchd
from hermes_trio.host.service.service_files import (
    LEAST_STOP_TIMEOUT,
    RESTART_AFTER,
    ROOM_TO_STOP,
    WATCHDOG,
    Service,
    ServiceFileState,
    UnfitForUnit,
    home_of,
    launchd_plist,
    service_file_state,
    stop_timeout,
    systemd_unit,
    unit_setting,
    version_of,
)
from hermes_trio.host.service.systemd import ANSWER_WITHIN

PAGE = " ".join((Path(__file__).parents[3] / "docs" / "run" / "service.md").read_text("utf-8").split())
SERVICE = Service(
    program=(sys.executable, "-m", "hermes_trio"),
    home=Path("/srv/hermes"),
    path="/usr/bin:/bin",
    grace=0,
    version="1.2.3",
)
ODD = replace(SERVICE, home=Path('/srv/my "ho me" 100% $x \\y'), path="/opt/a b:/usr/bin")
FOR_ALL = replace(SERVICE, user="hermes")
OF_ROOT = replace(SERVICE, user="root")
FORMS = (systemd_unit, launchd_plist)
HARDENED = frozenset(re.findall(r"^(\w+)=", systemd_unit(FOR_ALL), re.MULTILINE)) - frozenset(
    re.findall(r"^(\w+)=", systemd_unit(replace(FOR_ALL, setuid_sandbox=True)), re.MULTILINE)
)
KEPT_WITH_SUDO = {"SystemCallErrorNumber", "PrivateTmp", "ProtectControlGroups"}
"""Settings that do not hinder a program with the rights of its file's owner."""
NEEDED_BY_THE_SANDBOX = (
    # The kernel gives a namespace a /proc of its own only if all of /proc can be seen.
    *("ProtectHostname", "ProtectKernelLogs", "ProtectKernelTunables", "ProtectProc", "ProcSubset"),
    *("RestrictNamespaces", "PrivateUsers"),
    # The agent's work: programs that compile while they run, directories that a group shares, the home
    # directories, and the network.
    *("MemoryDenyWriteExecute", "RestrictSUIDSGID", "ProtectHome", "PrivateNetwork", "IPAddressDeny"),
)


@pytest.mark.parametrize("grace", [0, 0.5, 60, 61, 1800])
def test_the_stop_timeout_of_a_service_is_longer_than_our_shutdown(grace: float) -> None:
    service = replace(SERVICE, grace=grace)
    timeout = int(unit_setting(systemd_unit(service), "TimeoutStopSec") or 0)
    assert timeout == max(LEAST_STOP_TIMEOUT, -(-grace // 1) + ROOM_TO_STOP)
    assert timeout >= grace + MARGIN + ANSWER_WITHIN
    assert plistlib.loads(launchd_plist(service).encode())["ExitTimeOut"] == timeout == stop_timeout(grace)


def test_the_unit_the_code_and_the_page_about_services_have_the_same_numbers() -> None:
    unit = systemd_unit(SERVICE)
    assert unit_setting(unit, "RestartForceExitStatus") == str(GATEWAY_SERVICE_RESTART_EXIT_CODE)
    assert unit_setting(unit, "RestartPreventExitStatus") == str(EXIT_CONFIG)
    assert unit_setting(unit, "WatchdogSec") == str(WATCHDOG)
    for fact in (
        f"the grace and {ROOM_TO_STOP} seconds, and for at least {LEAST_STOP_TIMEOUT} seconds",
        f"Exit code {GATEWAY_SERVICE_RESTART_EXIT_CODE}",
        f"Exit code {EXIT_CONFIG}",
        f"not reported for {WATCHDOG} seconds",
        f"after {RESTART_AFTER} seconds",
    ):
        assert fact in PAGE


def test_our_watchdog_reports_a_stall_before_systemd_kills_us() -> None:
    assert watch_loop.__kwdefaults__ is not None
    assert 2 * watch_loop.__kwdefaults__["stalled_after"] < WATCHDOG


def test_a_user_unit_and_a_system_unit_differ_in_user_target_and_scope() -> None:
    own, common = systemd_unit(SERVICE), systemd_unit(FOR_ALL)
    assert (unit_setting(own, "User"), unit_setting(own, "WantedBy")) == (None, "default.target")
    assert (unit_setting(common, "User"), unit_setting(common, "WantedBy")) == ("hermes", "multi-user.target")
    assert "HERMES_SYSTEMD_SCOPE=user" in own
    assert "HERMES_SYSTEMD_SCOPE=system" in common
    # The systemd of a user has no network-online.target.
    assert (unit_setting(own, "After"), unit_setting(common, "After")) == (None, "network-online.target")


def test_a_unit_stops_the_gateway_alone_and_kills_its_remaining_processes() -> None:
    unit = systemd_unit(SERVICE)
    assert unit_setting(unit, "KillMode") == "mixed"
    assert unit_setting(unit, "ExecStop") == f"-{sys.executable} -m hermes_trio service stopping"


def test_launchd_restarts_the_gateway_unless_it_exits_with_success() -> None:
    plist = plistlib.loads(launchd_plist(ODD).encode())
    assert plist["KeepAlive"] == {"SuccessfulExit": False}
    assert plist["ProgramArguments"] == [*ODD.program, "run"]
    assert plist["EnvironmentVariables"] == {"HERMES_HOME": str(ODD.home), "PATH": ODD.path}


@given(st.text(min_size=1).filter(str.isprintable))
def test_a_home_with_any_printable_name_is_read_back(name: str) -> None:
    home = Path("/srv") / name.replace("/", "_")
    for form in FORMS:
        text = form(replace(SERVICE, home=home))
        assert home_of(text) == home
        assert version_of(text) == "1.2.3"


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("odd", ["two\nlines", "a\0b", "\x9bred", "\udcff"])
def test_a_path_that_cannot_be_printed_is_refused(form: object, odd: str) -> None:
    for service in (replace(SERVICE, home=Path("/srv", odd)), replace(SERVICE, path=odd)):
        with pytest.raises(UnfitForUnit):
            form(service)  # type: ignore[operator]


def test_a_program_with_a_dollar_is_refused_by_the_unit() -> None:
    with pytest.raises(UnfitForUnit):
        systemd_unit(replace(SERVICE, program=("/opt/$x/python", "-m", "hermes_trio")))
    unit = systemd_unit(replace(SERVICE, program=("/opt/a b%/python", "-m", "$x")))
    assert unit_setting(unit, "ExecStart") == '"/opt/a b%%/python" -m "$$x" run'


@pytest.mark.parametrize("form", [systemd_unit, launchd_plist])
def test_an_existing_service_file_is_ours_or_edited_or_of_another_home(form: object) -> None:
    wanted: str = form(SERVICE)  # type: ignore[operator]
    other_grace: str = form(replace(SERVICE, grace=500))  # type: ignore[operator]
    other_home: str = form(ODD)  # type: ignore[operator]
    by_hand = wanted.replace("90", "10")
    assert [
        service_file_state(found, wanted, SERVICE.home)
        for found in (None, wanted, other_grace, other_home, by_hand, "[Service]\n", "")
    ] == [
        ServiceFileState.NOTHING,
        ServiceFileState.SAME,
        ServiceFileState.OURS,
        ServiceFileState.ANOTHER_HOME,
        ServiceFileState.EDITED,
        ServiceFileState.EDITED,
        ServiceFileState.EDITED,
    ]


@pytest.mark.parametrize("service", [SERVICE, FOR_ALL, OF_ROOT], ids=["user", "system", "root"])
def test_a_unit_leaves_the_sandbox_what_it_needs(service: Service) -> None:
    unit = systemd_unit(service)
    for setting in NEEDED_BY_THE_SANDBOX:
        assert unit_setting(unit, setting) is None, setting
    assert "AF_NETLINK" in str(unit_setting(unit, "RestrictAddressFamilies")), "its network is set up by that"
    denied = str(unit_setting(unit, "SystemCallFilter"))
    assert denied.startswith("~"), "calls that are not known yet are allowed"
    assert not set(denied[1:].split()) & {
        "@mount",
        "@sandbox",
        "@privileged",
        "@debug",
        "@setuid",
        "@process",
    }
    assert unit_setting(unit, "SystemCallErrorNumber") == "EPERM", "a command is refused a call, not killed"


def test_the_service_of_root_may_administer_the_machine() -> None:
    for setting in ("CapabilityBoundingSet", "ProtectSystem"):
        assert unit_setting(systemd_unit(OF_ROOT), setting) is None
        assert unit_setting(systemd_unit(FOR_ALL), setting) is not None


@pytest.mark.parametrize("service", [SERVICE, FOR_ALL], ids=["user", "system"])
def test_a_setuid_sandbox_keeps_its_rights(service: Service) -> None:
    unit = systemd_unit(replace(service, setuid_sandbox=True))
    assert not [name for name in HARDENED if unit_setting(unit, name) is not None]


def test_the_page_about_services_tells_how_each_setting_is_taken_back() -> None:
    snippet = (Path(__file__).parents[3] / "docs" / "run" / "service.md").read_text("utf-8")
    taken_back = snippet.partition("[Service]\n")[2].partition("```")[0]
    named = [line.partition("=")[0] for line in taken_back.split()]
    assert sorted(named) == sorted(HARDENED - KEPT_WITH_SUDO)


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
@pytest.mark.parametrize(
    ("service", "most"), [(SERVICE, 7.7), (FOR_ALL, 3.8), (OF_ROOT, 6.1)], ids=["user", "system", "root"]
)
def test_the_exposure_of_a_unit_is_as_the_page_says(service: Service, most: float, tmp_path: Path) -> None:
    unit = tmp_path / "hermes-trio.service"
    unit.write_text(systemd_unit(service))
    look = ["systemd-analyze", "security", "--offline=true", "--no-pager", str(unit)]
    done = subprocess.run(look, capture_output=True, text=True, check=False, timeout=50)
    found = re.search(r"exposure level for \S+ ([0-9.]+)", done.stdout)
    assert found is not None, done.stderr
    assert float(found[1]) <= most + 0.5, "another version of systemd weighs a little differently"
    assert f"| {most} |" in PAGE


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="there is no systemd-analyze")
@pytest.mark.parametrize("service", [SERVICE, ODD, FOR_ALL], ids=["user", "odd", "system"])
def test_systemd_accepts_every_line_of_our_unit(service: Service, tmp_path: Path) -> None:
    service = replace(service, user=service.user and "root")  # an existing user
    unit = tmp_path / "hermes-trio.service"
    unit.write_text(systemd_unit(service))
    unit.chmod(0o644)
    scope = [] if service.user else ["--user"]
    environ = {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)}
    verify = ["systemd-analyze", *scope, "--man=no", "verify", str(unit)]
    done = subprocess.run(verify, capture_output=True, text=True, env=environ, check=False, timeout=50)
    about_it = [line for line in done.stderr.splitlines() if re.search(r"hermes-trio\.service", line)]
    assert (done.returncode, about_it) == (0, [])


@pytest.mark.skipif(sys.platform == "win32", reason="users have no number there")
def test_only_a_replaced_property_list_is_unloaded_first() -> None:
    first, again = (launchd.next_steps("user", again=again) for again in (False, True))
    assert [step.split()[1] for step in first] == ["bootstrap"]
    assert [step.split()[1] for step in again] == ["bootout", "bootstrap"]
