"""`hermes-trio doctor`: check everything that can be wrong around a gateway, and change nothing.

A check is a function that yields its findings about an `Installation`; `CHECKS` lists all checks. With the
name of a platform, the check in the package of that platform runs too, over the network.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime
from functools import cached_property
from importlib.metadata import entry_points
from pathlib import Path
from tempfile import TemporaryDirectory

import click
import trio

from ... import __version__
from ...base.errors import ConfigInvalid, GatewayError
from ...base.plural import counted
from ...config.config_file import Loaded, home_directory, load_config
from ...config.database_section import DatabaseConfig
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
from ...state.rules.original_home import unused
from ...state.tables import inbox, meta, outbox
from ...state.tables.approvals import ALWAYS
from ...tools.skill_folders import find_skills
from ..database_check import database_findings
from ..home_reader import open_for_reading
from ..probes import ask_model, ask_servers
from ..sandbox_check import sandbox_findings
from ..start_check import store_findings, web_and_model_findings
from .service_command import ON_A_MAC, find_service, service_file

LITTLE_SPACE = 1_000_000_000
NO_SPACE = 100_000_000


class Installation:
    """The home and the configuration that the checks examine. Each part is read once, when it is first
    used."""

    def __init__(self, home: Path, *, only: str | None = None) -> None:
        self.home, self.only = home, only

    @cached_property
    def loaded(self) -> Loaded | None:
        """The configuration, or None if no gateway would start with it."""
        try:
            return load_config(self.home, os.environ)
        except ConfigInvalid:
            return None

    @cached_property
    def status(self) -> Status | None:
        """The last state that a gateway wrote."""
        return read_status(self.home)


Check = Callable[[Installation], Iterator[Finding]]


@click.command()
@click.argument("platform", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON array.")
def command(platform: str | None, as_json: bool) -> None:
    """Look for problems, and print a remedy for each.

    With the name of a PLATFORM only this platform is checked, also over the network.
    """
    installation = Installation(home_directory(os.environ), only=platform)
    checks = CHECKS if platform is None else OF_A_PLATFORM
    findings = [(check.__name__, finding) for check in checks for finding in check(installation)]
    if as_json:
        click.echo(json.dumps([{"check": name, **asdict(finding)} for name, finding in findings], indent=2))
    else:
        show([finding for _, finding in findings])
    raise SystemExit(any(finding.level == "problem" for _, finding in findings))


def show(findings: Iterable[Finding]) -> None:
    """Print a line for each finding."""
    for finding in findings:
        stop = "" if finding.text.endswith("?") else "."
        remedy = f" {finding.remedy}" if finding.remedy else ""
        click.echo(f"{finding.level:8} {finding.text}{stop}{remedy}")


def config(installation: Installation) -> Iterator[Finding]:
    """Check that the gateway would start with the configuration."""
    try:
        loaded = load_config(installation.home, os.environ)
    except ConfigInvalid as error:
        yield from (Finding("problem", f"{one.key}: {one.problem}", one.remedy) for one in error.findings)
        return
    yield from (Finding("warning", warning) for warning in loaded.warnings)
    result = "is correct" if loaded.path.exists() else "does not exist, so every key has its default"
    yield Finding("ok", f"{loaded.path} {result}")
    for finding in (*store_findings(loaded), *web_and_model_findings(loaded)):
        yield Finding("problem", f"{finding.key}: {finding.problem}", finding.remedy)


def model(installation: Installation) -> Iterator[Finding]:
    """Check that the model of the gateway answers."""
    if installation.loaded is not None:
        yield from trio.run(ask_model, installation.loaded)


def tool_servers(installation: Installation) -> Iterator[Finding]:
    """Check that the MCP servers offer their tools."""
    if installation.loaded is None:
        return
    if not any(one.enabled for one in installation.loaded.config.mcp_servers.values()):
        yield Finding("ok", "no MCP servers are configured")
        return
    with TemporaryDirectory(prefix="hermes-doctor-") as folder:
        Path(folder, "logs").mkdir()
        yield from trio.run(ask_servers, installation.loaded, Path(folder))


def platforms(installation: Installation) -> Iterator[Finding]:
    """Check that platforms are configured, and that they can be loaded."""
    if installation.loaded is None:
        return
    enabled = {name: one for name, one in installation.loaded.config.platforms.items() if one.enabled}
    if installation.only is not None and installation.only not in enabled:
        if installation.only in {entry.name for entry in entry_points(group=GROUP)}:
            remedy = f"Run `hermes-trio setup {installation.only}`."
            yield Finding("problem", f"{installation.only} is not configured", remedy)
        else:
            yield Finding("problem", f"no platform {installation.only} is installed", "Install its package.")
        return
    if not enabled:
        remedy = "The terminal and the page need none; `hermes-trio setup` adds one."
        yield Finding("ok", "no platform is configured", remedy)
    for name, platform in enabled.items():
        if installation.only not in (None, name):
            continue
        try:
            make_adapter(name, platform)
        except ConfigInvalid as error:
            yield Finding("problem", f"{error.key}: {error.problem}", error.remedy)
        else:
            yield Finding("ok", f"{name} is installed and configured")


def asked(installation: Installation) -> Iterator[Finding]:
    """Check the platform over the network."""
    platform = installation.loaded and installation.loaded.config.platforms.get(installation.only or "")
    if platform and platform.enabled and installation.only is not None:
        yield from ask_platform(installation.only, platform)


def ask_platform(name: str, platform: PlatformConfig) -> Sequence[Finding]:
    """Run the check in the package of a platform. Return no findings if the package has no check."""
    found = {entry.name: entry for entry in entry_points(group=CHECKS_OF_PLATFORMS)}
    if name not in found:
        return []
    try:
        check: AsksPlatform = found[name].load()
        return trio.run(check, platform)
    except (ConfigInvalid, ImportError):
        return []  # reported when the adapter is loaded


def conversation(installation: Installation) -> Iterator[Finding]:
    """Report the times of the last message and of the last answer on the platform."""
    configured = installation.loaded.config.platforms if installation.loaded else ()
    if installation.only is None or installation.only not in configured:
        return
    try:
        with open_for_reading(installation.home) as db:
            heard = inbox.last_received(db, installation.only)
            answered = outbox.last_sent(db, installation.only)
    except GatewayError:
        return
    if heard is None:
        yield Finding("ok", f"there were no messages on {installation.only} yet")
        return
    text = f"the last message on {installation.only} came {_when(heard)}"
    yield Finding("ok", f"{text}, and the last answer arrived {_when(answered)}" if answered else text)


def _when(at: float) -> str:
    return f"on {datetime.fromtimestamp(at).astimezone():%Y-%m-%d at %H:%M}"


def sandbox(installation: Installation) -> Iterator[Finding]:
    """Check what confines the commands of the agent."""
    if installation.loaded is not None:
        yield from sandbox_findings(installation.home, installation.loaded.config)


def directory(installation: Installation) -> Iterator[Finding]:
    """Check that this account can write to the home, and that no other account can read it."""
    home = installation.home
    if not home.exists():
        yield Finding("ok", f"{home} does not exist yet; the first start makes it")
        return
    if is_read_only(home):
        yield Finding("problem", f"{home} is on a read-only disk", "Mount the disk for writing.")
        return
    if not home.is_dir() or not os.access(home, os.R_OK | os.W_OK | os.X_OK):
        remedy = "Correct its permissions, or set HERMES_HOME to another directory."
        yield Finding("problem", f"{home} is not a directory that this account can write to", remedy)
        return
    open_to_others = [
        path
        for path in (home, *(home / name for name in ("config.yaml", ".env", "web.key", "gateway.db")))
        if os.name == "posix" and path.exists() and stat.S_IMODE(path.stat().st_mode) & 0o077
    ]
    for path in open_to_others:
        yield Finding("warning", f"other accounts can read {path}", f"Run `chmod go= '{path}'`.")
    if not open_to_others:
        yield Finding("ok", f"{home} is private and writable")
    journal = home / "journal"
    if journal.exists() and not (journal.is_dir() and os.access(journal, os.W_OK | os.X_OK)):
        remedy = "Correct its permissions: no turn runs without its journal."
        yield Finding("problem", f"{journal} is not writable", remedy)


def original(installation: Installation) -> Iterator[Finding]:
    """Report files of hermes-agent in the home that are not used."""
    yield from unused(installation.home) or [Finding("ok", "no files of hermes-agent in the home are unused")]


def skills(installation: Installation) -> Iterator[Finding]:
    """Check the skills."""
    found = find_skills(installation.home)
    for refused in found.refused:
        yield Finding("warning", f"{refused.folder} is no skill: {refused.problem}", refused.remedy)
    names = f": {', '.join(found.skills)}" if found.skills else ""
    yield Finding("ok", f"{counted(len(found.skills), 'skill')}{names}")


def disk(installation: Installation) -> Iterator[Finding]:
    """Check the free space on the disk of the home."""
    place = next(path for path in (installation.home, *installation.home.parents) if path.exists())
    free = shutil.disk_usage(place).free
    level: Level = "problem" if free < NO_SPACE else "warning" if free < LITTLE_SPACE else "ok"
    remedy = "" if level == "ok" else "Free some space: with a full disk no message is accepted."
    yield Finding(level, f"{free / 1e9:.1f} GB are free on the disk of the home", remedy)


def database(installation: Installation) -> Iterator[Finding]:
    """Check that the database can be read and is not damaged."""
    loaded = installation.loaded
    yield from database_findings(installation.home, loaded.config.database if loaded else DatabaseConfig())


def allowed(installation: Installation) -> Iterator[Finding]:
    """Report the commands that are approved permanently."""
    try:
        with open_for_reading(installation.home) as db:
            facts = meta.every(db, ALWAYS)
    except GatewayError:
        return  # there is none yet, or the check of the database reports it
    for name, at in facts:
        day = datetime.fromtimestamp(float(at)).astimezone()
        text = f"no approval is needed for: {name.removeprefix(ALWAYS)} (since {day:%Y-%m-%d})"
        yield Finding("ok", f"{text}; /deny always in a chat revokes that")


def gateway(installation: Installation) -> Iterator[Finding]:
    """Report the gateway that uses the home, and the state of its links."""
    holder, status = recorded_holder(installation.home), installation.status
    if holder is None and is_locked(installation.home):
        text = "a gateway works in this home that cannot be seen from here, as in another container"
        yield Finding("warning", text, "Run this command there.")
    elif holder is None:
        if status is not None and status.error is not None:
            text = f"the last start failed on {_when(status.updated_at.timestamp()).removeprefix('on ')}"
            yield Finding("warning", f"{text}: {status.error.removesuffix('.')}")
        last_state = f"; the last state is {status.gateway_state}" if status else ""
        lock = installation.home / LOCK_FILE
        is_killed = lock.exists() and lock.stat().st_size > 0
        killed = " (the last one was killed; the next start resumes its work)" if is_killed else ""
        yield Finding("ok", f"no gateway is running{last_state}{killed}")
    elif status is None or not status.process.names(holder):
        text = f"the gateway (pid {holder.pid}) has not written its state yet"
        yield Finding("warning", text, "Run this command again.")
    else:
        yield Finding("ok", f"the gateway is {status.gateway_state}, pid {holder.pid}")
        yield from _links(status)


def _links(status: Status) -> Iterator[Finding]:
    for name, platform in status.platforms.items():
        if platform.state is PlatformState.FATAL:
            yield Finding("problem", f"{name} is given up", platform.error or "")
        elif platform.error:
            yield Finding("warning", f"{name} is {platform.state}: {platform.error.removesuffix('.')}")


def service(installation: Installation) -> Iterator[Finding]:
    """Check that the installed service fits this version and this configuration."""
    if installation.loaded is None:
        return
    scopes: tuple[Scope, ...] = ("user", "system")
    for scope in scopes:
        if not service_file(scope).exists() or (place := find_service(scope)).found is None:
            continue
        again = "Run `hermes-trio service install" + (" --system`." if scope == "system" else "`.")
        if place.state is ServiceFileState.ANOTHER_HOME:
            yield Finding("warning", f"{place.file} is the service of another home")
            continue
        if place.state is ServiceFileState.EDITED:
            yield Finding("warning", f"{place.file} was edited", "Use `systemctl edit` for changes.")
        elif (version := version_of(place.found)) != __version__:
            yield Finding("warning", f"{place.file} was written by version {version}", again)
        if not ON_A_MAC:
            yield from _unit(place.found, command_text(place.service.program), place.service.grace, again)
            yield from _lingering(scope)
        yield Finding("ok", f"{place.file} is installed")
        return
    yield Finding("ok", "no service is installed; `hermes-trio service install` installs one")


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
    sandbox,
    directory,
    original,
    skills,
    disk,
    database,
    allowed,
    gateway,
    service,
)
OF_A_PLATFORM: Sequence[Check] = (config, platforms, asked, gateway, conversation)
