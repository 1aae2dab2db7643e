"""The check of the sandbox: what confines the commands of the agent on this machine, and where they work."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from ..base.errors import ConfigInvalid
from ..config.schema import GatewayConfig
from ..gateway.processes.command import work_directory
from ..platform.doctor_checks import Finding
from ..tools.sandbox.available import Available, choose
from ..tools.sandbox.exposed_places import MOST_NAMED
from ..tools.sandbox.remote.remote_place import RemotePlace
from ..tools.sandbox.session_sandbox import SandboxKind
from ..tools.sandbox.views import DEPTH, find_places, login_directories


def sandbox_findings(home: Path, config: GatewayConfig) -> Iterator[Finding]:
    """Yield what confines commands, and what is weaker than it could be."""
    try:
        available = choose(config.terminal)
    except ConfigInvalid as error:
        yield from (Finding("problem", f"{one.key}: {one.problem}", one.remedy) for one in error.findings)
        return
    if available.remote is not None:
        yield _remote_finding(available, available.remote, work_directory(home, config.terminal))
        return
    if available.kind is SandboxKind.OFF:
        why = f" ({available.reasons})" if available.refused else ""
        yield Finding("warning", f"no sandbox confines the commands of the agent{why}", available.remedy)
    elif available.refused:
        lack = "which is weaker than bubblewrap"
        if available.kind is SandboxKind.LANDLOCK_ALONE:
            lack = _exposed(work_directory(home, config.terminal))
        text = f"commands run under {available.kind}, {lack} ({available.reasons})"
        yield Finding("warning", text, available.remedy)
    else:
        yield Finding("ok", f"commands run under {available.kind}")
    work = work_directory(home, config.terminal)
    if not work.is_dir() and config.terminal.cwd is not None:
        yield Finding("problem", f"the work directory {work} does not exist", "Make it, or set terminal.cwd.")
    elif available.confines and any(
        Path(login).is_relative_to(work.resolve()) for login in login_directories()
    ):
        text = (
            f"the work directory {work} is a home directory or above one: commands can make no new file there"
        )
        yield Finding("warning", text, "Set terminal.cwd to a directory for the agent's work.")
    else:
        yield Finding("ok", f"commands work in {work}")
    if available.confines:
        yield from _missing_paths("terminal.writable", config.terminal.writable)
        yield from _missing_paths("terminal.readable", config.terminal.readable)


def _exposed(work: Path) -> str:
    """Return what the places mean that this sandbox cannot protect, with their names."""
    places = sorted(os.path.relpath(path, work) for path, _ in find_places(str(work), depth=DEPTH))
    if not places:
        return "which cannot protect `.env` and settings of git in the work directory; there are none now"
    more = f" and {len(places) - MOST_NAMED} more" if len(places) > MOST_NAMED else ""
    names = ", ".join(places[:MOST_NAMED])
    return f"which cannot protect {names}{more} in {work}, so commands need a yes there"


def _missing_paths(key: str, paths: Iterable[str]) -> Iterator[Finding]:
    for path in paths:
        if not Path(path).expanduser().exists():
            yield Finding("warning", f"{key}: there is no {path}", "Make it, or remove it from config.yaml.")


def _remote_finding(available: Available, remote: RemotePlace, work: Path) -> Finding:
    if available.trouble is not None:
        return Finding("problem", f"{available.trouble}: every command fails", available.remedy)
    return Finding("ok", f"commands run in {remote.name}, in {work}")
