"""`hermes-trio status`: the state of the gateway of this home."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec

from ... import __version__
from ...base.errors import ConfigInvalid, GatewayError
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import home_directory, load_config
from ...host.home.home_lock import is_locked, recorded_holder
from ...host.home.state_file import STATUS_FILE, GatewayState, Status, read_status
from ...host.processes.process_identity import is_alive
from ...host.processes.signals import ask_for_tree
from ...state.db.damaged import damaged_copies
from ..last_exit import describe_last_life, last_ending

TREE_TIMEOUT = 5.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
@click.option(
    "--tree", is_flag=True, help="Print every task, with what it waits for, since when and until when."
)
def command(as_json: bool, tree: bool) -> None:
    """Print the state of the gateway of this home."""
    home = home_directory(os.environ)
    _print_state(home, as_json=as_json, tree=tree)
    for copy in damaged_copies(home / "gateway.db"):
        if not as_json:
            click.echo(
                f"The database was damaged once: earlier conversations are only in {copy.name}. Repair that "
                "file, or delete it if it is not needed."
            )


def _print_state(home: Path, *, as_json: bool, tree: bool) -> None:
    status = read_status(home)
    alive = status is not None and is_alive(status.process)
    silent = not alive and is_locked(home)  # the state file, if it exists, is that of another life
    if as_json:
        found = msgspec.to_builtins(status) if status and not silent else {}
        click.echo(json.dumps({"running": alive or silent, **found}, indent=2))
        return
    if silent:
        holder = recorded_holder(home)
        which = f"pid {holder.pid}" if holder else "it cannot be seen from here, as in another container"
        click.echo(f"A gateway works in this home ({which}), but its state is not in {STATUS_FILE}.")
        return
    if status is None:
        click.echo("No gateway is running, and none has run in this home.")
        return
    if not alive:
        click.echo(f"No gateway is running. {describe_last_life(status, last_ending(home))}")
        return
    for name, value in _rows(home, status):
        click.echo(f"{name:<10}{value}")
    if status.gateway_state is GatewayState.DRAINING and status.after is None:
        click.echo("drained: no turn begins until `hermes-trio drain cancel`")
    if tree:
        click.echo(_tree(home, status.pid))


def _rows(home: Path, status: Status) -> Iterator[tuple[str, str]]:
    """Yield what is known of a running gateway, as the rows of a table."""
    from ...gateway.outbound.texts import duration  # imported here: only a running gateway has an uptime

    yield "state", f"{status.gateway_state}, pid {status.pid}, {counted(status.active_turns, 'running turn')}"
    yield "address", status.web or "no page and no API"
    yield "model", _model(home)
    if status.since is not None:
        since = status.since.astimezone()
        yield "up", f"{duration(World().time() - since.timestamp())}, since {since:%Y-%m-%d %H:%M:%S}"
    restart = "" if status.version in (None, __version__) else f"; a restart begins version {__version__}"
    yield "version", f"{status.version or __version__}{restart}"
    yield "home", str(home)
    if (waiting := _waiting(home)) is not None:
        yield "waiting", waiting
    for name, platform in status.platforms.items():
        yield name, f"{platform.state}{f' ({platform.error})' if platform.error else ''}"


def _model(home: Path) -> str:
    """Return the model of the configuration."""
    try:
        model = load_config(home, os.environ).config.model
    except ConfigInvalid:
        return "unknown: the configuration has mistakes since the start"
    return f"{model.name or 'the usual one'}, provider {model.provider}"


def _waiting(home: Path) -> str | None:
    """Return what waits to be answered, sent or decided; None if the database cannot be read."""
    # Imported here: the status of a gateway that does not run needs nothing of this.
    from ...state.tables import approvals, inbox, outbox
    from ..home_reader import open_for_reading

    try:
        with open_for_reading(home) as db:
            waiting = {
                "message": inbox.count_all_pending(db),
                "unsent message": outbox.count_undelivered(db),
                "open question": approvals.count_open(db),
            }
    except GatewayError:
        return None
    return ", ".join(counted(number, what) for what, number in waiting.items() if number) or "nothing"


def _tree(home: Path, pid: int) -> str:
    """Ask the gateway for its tree of tasks, and return it. An older file of this process shows that it can
    write one."""
    path = home / "gateway_tree.txt"
    try:
        before, text = path.stat().st_mtime_ns, path.read_text("utf-8")
    except FileNotFoundError:
        text = ""
    if not text.startswith(f"pid {pid},") or not ask_for_tree(pid):
        raise click.ClickException("This gateway runs inside another program, and writes no tree.")
    deadline = time.monotonic() + TREE_TIMEOUT
    while time.monotonic() < deadline:
        time.sleep(0.02)
        if path.stat().st_mtime_ns != before:
            return path.read_text("utf-8")
    raise click.ClickException(
        "The gateway does not answer. If it hangs, logs/gateway-watchdog.log shows the place."
    )
