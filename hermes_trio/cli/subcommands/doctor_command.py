"""`hermes-trio doctor`: looks at everything that can be wrong around a gateway, and changes nothing.

A check is a function from the `Patient` to what it found. Add one to `CHECKS`, and it is asked. With the name
of a platform that platform is asked too, over the network, by what its package brings for it.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import trio

from ... import __version__
from ...base.errors import ConfigInvalid, GatewayError, StoreDamaged, StoreError
from ...config.config_file import Loaded, home_directory, load_config
from ...config.schema import PlatformConfig
from ...gateway.links.adapters import GROUP, make_adapter
from ...host.files.private_files import is_read_only
from ...host.home.home_lock import LOCK_FILE, is_locked, recorded_holder
from ...host.home.state_file import PlatformState, Status, read_status
from ...host.service import systemd
from ...host.service.service_files import (
    UNIT,
    Scope,
    ServiceFileState,
    command_text,
    stop_timeout,
    unit_setting,
    version_of,
)
from ...platform.doctor_checks import GROUP as CHECKS_OF_PLATFORMS
from ...platform.doctor_checks import Check as AsksPlatform
from ...platform.doctor_checks import Finding, Level
from ...state.db.damaged import damaged_copies
from ...state.db.migrations import shipped_steps
from ...state.db.opening import connect_reading
from ...state.db.sqlite_errors import as_store_error
from ...state.rules.original_home import unused
from ...state.tables import inbox, meta, outbox
from ...state.tables.approvals import ALWAYS
from ..probes import ask_model, ask_servers
from ..start_check import refused
from .service_command import ON_A_MAC, file_of, look

LITTLE_SPACE = 1_000_000_000
NO_SPACE = 100_000_000


class Patient:
    """What the checks look at; each part is read once, by the first that asks."""

    def __init__(self, home: Path, *, only: str | None = None) -> None:
        self.home, self.only = home, only

    @cached_property
    def loaded(self) -> Loaded | None:
        """The configuration; None for one that no gateway would start with."""
        try:
            return load_config(self.home, os.environ)
        except ConfigInvalid:
            return None

    @cached_property
    def status(self) -> Status | None:
        """What the gateway said last."""
        return read_status(self.home)


Check = Callable[[Patient], Iterator[Finding]]


@click.command()
@click.argument("platform", required=False)
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON array.")
def command(platform: str | None, as_json: bool) -> None:
    """Look for what is wrong, and say what to do about it.

    With the name of a PLATFORM that is asked too, from its token to the last answer.
    """
    patient = Patient(home_directory(os.environ), only=platform)
    checks = CHECKS if platform is None else OF_A_PLATFORM
    findings = [(check.__name__, finding) for check in checks for finding in check(patient)]
    if as_json:
        click.echo(json.dumps([{"check": name, **asdict(finding)} for name, finding in findings], indent=2))
    else:
        show([finding for _, finding in findings])
    raise SystemExit(any(finding.level == "problem" for _, finding in findings))


def show(findings: Iterable[Finding]) -> None:
    """A line for each, for people."""
    for finding in findings:
        stop = "" if finding.text.endswith("?") else "."
        remedy = f" {finding.remedy}" if finding.remedy else ""
        click.echo(f"{finding.level:8} {finding.text}{stop}{remedy}")


def config(patient: Patient) -> Iterator[Finding]:
    """Would the gateway start with it?"""
    try:
        loaded = load_config(patient.home, os.environ)
    except ConfigInvalid as error:
        yield from (Finding("problem", f"{one.key}: {one.problem}", one.remedy) for one in error.findings)
        return
    yield from (Finding("warning", warning) for warning in loaded.warnings)
    there = "is understood" if loaded.path.exists() else "is not there, so everything has its default"
    yield Finding("ok", f"{loaded.path} {there}")
    yield from (Finding("problem", f"{one.key}: {one.problem}", one.remedy) for one in refused(loaded))


def model(patient: Patient) -> Iterator[Finding]:
    """Does the model answer that the gateway would choose?"""
    if patient.loaded is not None:
        yield from trio.run(ask_model, patient.loaded)


def tool_servers(patient: Patient) -> Iterator[Finding]:
    """Do the servers of tools say what they offer?"""
    if patient.loaded is None:
        return
    if not any(one.enabled for one in patient.loaded.config.mcp_servers.values()):
        yield Finding("ok", "no servers of tools are configured")
        return
    with TemporaryDirectory(prefix="hermes-doctor-") as folder:
        Path(folder, "logs").mkdir()
        yield from trio.run(ask_servers, patient.loaded, Path(folder))


def platforms(patient: Patient) -> Iterator[Finding]:
    """Is there anybody who could talk to it, and can their platforms be loaded?"""
    if patient.loaded is None:
        return
    enabled = {name: one for name, one in patient.loaded.config.platforms.items() if one.enabled}
    if patient.only is not None and patient.only not in enabled:
        if patient.only in {entry.name for entry in entry_points(group=GROUP)}:
            remedy = f"Run `hermes-trio setup {patient.only}`."
            yield Finding("problem", f"{patient.only} is not configured", remedy)
        else:
            yield Finding("problem", f"no platform {patient.only} is installed", "Install its package.")
        return
    if not enabled:
        remedy = "The terminal and the page need none; `hermes-trio setup` adds one."
        yield Finding("ok", "no platform is configured", remedy)
    for name, platform in enabled.items():
        if patient.only not in (None, name):
            continue
        try:
            make_adapter(name, platform)
        except ConfigInvalid as error:
            yield Finding("problem", f"{error.key}: {error.problem}", error.remedy)
        else:
            yield Finding("ok", f"{name} is installed and configured")


def asked(patient: Patient) -> Iterator[Finding]:
    """What does the platform itself say?"""
    platform = patient.loaded and patient.loaded.config.platforms.get(patient.only or "")
    if platform and platform.enabled and patient.only is not None:
        yield from ask_platform(patient.only, platform)


def ask_platform(name: str, platform: PlatformConfig) -> Sequence[Finding]:
    """What the package of a platform finds there; nothing if it brings no check."""
    found = {entry.name: entry for entry in entry_points(group=CHECKS_OF_PLATFORMS)}
    if name not in found:
        return []
    try:
        check: AsksPlatform = found[name].load()
        return trio.run(check, platform)
    except (ConfigInvalid, ImportError):
        return []  # which is said by whoever loads the adapter


def conversation(patient: Patient) -> Iterator[Finding]:
    """When was somebody heard there last, and when answered?"""
    path = patient.home / "gateway.db"
    configured = patient.loaded.config.platforms if patient.loaded else ()
    if not path.exists() or patient.only is None or patient.only not in configured:
        return
    try:
        with closing(connect_reading(path)) as connection:
            heard = inbox.last_received(connection, patient.only)
            answered = outbox.last_sent(connection, patient.only)
    except (GatewayError, sqlite3.Error):
        return
    if heard is None:
        yield Finding("ok", f"nobody has been heard on {patient.only} yet")
        return
    text = f"somebody was heard on {patient.only} {_when(heard)}"
    yield Finding("ok", f"{text}, and the last answer arrived {_when(answered)}" if answered else text)


def _when(at: float) -> str:
    return f"on {datetime.fromtimestamp(at).astimezone():%Y-%m-%d at %H:%M}"


def directory(patient: Patient) -> Iterator[Finding]:
    """May we write to the home, and nobody else read it?"""
    home = patient.home
    if not home.exists():
        yield Finding("ok", f"{home} is not there yet; the first start makes it")
        return
    if is_read_only(home):
        yield Finding(
            "problem", f"{home} is on a disk that is read-only", "Mount it so that it can be written to."
        )
        return
    if not home.is_dir() or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        remedy = "Repair its rights, or set HERMES_HOME to another directory."
        yield Finding("problem", f"{home} is no directory that this account may write to", remedy)
        return
    open_to_others = [
        path
        for path in (home, *(home / name for name in ("config.yaml", ".env", "web.key", "gateway.db")))
        if os.name == "posix" and path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    for path in open_to_others:
        yield Finding("warning", f"others may read {path}", f"Run `chmod go= '{path}'`.")
    if not open_to_others:
        yield Finding("ok", f"{home} is private, and can be written to")
    journal = home / "journal"
    if journal.exists() and not (journal.is_dir() and os.access(journal, os.W_OK | os.X_OK)):
        remedy = "Repair its rights: no turn runs without its journal."
        yield Finding("problem", f"{journal} cannot be written to", remedy)


def original(patient: Patient) -> Iterator[Finding]:
    """Is there anything of hermes-agent in the home that is not used?"""
    left = unused(patient.home)
    yield from left or [Finding("ok", "nothing of hermes-agent in the home is unused")]


def disk(patient: Patient) -> Iterator[Finding]:
    """Is there room for what people say?"""
    place = next(path for path in (patient.home, *patient.home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    text = f"{free / 1e9:.1f} GB are free where the home is"
    level: Level = "problem" if free < NO_SPACE else "warning" if free < LITTLE_SPACE else "ok"
    yield Finding(
        level, text, "" if level == "ok" else "Free some space: on a full disk nothing is accepted."
    )


def database(patient: Patient) -> Iterator[Finding]:
    """Can the store be read, and is it sound?"""
    path = patient.home / "gateway.db"
    if not path.exists():
        yield Finding("ok", "there is no gateway.db yet; the first start makes it")
        return
    try:
        with closing(connect_reading(path)) as connection:
            (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
            had = {name for (name,) in connection.execute("SELECT name FROM schema_steps")}
    except (GatewayError, sqlite3.Error) as error:
        ours = as_store_error(error, path)
        if isinstance(ours, StoreError) and not isinstance(ours, StoreDamaged):
            # The disk or the rights, and nothing is known of what is in the file.
            yield Finding("problem", f"{path} cannot be read: {ours.problem}", ours.remedy)
            return
        verdict, had = str(error), set()
    if verdict != "ok":
        remedy = "The next start keeps a damaged one aside and begins a fresh one: copy it first."
        yield Finding("problem", f"{path} is not sound ({verdict})", remedy)
    elif unknown := had - {step.name for step in shipped_steps()}:
        yield Finding("problem", f"{path} is of a newer version (it has {max(unknown)})", "Install that one.")
    else:
        yield Finding("ok", f"{path} is sound")
    for copy in damaged_copies(path):
        text = f"the database was damaged once, and earlier conversations are in {copy.name} alone"
        yield Finding("warning", text, "Repair it or restore a backup; delete it when it is not needed.")


def allowed(patient: Patient) -> Iterator[Finding]:
    """What may the agent do for always, without asking?"""
    path = patient.home / "gateway.db"
    if not path.exists():
        return
    try:
        with closing(connect_reading(path)) as connection:
            facts = meta.every(connection, ALWAYS)
    except (GatewayError, sqlite3.Error):
        return  # what is wrong with it is said already
    for name, at in facts:
        day = datetime.fromtimestamp(float(at)).astimezone()
        text = (
            f"commands run without being asked about that: {name.removeprefix(ALWAYS)} (since {day:%Y-%m-%d})"
        )
        yield Finding("ok", f"{text}; /deny always in a chat takes that back")


def gateway(patient: Patient) -> Iterator[Finding]:
    """Who has the home, and how are its links?"""
    holder, status = recorded_holder(patient.home), patient.status
    if holder is None and is_locked(patient.home):
        yield Finding(
            "warning", "a gateway that cannot be seen from here has this home, as in another container"
        )
    elif holder is None:
        if status is not None and status.error is not None:
            text = f"the last start failed on {_when(status.updated_at.timestamp()).removeprefix('on ')}"
            yield Finding("warning", f"{text}: {status.error.removesuffix('.')}")
        left = f"; it was left {status.gateway_state}" if status else ""
        killed = (patient.home / LOCK_FILE).exists() and (patient.home / LOCK_FILE).stat().st_size > 0
        how = " (the last one was killed; the next takes up what it left)" if killed else ""
        yield Finding("ok", f"no gateway is running{left}{how}")
    elif status is None or not status.process.names(holder):
        yield Finding("warning", f"the gateway (pid {holder.pid}) has not said yet how it is", "Ask again.")
    else:
        yield Finding("ok", f"the gateway is {status.gateway_state}, pid {holder.pid}")
        yield from _links(status)


def _links(status: Status) -> Iterator[Finding]:
    for name, platform in status.platforms.items():
        if platform.state is PlatformState.FATAL:
            yield Finding("problem", f"{name} is given up", platform.error or "")
        elif platform.error:
            yield Finding("warning", f"{name} is {platform.state}: {platform.error.removesuffix('.')}")


def service(patient: Patient) -> Iterator[Finding]:
    """Does the installed service agree with this version and this configuration?"""
    if patient.loaded is None:
        return
    scopes: tuple[Scope, ...] = ("user", "system")
    for scope in scopes:
        if not file_of(scope).exists() or (place := look(scope)).found is None:
            continue
        again = "Run `hermes-trio service install" + (" --system`." if scope == "system" else "`.")
        if place.standing is ServiceFileState.ANOTHER_HOME:
            yield Finding("warning", f"{place.file} is the service of another home")
            continue
        if place.standing is ServiceFileState.EDITED:
            yield Finding("warning", f"somebody has edited {place.file}", "Use `systemctl edit` for changes.")
        elif (version := version_of(place.found)) != __version__:
            yield Finding("warning", f"{place.file} was written by version {version}", again)
        if not ON_A_MAC:
            yield from _unit(place.found, command_text(place.service.program), place.service.grace, again)
            yield from _lingering(scope)
        yield Finding("ok", f"{place.file} is installed")
        return
    yield Finding("ok", "no service is installed; `hermes-trio service install` would")


def _unit(text: str, program: str, grace: float, again: str) -> Iterator[Finding]:
    timeout, needed = unit_setting(text, "TimeoutStopSec") or "", stop_timeout(grace)
    if not timeout.isdecimal() or int(timeout) < needed:
        problem = f"the grace asks for a TimeoutStopSec of {needed}, and {UNIT} has {timeout or 'none'}"
        yield Finding("problem", problem, again)
    if (start := unit_setting(text, "ExecStart")) != f"{program} run":
        yield Finding("problem", f"{UNIT} starts another program ({start})", again)


def _lingering(scope: str) -> Iterator[Finding]:
    user = os.environ.get("USER", "")
    if scope == "user" and user and systemd.LINGERING.is_dir() and not (systemd.LINGERING / user).exists():
        text = f"the services of {user} end when {user} logs out"
        yield Finding("warning", text, "Run `loginctl enable-linger`.")


CHECKS: Sequence[Check] = (
    config,
    model,
    tool_servers,
    platforms,
    directory,
    original,
    disk,
    database,
    allowed,
    gateway,
    service,
)
OF_A_PLATFORM: Sequence[Check] = (config, platforms, asked, gateway, conversation)
