"""A home of hermes-agent: `run` and `doctor` report unused files, and all of them stay unchanged."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from click.testing import CliRunner

from hermes_trio.cli import main
from hermes_trio.config.schema import SessionReset
from hermes_trio.gateway.turn.system_notes import reset_notice
from hermes_trio.state.rules.original_home import unused
from tests.machine import configure, environment, hermes, living
from tests.stage import Stage
from tests.state.rules.original_files import entry, original

TOKEN = "123456789:AAbbCCddEEffGGhhIIjjKKllMMnnOOppQQ"


def an_original(home: Path) -> None:
    """Write every kind of file that a home of the original may have."""
    home.mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(home / "state.db")) as db, db:
        db.execute(
            "CREATE TABLE sessions (id TEXT PRIMARY KEY, source TEXT NOT NULL, started_at REAL NOT NULL)"
        )
        db.execute(
            "CREATE TABLE messages (id INTEGER PRIMARY KEY, session_id TEXT, role TEXT, content TEXT, "
            "timestamp REAL)"
        )
        db.executemany("INSERT INTO sessions VALUES (?, 'telegram', 0)", [("a",), ("b",), ("empty",)])
        db.executemany(
            "INSERT INTO messages (session_id, role, content, timestamp) VALUES (?, 'user', 'hello', 0)",
            [("a",), ("a",), ("b",)],
        )
    for name, content in {
        "pairing/telegram-approved.json": {"42": {"user_name": "Kim"}, "43": {}},
        "platforms/pairing/telegram-approved.json": {"43": {}},
        "pairing/discord-approved.json": {},
        "cron/jobs.json": {"jobs": [{"id": "x"}]},
        "auth.json": {"tokens": {}},
    }.items():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(json.dumps(content))
    (home / "hooks").mkdir()
    (home / ".env").write_text(
        f"TELEGRAM_BOT_TOKEN={TOKEN}\nTELEGRAM_ALLOWED_USERS=42,43\nHERMES_YOLO_MODE=1\nDISCORD_BOT_TOKEN=\n"
        "SOMETHING_ELSE=1\nOPENROUTER_API_KEY=sk-or\n"
    )


WHAT = [
    "2 conversations of hermes-agent stay in state.db, unknown to the agent",
    "2 people paired with hermes-agent on telegram are not let in",
    "TELEGRAM_ALLOWED_USERS, TELEGRAM_BOT_TOKEN in .env are not used",
    "HERMES_YOLO_MODE in .env is not used",
    "1 job of hermes-agent in cron/jobs.json does not run here",
    "the logins of hermes-agent in auth.json are not used",
]


def test_every_unused_part_of_an_original_home_is_named_and_no_file_changes(tmp_path: Path) -> None:
    an_original(tmp_path)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert [finding.text for finding in unused(tmp_path)] == WHAT
    assert TOKEN not in str(unused(tmp_path))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_home_without_an_original_has_no_findings(tmp_path: Path) -> None:
    assert unused(tmp_path) == []
    (tmp_path / "config.yaml").write_text("platforms: {telegram: {token: '${TELEGRAM_BOT_TOKEN}'}}")
    (tmp_path / ".env").write_text(f"TELEGRAM_BOT_TOKEN={TOKEN}\nOPENAI_API_KEY=x\nHERMES_HOME=/x\n")
    assert unused(tmp_path) == []


@pytest.mark.parametrize("content", [b"", b"not a database", b"{", b"\xff\xfe", b"[" * 100_000])
def test_unreadable_original_files_raise_nothing(tmp_path: Path, content: bytes) -> None:
    for name in ("state.db", "pairing/x-approved.json", "cron/jobs.json", ".env"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(content)
    assert all("state.db of hermes-agent cannot be read" in found.text for found in unused(tmp_path))


def test_doctor_reports_unused_original_files(tmp_path: Path) -> None:
    an_original(tmp_path)
    result = CliRunner().invoke(main, ["doctor"], env={"HERMES_HOME": str(tmp_path)})
    for text in WHAT:
        assert re.search(rf"^warning +{re.escape(text)}\.", result.output, re.MULTILINE), text


@pytest.mark.timeout(120)
async def test_run_reports_unused_original_files_in_its_output_and_log(tmp_path: Path) -> None:
    home = tmp_path / "home"
    configure(home)
    an_original(home)
    async with living(home) as life:
        await life.up()
        await hermes("stop", environ=environment(home))
        await life.ended()
    log = (home / "logs" / "gateway.log").read_text()
    for text in WHAT:
        assert f"warning: {text}." in life.output
        assert text in log


@pytest.mark.sqlite
async def test_the_chat_of_an_imported_session_is_told_that_earlier_messages_are_missing(
    stage: Stage,
) -> None:
    original(stage.home, entry("42", resume_pending=True), entry("43"))
    async with stage.life():
        await stage.says("hello", chat="42")
        await stage.says("again", chat="42")
        assert stage.entry("42").session_id == entry("42")["session_id"]
        assert not stage.entry("42").resume_pending
        texts = stage.platform.chat("42").texts
        assert texts[0] == reset_notice("imported", SessionReset())
        assert texts[-1] == "You said: again"
        assert texts.count(texts[0]) == 1
        assert stage.platform.chat("43").texts == []
    listed = CliRunner().invoke(main, ["sessions", "list"], env={"HERMES_HOME": str(stage.home)}).output
    assert listed.count("imported without messages") == 1
