"""`hermes-trio status`: what the gateway of this home is doing."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import click
import msgspec

from ...base.plural import counted
from ...config.config_file import home_directory
from ...host.home.home_lock import is_locked, recorded_holder
from ...host.home.state_file import STATUS_FILE, GatewayState, read_status
from ...host.processes.process_identity import is_alive
from ...host.processes.signals import ask_for_tree
from ...state.db.damaged import damaged_copies
from ..last_exit import last_ending, last_life

TREE_WITHIN = 5.0


@click.command()
@click.option("--json", "as_json", is_flag=True, help="For programs: one JSON object.")
@click.option("--tree", is_flag=True, help="Every task: what it waits for, since when, until when.")
def command(as_json: bool, tree: bool) -> None:
    """Say what the gateway of this home is doing."""
    home = home_directory(os.environ)
    _say_how_it_is(home, as_json=as_json, tree=tree)
    for copy in damaged_copies(home / "gateway.db"):
        if not as_json:
            click.echo(
                f"The database was damaged once: earlier conversations are in {copy.name}, if they can be "
                "repaired. Delete that file when it is not needed."
            )


def _say_how_it_is(home: Path, *, as_json: bool, tree: bool) -> None:
    status = read_status(home)
    alive = status is not None and is_alive(status.process)
    silent = not alive and is_locked(home)  # what the file says, if it is there, is of another life
    if as_json:
        found = msgspec.to_builtins(status) if status and not silent else {}
        click.echo(json.dumps({"running": alive or silent, **found}, indent=2))
        return
    if silent:
        holder = recorded_holder(home)
        whose = f"pid {holder.pid}" if holder else "it cannot be seen from here, as in another container"
        click.echo(f"A gateway has this home ({whose}), and {STATUS_FILE} does not say how it is.")
        return
    if status is None:
        click.echo("No gateway is running, and none has run in this home.")
        return
    if not alive:
        click.echo(f"No gateway is running. {last_life(status, last_ending(home))}")
        return
    click.echo(f"{status.gateway_state}, pid {status.pid}, {counted(status.active_turns, 'running turn')}")
    if status.gateway_state is GatewayState.DRAINING and status.after is None:
        click.echo("  held: nothing begins until `hermes-trio drain cancel`")
    for name, platform in status.platforms.items():
        trouble = f" ({platform.error})" if platform.error else ""
        click.echo(f"  {name}: {platform.state}{trouble}")
    if tree:
        click.echo(_tree(home, status.pid))


def _tree(home: Path, pid: int) -> str:
    """The tree of tasks as the gateway writes it when it is asked. Its file says that it can be asked."""
    path = home / "gateway_tree.txt"
    try:
        before, text = path.stat().st_mtime_ns, path.read_text("utf-8")
    except FileNotFoundError:
        text = ""
    if not text.startswith(f"pid {pid},") or not ask_for_tree(pid):
        raise click.ClickException("This gateway runs inside another program, which shows no tree.")
    until = time.monotonic() + TREE_WITHIN
    while time.monotonic() < until:
        time.sleep(0.02)
        if path.stat().st_mtime_ns != before:
            return path.read_text("utf-8")
    raise click.ClickException(
        "The gateway does not answer. If it hangs, its watchdog writes where into logs/gateway-watchdog.log."
    )
