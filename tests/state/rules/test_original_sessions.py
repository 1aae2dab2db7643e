"""The import of an original's sessions: they continue here, and the original's files stay unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from hermes_trio.gateway.outbound import texts
from hermes_trio.state.rules.original_sessions import read_original
from tests.stage import Stage
from tests.state.rules.original_files import entry, original


@pytest.mark.parametrize("place", ["sessions", "."])
async def test_an_imported_chat_continues_in_its_session(
    stage: Stage, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    original(stage.home, entry("42", suspended=False), entry("43", suspended=True), place=place)
    before = {path: path.read_bytes() for path in stage.home.rglob("*.json")}
    async with stage.life():
        assert stage.entry("42").session_id == "20260519_120000_00000042"
        assert stage.entry("42").origin is not None
        await stage.says("hello", chat="42")
        await stage.says("hello", chat="43")
        assert stage.entry("42").session_id == "20260519_120000_00000042"
        assert stage.entry("43").auto_reset_reason == "suspended"
    assert {path: path.read_bytes() for path in before} == before
    assert "sessions of the original imported, without their messages" in caplog.text
    assert "taken=2" in re.sub(r"\x1b\[[0-9]*m", "", caplog.text)


async def test_the_import_is_done_once(stage: Stage) -> None:
    async with stage.life():
        pass
    original(stage.home, entry("42"))
    async with stage.life():
        await stage.says("/new")
        await stage.says("hello")
    fresh = stage.entry().session_id
    assert fresh != entry("42")["session_id"]
    original(stage.home, entry("42"), entry("44"))
    async with stage.life():
        assert stage.entry().session_id == fresh
        with pytest.raises(AssertionError):
            stage.entry("44")


async def test_the_import_does_not_replace_existing_sessions(stage: Stage) -> None:
    async with stage.life():
        await stage.says("hello")
    mine = stage.entry().session_id
    original(stage.home, entry("42"), entry("43"))
    async with stage.life():
        assert stage.entry("42").session_id == mine
        assert stage.entry("43").session_id == entry("43")["session_id"]


@pytest.mark.parametrize(
    "bad",
    [
        {"session_id": "../../etc/passwd"},
        {"session_id": "a/b"},
        {"session_id": "C:\\x"},
        {"session_id": None},
        {"created_at": "yesterday"},
        {"session_key": "../up", "origin": None},
        {"origin": {"platform": 7}},
    ],
)
async def test_an_unusable_entry_is_skipped_and_the_others_are_imported(
    stage: Stage, bad: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    original(stage.home, {**entry("41"), **bad}, entry("42"))
    async with stage.life():
        assert stage.entry("42").session_id == entry("42")["session_id"]
        with pytest.raises(AssertionError):
            stage.entry("41")
    assert "original session not imported" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{" * 100_000, '"x"', "\udcff"])
async def test_an_unreadable_session_file_is_logged_and_the_gateway_starts(
    stage: Stage, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (stage.home / "sessions").mkdir(parents=True)
    for name in ("sessions/sessions.json", ".restart_failure_counts"):
        (stage.home / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    async with stage.life():
        await stage.says("hello")
        assert stage.platform.chat("42").last == "You said: hello"
    assert caplog.text.count("original session file not readable") == 2


async def test_an_imported_stuck_session_is_suspended_and_its_person_told(stage: Stage) -> None:
    keys = {chat: entry(chat)["session_key"] for chat in ("41", "42", "43")}
    counts = {keys["41"]: 2, keys["42"]: 3, keys["43"]: "many", "agent:main:gone": 9}
    original(stage.home, *(entry(chat, resume_pending=True) for chat in keys), counts=counts)
    async with stage.life():
        await stage.says("hello", chat="9")
        assert [stage.entry(chat).suspended for chat in keys] == [False, True, False]
        assert stage.platform.chat("42").texts == [texts.session_suspended()]
        assert stage.platform.chat("41").texts == []


async def test_an_imported_key_gets_our_spelling(stage: Stage) -> None:
    """The original does not escape ids in its keys."""
    theirs = entry("a", session_key="agent:main:memory:dm:!room:server")
    theirs["origin"] = {"platform": "memory", "chat_id": "!room:server", "user_id": "kim"}
    original(stage.home, theirs)
    async with stage.life():
        await stage.says("hello", chat="!room:server", user="kim")
        assert stage.entry("!room%3Aserver").session_id == theirs["session_id"]


def test_a_home_without_original_files_imports_nothing(tmp_path: Path) -> None:
    assert read_original(tmp_path) is None
