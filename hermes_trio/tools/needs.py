"""The grants that a command asks for: `network HOST`, `network`, `write PATH` or `everything`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path

from ..host.processes.peers import is_on_this_machine
from .safety.protected_paths import folded, holds_protected
from .safety.verdict import one_command
from .sandbox.granted_hosts import Host, host_of
from .sandbox.views import Grants
from .tool import ToolFailed

FORMS = (
    "Use `network HOST` or `network HOST:PORT` for one host, `network` for all of them, `write PATH` with a "
    "path that exists, or `everything` to run outside of the sandbox."
)
NETWORK = "uses the network"
EVERYTHING = "runs outside of the sandbox"
_NETWORK_GRANT = "grant: network"


def needed(texts: Iterable[str], cwd: Path) -> Grants:
    """Return the grants that these texts ask for. It looks at the disk; call it in a thread. Raises
    `ToolFailed`."""
    network = everything = False
    hosts: list[Host] = []
    writable: list[Path] = []
    for text in texts:
        word, _, rest = text.strip().partition(" ")
        if word == "network" and not rest:
            network = True
        elif word == "network":
            hosts.append(_host(rest.strip()))
        elif word == "everything" and not rest:
            everything = True
        elif word == "write" and rest:
            writable.append(_existing(rest.strip(), cwd))
        else:
            raise ToolFailed(f"{text!r} is nothing that a command can need. {FORMS}")
    network = network or everything
    return Grants(network, () if network else tuple(dict.fromkeys(hosts)), tuple(writable), everything)


def _host(text: str) -> Host:
    host = host_of(text)
    if host is None:
        raise ToolFailed(f"{text!r} is no host. Name one such as `example.org` or `example.org:8443`.")
    if host.name == "localhost" or is_on_this_machine(host.name):
        raise ToolFailed(f"{host} is this machine, which is reached with `network` only.")
    return host


def _existing(text: str, cwd: Path) -> Path:
    path = os.path.realpath(cwd / os.path.expanduser(text))
    if not os.path.exists(path):
        raise ToolFailed(
            f"There is no {text} to write to. Name the directory in which it is made, or use write_file."
        )
    return Path(path)


def kinds_of(grants: Grants, command: str) -> Mapping[str, str]:
    """Return what a person is asked to allow, in words, and the name under which a yes is stored. For a
    session or for always it is for this grant; leaving the sandbox is allowed to one command only."""
    if grants.everything:
        return {EVERYTHING: one_command(EVERYTHING, command)}
    kinds = {NETWORK: _NETWORK_GRANT} if grants.network else {}
    kinds |= {f"connects to {host}": f"{_NETWORK_GRANT} {host}" for host in grants.hosts}
    return kinds | {write_kind(path): f"grant: write {path}" for path in grants.writable}


def shown_grants(grants: Grants) -> tuple[str, ...]:
    """Return the grants as a person is shown them, in the words of a command that asks for them."""
    if grants.everything:
        return (f"everything: it {EVERYTHING}",)
    network = ("network",) if grants.network else ()
    return (
        *network,
        *(f"network {host}" for host in grants.hosts),
        *(f"write {path}" for path in grants.writable),
    )


def is_allowed(name: str, allowed: Collection[str]) -> bool:
    """Return True if what is stored under this name is among those that are allowed. The whole network
    includes each host."""
    return name in allowed or (name.startswith(f"{_NETWORK_GRANT} ") and _NETWORK_GRANT in allowed)


def write_kind(path: Path) -> str:
    """Return the question for writing to a path, in words."""
    later = ", with all files that run later in it" if holds_protected(folded(str(path))) else ""
    return f"writes to {path}{later}, which it may not without a yes"
