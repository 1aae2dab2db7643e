"""The move from a home of hermes-agent, the original, into one of ours. The original's home stays as it is.

The conversations and the people are one transaction. Files are copied where there is none yet, `config.yaml`
last. So a move that is broken off can be made again, and a second one finds nothing to do.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Literal

from ...base.errors import ConfigInvalid, GatewayError, home_error
from ...base.plural import counted
from ...base.world import World
from ...config.config_file import load_config
from ...config.config_text import Scalar, Tree, parse_env, parse_yaml, read_text
from ...config.original_environment import FromEnvironment, from_environment
from ...config.original_spelling import our_spelling
from ...config.schema import GatewayConfig
from ...gateway.links.adapters import GROUP
from ...host.files.json_files import write_small
from ...host.files.private_files import make_private_dir
from ...host.home.home_lock import locked_home
from ...state.backup.backup_writer import copy_database
from ...state.db.engine import Db
from ...state.db.migrations import shipped_steps
from ...state.db.opening import open_connections
from ...state.rules.original_home import paired_people, without_use
from ...state.rules.original_sessions import read_original
from ...state.rules.original_transcripts import Moved, move_conversations, open_original
from ...state.tables import pairing
from ...state.tables.session_entry import parse_time
from ...tools.skill_folders import FILE, skill_places
from ..config_writer import with_values, with_variables

DAY = 86400.0
KEPT_DAYS = 36_500
"""The days for which sessions are kept after an import of older ones; the original keeps all."""
NOTES = ("SOUL.md", "memories")

Verdict = Literal["taken", "here", "left", "refused"]


class NoOriginal(GatewayError):
    """There is no home of hermes-agent at this path."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} is no home of hermes-agent: it has no state.db, config.yaml or SOUL.md. "
            "Name its directory: `hermes-trio import DIRECTORY`."
        )


@dataclass(frozen=True, slots=True)
class Item:
    """One part of the home of the original, and what becomes of it."""

    verdict: Verdict
    text: str
    reason: str = ""


@dataclass(slots=True)
class _Move:
    source: Path
    home: Path
    world: World
    dry: bool
    items: list[Item] = field(default_factory=list)

    def note(self, verdict: Verdict, text: str, reason: str = "") -> None:
        self.items.append(Item(verdict, text, reason))


def move(source: Path, home: Path, environ: Mapping[str, str], world: World, *, dry: bool) -> Sequence[Item]:
    """Move in from `source`, and return what became of each part of it; with `dry` change nothing. Raises
    `GatewayError`: `HomeBusy` if a gateway works in the home."""
    if not any((source / name).exists() for name in ("state.db", "config.yaml", "SOUL.md")):
        raise NoOriginal(source)
    move = _Move(source, home, world, dry)
    with ExitStack() as held:
        if not dry:
            held.enter_context(locked_home(home))
        config, variables, text = _configuration(move, environ)
        db = held.enter_context(_database(home, world, dry=dry))
        db.execute("BEGIN IMMEDIATE")
        oldest = _conversations(move, db, config)
        _people(move, db)
        db.execute("ROLLBACK" if dry else "COMMIT")
        try:
            _notes(move)
            _skills(move)
            _write_configuration(move, variables, text, config, oldest)
        except OSError as error:
            raise home_error(home, error) from error
    for finding in without_use(source):
        move.note("left", finding.text, finding.remedy)
    return move.items


@contextmanager
def _database(home: Path, world: World, *, dry: bool) -> Iterator[Db]:
    """Open the database of the home; to try only, a copy that is thrown away."""
    with ExitStack() as held:
        path = home / "gateway.db"
        if dry:
            folder = Path(held.enter_context(tempfile.TemporaryDirectory(prefix="hermes-import-")))
            if path.exists():
                copy_database(path, folder / path.name)
            path = folder / path.name
        opened = open_connections(path, world, shipped_steps())
        held.enter_context(closing(opened.reading))
        yield held.enter_context(closing(opened.writing))


def _configuration(
    move: _Move, environ: Mapping[str, str]
) -> tuple[GatewayConfig, FromEnvironment, str | None]:
    """Return the configuration with which the home will run, what the variables become, and the new text of
    its file; no text if the home has a file already."""
    env = move.source / ".env"
    variables, _ = parse_env(read_text(env) or "", env)
    text = read_text(move.source / "config.yaml") or ""
    ours = read_text(move.home / "config.yaml")
    if ours is not None:
        move.note("here", "config.yaml", "this home has one already, and it stays as it is")
        return _loaded(move, move.home, ours, environ), FromEnvironment(), None
    tree, _ = our_spelling(parse_yaml(text, move.source / "config.yaml"), [])
    installed = sorted(entry.name for entry in entry_points(group=GROUP))
    found = from_environment(variables, tree, text, installed)
    new = with_values(text or "# Imported from hermes-agent.\n", found.values, move.home / "config.yaml")
    with tempfile.TemporaryDirectory(prefix="hermes-import-") as trial:
        write_small(Path(trial, "config.yaml"), new.encode())
        write_small(Path(trial, ".env"), with_variables("", found.variables).encode())
        return _loaded(move, Path(trial), new, environ), found, new


def _loaded(move: _Move, home: Path, text: str, environ: Mapping[str, str]) -> GatewayConfig:
    """Load a configuration, and note what of it has no effect here and what prevents a start. With such
    mistakes only what the keys of conversations depend on is read."""
    try:
        loaded = load_config(home, environ)
    except ConfigInvalid as error:
        for warning in error.warnings:
            move.note("left", warning)
        for finding in error.findings:
            move.note("refused", f"{finding.key}: {finding.problem}", finding.remedy)
        tree, _ = our_spelling(parse_yaml(text, home / "config.yaml"), [])
        return GatewayConfig(
            group_sessions_per_user=_flag(tree.get("group_sessions_per_user"), default=True),
            thread_sessions_per_user=_flag(tree.get("thread_sessions_per_user"), default=False),
        )
    for warning in loaded.warnings:
        move.note("left", warning)
    return loaded.config


def _flag(value: Tree, *, default: bool) -> bool:
    return value.value if isinstance(value, Scalar) and isinstance(value.value, bool) else default


def _conversations(move: _Move, db: Db, config: GatewayConfig) -> float:
    """Take the conversations, and return the time of the last use of the oldest one."""
    path = move.source / "state.db"
    if not path.is_file():
        return move.world.time()
    files = read_original(move.source)
    with open_original(path) as original:
        moved = move_conversations(db, original, files.entries if files else {}, config, dry=move.dry)
    _note_conversations(move, moved)
    return min((one.entry.updated_at for one in moved.taken), default=move.world.time())


def _note_conversations(move: _Move, moved: Moved) -> None:
    if moved.taken:
        text = f"{counted(len(moved.taken), 'conversation')} with {counted(moved.messages, 'message')}"
        going_on = sum(one.entry.ended_at is None for one in moved.taken)
        move.note("taken", text, f"{going_on} of them go on here")
    if moved.known:
        move.note("here", counted(moved.known, "conversation"), "they were imported before")
    for session_id in moved.refused:
        move.note("left", f"the conversation {session_id[:60]!r}", "its id or its chat cannot be used here")
    if left := sum(one.left for one in moved.taken):
        reason = "hermes-agent has taken them back or replaced them by a summary, or they are its own notes"
        move.note("left", counted(left, "message"), reason)


def _people(move: _Move, db: Db) -> None:
    for platform, people in paired_people(move.source).items():
        new = [user_id for user_id in people if not pairing.is_paired(db, platform, [user_id])]
        for user_id in new:
            known = people[user_id] if isinstance(people[user_id], Mapping) else {}
            name = known.get("user_name")
            at = parse_time(known.get("approved_at")) or move.world.time()
            person = pairing.Person(platform, user_id, name if isinstance(name, str) else None, at)
            pairing.let_in(db, person)
        if new:
            move.note("taken", f"{counted(len(new), 'paired person', 'paired people')} on {platform}")
        if len(new) < len(people):
            move.note("here", f"{counted(len(people) - len(new), 'person', 'people')} on {platform}")


def _notes(move: _Move) -> None:
    """Copy the character and the memories of the agent."""
    for path in _files(move.source):
        name = path.relative_to(move.source)
        if (target := move.home / name).exists():
            move.note("here", name.as_posix())
            continue
        move.note("taken", name.as_posix())
        if not move.dry:
            make_private_dir(target.parent)
            write_small(target, path.read_bytes())


def _skills(move: _Move) -> None:
    """Name what becomes of the skills: those in the usual home of the original are read where they are."""
    folder = move.source / "skills"
    if next(folder.rglob(FILE), None) is None:
        return
    if folder.resolve() in (place.resolve() for place in skill_places(move.home)):
        move.note("here", "skills", "they are read where they are")
    else:
        move.note("left", "skills", "`hermes-trio skills add FOLDER` copies one here")


def _files(source: Path) -> Iterator[Path]:
    for name in NOTES:
        path = source / name
        inside = sorted(path.rglob("*.md")) if path.is_dir() else [path]
        yield from (one for one in inside if one.is_file())


def _write_configuration(
    move: _Move, found: FromEnvironment, text: str | None, config: GatewayConfig, oldest: float
) -> None:
    if text is None:
        if move.world.time() - oldest > config.retention.session_days * DAY:
            days = config.retention.session_days
            remedy = f"Raise retention.session_days, or they are deleted: they are older than {days} days."
            move.note("refused", "the oldest conversations", remedy)
        return
    values: dict[tuple[str, ...], object] = {}
    if move.world.time() - oldest > config.retention.session_days * DAY:
        values["retention", "session_days"] = KEPT_DAYS
    move.note("taken", "config.yaml", _described(found, values))
    for name, reason in found.left.items():
        move.note("left", f"{name} in .env", reason)
    if move.dry:
        return
    env = move.home / ".env"
    if found.variables:
        kept = {**found.variables, **parse_env(read_text(env) or "", env)[0]}
        write_small(env, with_variables(read_text(env) or "", kept).encode())
    write_small(move.home / "config.yaml", with_values(text, values, move.home / "config.yaml").encode())


def _described(found: FromEnvironment, values: Mapping[tuple[str, ...], object]) -> str:
    added = ", ".join(".".join(path) for path in (*found.values, *values))
    parts = [
        f"with {added}" if added else "",
        f"and {', '.join(found.variables)} in .env" if found.variables else "",
    ]
    return " ".join(filter(None, parts))
