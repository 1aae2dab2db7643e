"""Warnings about files of hermes-agent, the original, that are in this home and are not used.

Its sessions are imported (`original_sessions`), its SOUL.md and memories are read unchanged, and its
`config.yaml` is accepted where the keys mean the same. Everything else stays where it is, and the person who
starts the gateway is told, so that nobody believes it was migrated.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec

from ...base.errors import ConfigInvalid
from ...base.plural import counted
from ...config.config_text import parse_env, read_text
from ...platform.doctor_checks import Finding

LARGEST = 16 << 20
MOST = 10_000
"""The maximum number of files that are counted."""

_PAIRED = ("pairing", "platforms/pairing")
_VARIABLE = re.compile(
    r"(TELEGRAM|DISCORD|SLACK|WHATSAPP|SIGNAL|MATRIX|MATTERMOST|EMAIL|SMS|TWILIO|FEISHU|DINGTALK|WECOM|WEIXIN"
    r"|QQ|BLUEBUBBLES|TEAMS|LINE|HASS|API_SERVER|WEBHOOK|GATEWAY|HERMES)_[A-Z0-9_]+"
)
_OURS = re.compile(r"HERMES_(?:HOME|TRIO_[A-Z_]+|SYSTEMD_[A-Z_]+|GATEWAY_EXTERNAL_SUPERVISOR)")


def unused(home: Path) -> list[Finding]:
    """Return a finding with a remedy for each unused part of the original in this home."""
    return [*_conversations(home), *_unpaired(home), *_variables(home), *without_use(home)]


def without_use(home: Path) -> list[Finding]:
    """Return a finding for each part of the original for which there is nothing here."""
    return [*_jobs(home), *_files(home)]


def _conversations(home: Path) -> Iterator[Finding]:
    path = home / "state.db"
    if not path.is_file():
        return
    try:
        # Immutable: SQLite creates no file beside it, and ignores the locks of a running original.
        with closing(sqlite3.connect(f"{path.absolute().as_uri()}?mode=ro&immutable=1", uri=True)) as db:
            (count,) = db.execute(
                "SELECT count(*) FROM sessions WHERE EXISTS "
                "(SELECT 1 FROM messages WHERE messages.session_id = sessions.id)"
            ).fetchone()
    except sqlite3.Error as error:
        yield Finding("warning", f"state.db of hermes-agent cannot be read ({error})")
        return
    if count:
        stay = "stays" if count == 1 else "stay"
        text = f"{counted(count, 'conversation')} of hermes-agent {stay} in state.db, unknown to the agent"
        yield Finding("warning", text, "Chats continue here without their earlier messages.")


def paired_people(home: Path) -> dict[str, dict[str, Any]]:
    """Return the people who were paired with the original: by platform, what it knows of each, by id."""
    people: dict[str, dict[str, Any]] = {}
    for folder in _PAIRED:
        for path in sorted((home / folder).glob("*-approved.json")):
            approved = _json(path)
            if isinstance(approved, dict) and approved:
                people.setdefault(path.name.removesuffix("-approved.json"), {}).update(approved)
    return people


def _unpaired(home: Path) -> Iterator[Finding]:
    for platform, ids in paired_people(home).items():
        listed = ", ".join(sorted(ids)[:20])
        who = counted(len(ids), "person", "people")
        text = f"{who} paired with hermes-agent on {platform} {'is' if len(ids) == 1 else 'are'} not let in"
        yield Finding("warning", text, f"Add their ids to platforms.{platform}.allow_from: {listed}.")


def _variables(home: Path) -> Iterator[Finding]:
    try:
        variables, _ = parse_env(read_text(home / ".env") or "", home / ".env")
        config = read_text(home / "config.yaml") or ""
    except ConfigInvalid:
        return  # reported where the configuration is loaded
    by_prefix: dict[str, list[str]] = {}
    for name, value in variables.items():
        is_used = f"${{{name}}}" in config or f"${{{name}:-" in config
        found = _VARIABLE.fullmatch(name)
        if value and found and not _OURS.fullmatch(name) and not is_used:
            by_prefix.setdefault(found[1], []).append(name)
    for prefix, names in by_prefix.items():
        text = f"{', '.join(sorted(names))} in .env {'is' if len(names) == 1 else 'are'} not used"
        if prefix in ("HERMES", "GATEWAY"):
            remedy = "Set the matching key in config.yaml; `hermes-trio config show` lists the keys."
        else:
            setup = "`hermes-trio setup` asks for what a platform needs"
            remedy = f"{setup}; people who may talk are listed in platforms.{prefix.lower()}.allow_from."
        yield Finding("warning", text, remedy)


def _jobs(home: Path) -> Iterator[Finding]:
    jobs = _json(home / "cron" / "jobs.json")
    if isinstance(jobs, dict):
        jobs = jobs.get("jobs")
    if isinstance(jobs, list) and jobs:
        runs = "does" if len(jobs) == 1 else "do"
        text = f"{counted(len(jobs), 'job')} of hermes-agent in cron/jobs.json {runs} not run here"
        yield Finding("warning", text, "Let cron or systemd call the API with `curl`, or remove the file.")


def _files(home: Path) -> Iterator[Finding]:
    for name, what in (
        ("hooks", "hooks"),
        ("plugins", "plugins"),
        ("profiles", "profiles"),
        ("auth.json", "logins"),
        ("gateway.json", "older settings"),
    ):
        path = home / name
        if path.is_file() or (path.is_dir() and any(path.iterdir())):
            yield Finding("warning", f"the {what} of hermes-agent in {name} are not used")


def _json(path: Path) -> Any:
    """Return the value in a JSON file; None if it is missing, too large or unreadable."""
    try:
        return msgspec.json.decode(path.read_bytes()) if path.stat().st_size <= LARGEST else None
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError):
        return None
