"""`hermes-trio import`: from a home of hermes-agent to a gateway that knows its conversations."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from hermes_trio.cli import main
from hermes_trio.config.config_file import load_config
from hermes_trio.gateway.turn.context import TurnContext
from hermes_trio.host.home.home_lock import locked_home
from hermes_trio.state.tables import pairing, sessions, transcript
from tests.stage import KEY, Stage
from tests.state.rows import everything
from tests.state.rules.original_files import entry, said, state_db

Cli = Callable[..., Result]
AT = 1_779_000_000.0
"""A day before the day of the stage."""
TOKEN = "1234567890:AAExampleTokenExampleTokenExample"
CONFIG = """\
# My settings
model:
  provider: openrouter
  default: some/model
agent:
  max_turns: 40
display:
  skin: ares
memory:
  memory_enabled: true
"""
ENV = f"""\
TELEGRAM_BOT_TOKEN={TOKEN}
TELEGRAM_ALLOWED_USERS=42, 43
GATEWAY_ALLOWED_USERS=44
TELEGRAM_HOME_CHANNEL=42
OPENROUTER_API_KEY=sk-or-0123456789abcdefghij
FIREWORKS_API_KEY=fw-0123456789abcdefghij
SLACK_BOT_TOKEN=xoxb-0123456789-abcdefghij
SLACK_APP_TOKEN=xapp-0123456789-abcdefghij
LINE_BOT_TOKEN=0123456789abcdefghij
"""
CALL = [{"id": "c1", "type": "function", "function": {"name": "terminal", "arguments": '{"command": "ls"}'}}]
CHAT = (
    {"role": "system", "content": "You are Hermes."},
    {"role": "user", "content": "Look at Ümläute 🙂."},
    {"role": "assistant", "content": "Let me see.", "tool_calls": json.dumps(CALL), "reasoning": "Hm."},
    {"role": "tool", "content": "a\nb", "tool_call_id": "c1", "tool_name": "terminal"},
    {"role": "assistant", "content": "Taken back.", "active": 0},
    {"role": "assistant", "content": "There are two.", "finish_reason": "stop"},
)
TEXTS = [
    ("user", "Look at Ümläute 🙂."),
    ("assistant", "Let me see."),
    ("tool", "a\nb"),
    ("assistant", "There are two."),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """A home of the original with a chat, an earlier conversation of it, and one of a terminal."""
    source = tmp_path / "hermes"
    with state_db(source) as db:
        chat: dict[str, Any] = {"source": "memory", "chat_id": "42", "chat_type": "dm", "user_id": "42"}
        said(db, "20260501_120000_old", {"role": "user", "content": "Long ago."}, at=AT - 86400, **chat)
        said(db, "20260519_120000_chat", *CHAT, at=AT, title="Two files", **chat)
        picture = [
            {"type": "text", "text": "What is it?"},
            {"type": "image_url", "image_url": {"url": "data:"}},
        ]
        asked = {"role": "user", "content": "\0json:" + json.dumps(picture)}
        said(db, "terminal-1", asked, {"role": "assistant", "content": "A cat."}, at=AT, source="cli")
        said(db, "empty", at=AT, source="cli")
        said(db, "../evil", {"role": "user", "content": "?"}, at=AT, source="cli")
        route = entry("42", "20260519_120000_chat")
        db.execute(
            "INSERT INTO gateway_routing VALUES ('', ?, ?, ?)", (route["session_key"], json.dumps(route), AT)
        )
    (source / "config.yaml").write_text(CONFIG)
    (source / ".env").write_text(ENV)
    (source / "SOUL.md").write_text("You are terse.")
    (source / "memories").mkdir()
    (source / "memories" / "MEMORY.md").write_text("Kim likes tea.")
    (source / "platforms" / "pairing").mkdir(parents=True)
    (source / "platforms" / "pairing" / "memory-approved.json").write_text(
        json.dumps({"77": {"user_name": "Lee", "approved_at": AT}})
    )
    (source / "cron").mkdir()
    (source / "cron" / "jobs.json").write_text(json.dumps({"jobs": [{"id": "j"}]}))
    (source / "skills" / "tea").mkdir(parents=True)
    (source / "skills" / "tea" / "SKILL.md").write_text("Brew it.")
    return source


@pytest.fixture
def cli(stage: Stage, source: Path) -> Cli:
    """A function that imports into the home of the stage."""

    def run(*options: str) -> Result:
        environ = {"HERMES_HOME": str(stage.home)}
        return CliRunner().invoke(main, ["import", str(source), *options], env=environ)

    return run


def hashes(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


async def test_the_chat_goes_on_with_everything_that_was_said(stage: Stage, source: Path, cli: Cli) -> None:
    before = hashes(source)
    done = cli()
    assert done.exit_code == 0, done.output
    assert "taken    3 conversations with 7 messages: 2 of them go on here" in done.stdout
    assert hashes(source) == before, "the home of the original stays as it is"
    assert [(row.role, row.content) for row in _load(stage, "20260519_120000_chat")] == TEXTS
    [_, asking, result, _] = _load(stage, "20260519_120000_chat")
    assert asking.tool_calls[0].arguments == '{"command": "ls"}'
    assert (asking.reasoning, result.tool_call_id) == ("Hm.", "c1")

    heard: list[list[str]] = []

    async def listen(turn: TurnContext) -> str:
        heard.append([row.content for row in turn.history])
        return "Yes."

    stage.agent.does("And now?", listen)
    async with stage.life():
        await stage.says("And now?")
        assert stage.platform.chat("42").texts == ["Yes."], "nobody is told that messages are missing"
    assert heard == [[*(text for _, text in TEXTS)]]
    assert stage.entry().session_id == "20260519_120000_chat"
    assert stage.transcript() == [*TEXTS, ("user", "And now?"), ("assistant", "Yes.")]


async def test_other_conversations_are_ended_or_go_on_on_the_page(stage: Stage, cli: Cli) -> None:
    cli()
    with stage.looking() as db:
        old, terminal = (sessions.by_id(db, name) for name in ("20260501_120000_old", "terminal-1"))
        assert sessions.by_id(db, "empty") is None
        assert [entry.session_id for entry in sessions.newest(db, limit=9)][-1] == "20260501_120000_old"
    assert old is not None
    assert terminal is not None
    assert (old.session_key, old.end_reason) == (KEY.format("42"), "imported")
    assert (terminal.platform, terminal.ended_at) == ("api", None)
    assert [row.content for row in _load(stage, "terminal-1")] == [
        "What is it?\n[image_url, left in hermes-agent]",
        "A cat.",
    ]


def test_settings_people_and_notes_are_taken(stage: Stage, cli: Cli) -> None:
    out = cli().stdout
    config = load_config(stage.home, {}).config
    assert (config.model.name, config.agent.max_turns) == ("some/model", 40)
    assert config.model.api_key == "sk-or-0123456789abcdefghij"
    telegram = config.platforms["telegram"]
    assert (telegram.token, telegram.allow_from) == (TOKEN, ("42", "43", "44"))
    slack = config.platforms["slack"]
    assert (slack.token, slack.options["app_token"]) == (
        "xoxb-0123456789-abcdefghij",
        "xapp-0123456789-abcdefghij",
    )
    assert telegram.home_channel is not None
    assert telegram.home_channel.chat_id == "42"
    assert "# My settings" in (stage.home / "config.yaml").read_text()
    assert TOKEN not in (stage.home / "config.yaml").read_text()
    assert "FIREWORKS" not in (stage.home / ".env").read_text()
    assert (stage.home / ".env").stat().st_mode & 0o077 == 0
    assert (stage.home / "SOUL.md").read_text() == "You are terse."
    assert (stage.home / "memories" / "MEMORY.md").read_text() == "Kim likes tea."
    with stage.looking() as db:
        assert pairing.is_paired(db, "memory", ["77"])
    assert "left     FIREWORKS_API_KEY in .env: no key of config.yaml uses it" in out
    assert "left     LINE_BOT_TOKEN in .env: no platform line is installed" in out
    assert "left     1 job of hermes-agent in cron/jobs.json does not run here" in out
    assert "left     skills: `hermes-trio skills add FOLDER` copies one here" in out
    assert "left     the conversation '../evil'" in out
    for secret in (TOKEN, "sk-or-0123456789", "fw-0123456789", "xoxb-0123456789"):
        assert secret not in out


def test_a_dry_run_says_the_same_and_changes_nothing(stage: Stage, source: Path, cli: Cli) -> None:
    dry = cli("--dry-run").stdout.splitlines()
    assert not stage.home.exists()
    assert dry[:-1] == cli().stdout.splitlines()[:-2]


async def test_a_second_import_changes_nothing_and_takes_only_new_conversations(
    stage: Stage, source: Path, cli: Cli
) -> None:
    cli()
    rows, files = _everything(stage), hashes(stage.home)
    again = cli()
    assert "taken" not in again.stdout
    assert "here     3 conversations" in again.stdout
    assert _everything(stage) == rows
    assert {name: one for name, one in hashes(stage.home).items() if not name.startswith("gateway.")} == {
        name: one for name, one in files.items() if not name.startswith("gateway.")
    }
    with state_db(source) as db:
        said(db, "later", {"role": "user", "content": "New."}, at=AT + 9, source="cli")
    assert "taken    1 conversation with 1 message" in cli().stdout


def test_a_limit_that_nothing_here_keeps_is_told_and_stops_the_start(
    stage: Stage, source: Path, cli: Cli
) -> None:
    (source / "config.yaml").write_text("terminal: {backend: docker}\n")
    done = cli()
    assert "refused  terminal.backend: " in done.stdout
    assert "Before the first start decide" in done.stdout
    check = CliRunner().invoke(main, ["config", "check"], env={"HERMES_HOME": str(stage.home)})
    assert check.exit_code == 78
    again = cli()
    assert again.exit_code == 0
    assert "refused  terminal.backend: " in again.stdout


def test_conversations_older_than_the_retention_are_not_deleted_an_hour_later(
    stage: Stage, source: Path, cli: Cli
) -> None:
    with state_db(source) as db:
        said(db, "ancient", {"role": "user", "content": "Hello."}, at=1_600_000_000.0, source="cli")
    assert "retention.session_days" in cli().stdout
    assert load_config(stage.home, {}).config.retention.session_days == 36_500


def test_a_home_with_a_gateway_and_a_directory_of_something_else_are_refused(
    stage: Stage, source: Path, cli: Cli, tmp_path: Path
) -> None:
    with locked_home(stage.home):
        assert "works in this home" in cli().stderr
    other = CliRunner().invoke(main, ["import", str(tmp_path)], env={"HERMES_HOME": str(stage.home)})
    assert other.exit_code == 1
    assert "is no home of hermes-agent" in other.stderr
    (source / "state.db").write_bytes(b"SQLite format 3\0" + bytes(5000))
    broken = cli()
    assert broken.exit_code == 1
    assert "state.db cannot be read" in broken.stderr
    assert not (stage.home / "config.yaml").exists()


def _load(stage: Stage, session_id: str) -> list[transcript.TranscriptRow]:
    with stage.looking() as db:
        return transcript.load(db, session_id)


def _everything(stage: Stage) -> object:
    with closing(sqlite3.connect(stage.home / "gateway.db")) as db:
        return everything(db)
