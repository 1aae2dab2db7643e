"""`hermes-trio schedule`: the reminders and repeated tasks of the running gateway."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import click

from ..gateway_request import ask_gateway

SESSION = "schedule"


@click.group(invoke_without_command=True)
@click.pass_context
def command(ctx: click.Context) -> None:
    """List reminders and repeated tasks, and change them. The gateway must run."""
    if ctx.invoked_subcommand is None:
        _list()


@command.command("list")
def list_() -> None:
    """List all jobs, the next one first."""
    _list()


def _list() -> None:
    found = ask_gateway("GET", "/api/schedule")["jobs"]
    for job in found:
        click.echo(_line(job))
    if not found:
        click.echo("Nothing is scheduled.")


@command.command()
@click.argument("when")
@click.argument("text")
@click.option("--session", default=SESSION, show_default=True, help="Conversation that gets the answers.")
@click.option("--zone", default="", help="Time zone, like Europe/Berlin. Default: that of the machine.")
@click.option(
    "--missed",
    type=click.Choice(["once", "all", "skip"]),
    default="once",
    show_default=True,
    help="What happens to times that pass while the gateway is down.",
)
def add(when: str, text: str, session: str, zone: str, missed: str) -> None:
    """Give the agent the task TEXT at WHEN: in 20m, 09:00, every 2h, daily 09:00, or a line of cron."""
    body = {"session_id": session, "when": when, "text": text, "zone": zone, "missed": missed}
    click.echo(_line(ask_gateway("POST", "/api/schedule", body)["job"]))


@command.command()
@click.argument("job")
def pause(job: str) -> None:
    """Let a JOB send nothing until it is resumed."""
    _change(job, "pause")


@command.command()
@click.argument("job")
def resume(job: str) -> None:
    """Let a paused JOB go on."""
    _change(job, "resume")


@command.command()
@click.argument("job")
def run(job: str) -> None:
    """Run a JOB now."""
    _change(job, "run")


@command.command()
@click.argument("job")
def remove(job: str) -> None:
    """Remove a JOB."""
    ask_gateway("DELETE", f"/api/schedule/{job}")
    click.echo(f"Removed: {job}")


def _change(job: str, action: str) -> None:
    ask_gateway("PATCH", f"/api/schedule/{job}", {"action": action})
    click.echo(f"Done: {action} {job}")


def _line(job: dict[str, Any]) -> str:
    """Return a job as one line."""
    at = job["next_at"]
    next_at = f"next {datetime.fromtimestamp(at).astimezone():%Y-%m-%d %H:%M}" if at else "over"
    text = " ".join(job["text"].split())
    return f"{job['id']}  {job['when']} · {'paused' if job['paused'] else next_at} · {text[:80]}"
