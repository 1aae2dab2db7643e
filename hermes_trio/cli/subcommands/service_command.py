"""`hermes-trio service`: run the gateway as a service of systemd or launchd."""

from __future__ import annotations

import getpass
import os
import shutil
import stat
import sys
from dataclasses import dataclass
from pathlib import Path

import click

from ... import __version__
from ...base.errors import GatewayError, home_error
from ...base.world import World
from ...config.config_file import home_directory, load_config
from ...host.files.json_files import write_small
from ...host.files.private_files import make_private_dir
from ...host.home.markers import Kind, write_planned_stop_marker
from ...host.service import launchd, systemd
from ...host.service.service_files import (
    Scope,
    Service,
    ServiceFileState,
    launchd_plist,
    service_file_state,
    systemd_unit,
)
from ...tools.sandbox import bubblewrap

PUBLIC_FILE = 0o644
"""Mode of the service file. systemd warns about files that are not readable."""
_SERVICES = {"user": "services of this user", "system": "services of this machine"}
ON_A_MAC = sys.platform == "darwin"


class NoServiceManager(GatewayError):
    """There is no service manager here."""

    def __init__(self, scope: Scope) -> None:
        super().__init__(
            f"systemd does not answer here for the {_SERVICES[scope]}, so nothing was installed. Log in as "
            "the user of the service (su is no login), or use --system as root. In a container start "
            "`hermes-trio run --if-wanted`; under another supervisor start `hermes-trio run` with "
            "HERMES_GATEWAY_EXTERNAL_SUPERVISOR=1."
        )


class NotOurs(GatewayError):
    """The service file belongs to another home, or was edited."""

    def __init__(self, file: Path, found: ServiceFileState) -> None:
        super().__init__(f"{file} is {found.value}. Check it, then run this command again with --force.")
        self.file, self.found = file, found


class NotWritten(GatewayError):
    """The service file could not be written or removed."""

    def __init__(self, file: Path, scope: Scope, error: OSError) -> None:
        remedy = "Run this command with sudo." if scope == "system" else "Correct the permissions there."
        super().__init__(f"{file} cannot be changed ({error.strerror}). {remedy}")


@dataclass(frozen=True, slots=True)
class Place:
    """The service of this home, and its file."""

    service: Service
    file: Path
    text: str
    """The text that the file should have."""
    found: str | None
    """The text that the file has, or None if there is no file."""

    @property
    def state(self) -> ServiceFileState:
        return service_file_state(self.found, self.text, self.service.home)


_system = click.option(
    "--system",
    "scope",
    flag_value="system",
    default="user",
    help="Use the service of the machine, not that of this user.",
)
_force = click.option(
    "--force", is_flag=True, help="Also change a file that was edited or is for another home."
)


@click.group(no_args_is_help=True)
def command() -> None:
    """Run the gateway as a service of systemd or launchd."""


@command.command()
@_force
@_system
def install(force: bool, scope: Scope) -> None:
    """Write the service file, and print the next steps."""
    place = find_service(scope)
    if not ON_A_MAC and not systemd.is_reachable(scope, os.environ):
        raise NoServiceManager(scope)
    if place.state in (ServiceFileState.EDITED, ServiceFileState.ANOTHER_HOME) and not force:
        raise NotOurs(place.file, place.state)
    home = place.service.home
    try:
        if scope == "user":  # a system service may have another user, who makes the directory
            make_private_dir(home / "logs")
    except OSError as error:
        raise home_error(home, error, "logs") from error
    try:
        place.file.parent.mkdir(parents=True, exist_ok=True)
        write_small(place.file, place.text.encode())
        place.file.chmod(PUBLIC_FILE)
    except OSError as error:
        raise NotWritten(place.file, scope, error) from error
    click.echo(f"Written: {place.file}")
    click.echo("Next:")
    again = place.found is not None
    for step in launchd.next_steps(scope, again=again) if ON_A_MAC else systemd.next_steps(scope):
        click.echo(f"  {step}")
    click.echo(
        "A service does not see the variables of this shell: "
        f"write the variables that it needs into {home / '.env'}."
    )


@command.command()
@_system
def show(scope: Scope) -> None:
    """Print the service file, or its future text if it is not installed."""
    place = find_service(scope)
    click.echo(f"{place.file}: {place.state.value}", err=True)
    click.echo(place.text if place.found is None else place.found, nl=False)


@command.command()
@_force
@_system
def uninstall(force: bool, scope: Scope) -> None:
    """Stop the service, and remove its file."""
    place = find_service(scope)
    if place.state is ServiceFileState.NOTHING:
        click.echo(f"{place.file}: {place.state.value}")
        return
    if place.state in (ServiceFileState.EDITED, ServiceFileState.ANOTHER_HOME) and not force:
        raise NotOurs(place.file, place.state)
    if ON_A_MAC:
        launchd.disable(scope)
    elif not (answer := systemd.disable(scope, os.environ)).ok:
        raise GatewayError(f"systemd did not disable the service ({answer.text}). Nothing was removed.")
    try:
        place.file.unlink()
    except OSError as error:
        raise NotWritten(place.file, scope, error) from error
    if not ON_A_MAC:
        systemd.ask_systemctl(scope, "daemon-reload", environ=os.environ)
    click.echo(f"Removed: {place.file}")


@command.command(hidden=True)
def stopping() -> None:
    """Announce a stop; systemd runs this command before it sends the signal."""
    pid = os.environ.get("MAINPID")
    if pid:  # not set if the gateway has already ended
        kind: Kind = "restart" if systemd.is_restarting(os.environ) else "stop"
        home = home_directory(os.environ)
        write_planned_stop_marker(home, int(pid), World(), kind=kind, asked_by="systemd")


def find_service(scope: Scope) -> Place:
    """Return the service of the home of this environment, with its file."""
    service = service_of_environment(scope)
    text = launchd_plist(service) if ON_A_MAC else systemd_unit(service)
    file = service_file(scope)
    try:
        found = file.read_text("utf-8")
    except FileNotFoundError:
        found = None
    except (OSError, UnicodeDecodeError) as error:
        raise GatewayError(f"{file} cannot be read ({error}). Repair or remove it.") from error
    return Place(service, file, text, found)


def service_file(scope: Scope) -> Path:
    """Return the path of the service file, even if it does not exist."""
    return launchd.plist_file(scope) if ON_A_MAC else systemd.unit_file(scope, os.environ)


def service_of_environment(scope: Scope) -> Service:
    """Return the service that this environment needs."""
    environ = dict(os.environ)
    user = None
    if scope == "system":
        # With sudo the service is for the calling user, and the environment has the home directory of root.
        user = environ.get("SUDO_USER") or getpass.getuser()
        environ["HERMES_HOME"] = environ.get("HERMES_HOME") or f"~{user}/.hermes-trio"
    home = home_directory(environ)
    grace = load_config(home, environ).config.agent.restart_drain_timeout
    program = (sys.executable, "-m", "hermes_trio")
    path = _search_path(environ.get("PATH", ""))
    return Service(program, home, path, grace, __version__, user, setuid_sandbox=_is_setuid(path))


def _is_setuid(path: str) -> bool:
    """Return True if bubblewrap is installed on this search path with the rights of its owner."""
    program = shutil.which(bubblewrap.PROGRAM, path=path)
    return program is not None and bool(os.stat(program).st_mode & stat.S_ISUID)


def _search_path(path: str) -> str:
    """Return the search path for the agent's commands: the directory of our Python, then that of this
    shell."""
    beside = str(Path(sys.executable).parent)
    parts = [beside, *path.split(os.pathsep)]
    return os.pathsep.join(dict.fromkeys(part for part in parts if os.path.isabs(part)))
