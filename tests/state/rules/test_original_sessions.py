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
    real_stage: Stage, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    original(real_stage.home, entry("42", suspended=False), entry("43", suspended=True), place=place)
    before = {path: path.read_bytes() for path in real_stage.home.rglob("*.json")}
    async with real_stage.life():
        assert real_stage.entry("42").session_id == "20260519_120000_00000042"
        assert real_stage.entry("42").origin is not None
        await real_stage.says("hello", chat="42")
        await real_stage.says("hello", chat="43")
        assert real_stage.entry("42").session_id == "20260519_120000_00000042"
        assert real_stage.entry("43").auto_reset_reason == "suspended"
    assert {path: path.read_bytes() for path in before} == before
    assert "sessions of the original imported, without their messages" in caplog.text
    assert "taken=2" in re.sub(r"\x1b\[[0-9]*m", "", caplog.text)


async def test_the_import_is_done_once(real_stage: Stage) -> None:
    async with real_stage.life():
        pass
    original(real_stage.home, entry("42"))
    async with real_stage.life():
        await real_stage.says("/new")
        await real_stage.says("hello")
    fresh = real_stage.entry().session_id
    assert fresh != entry("42")["session_id"]
    original(real_stage.home, entry("42"), entry("44"))
    async with real_stage.life():
        assert real_stage.entry().session_id == fresh
        with pytest.raises(AssertionError):
            real_stage.entry("44")


async def test_the_import_does_not_replace_existing_sessions(real_stage: Stage) -> None:
    async with real_stage.life():
        await real_stage.says("hello")
    mine = real_stage.entry().session_id
    original(real_stage.home, entry("42"), entry("43"))
    async with real_stage.life():
        assert real_stage.entry("42").session_id == mine
        assert real_stage.entry("43").session_id == entry("43")["session_id"]


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
    real_stage: Stage, bad: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    original(real_stage.home, {**entry("41"), **bad}, entry("42"))
    async with real_stage.life():
        assert real_stage.entry("42").session_id == entry("42")["session_id"]
        with pytest.raises(AssertionError):
            real_stage.entry("41")
    assert "original session not imported" in caplog.text


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "{" * 100_000, '"x"', "\udcff"])
async def test_an_unreadable_session_file_is_logged_and_the_gateway_starts(
    real_stage: Stage, content: str, caplog: pytest.LogCaptureFixture
) -> None:
    (real_stage.home / "sessions").mkdir(parents=True)
    for name in ("sessions/sessions.json", ".restart_failure_counts"):
        (real_stage.home / name).write_bytes(content.encode("utf-8", "surrogateescape"))
    async with real_stage.life():
        await real_stage.says("hello")
        assert real_stage.platform.chat("42").last == "You said: hello"
    assert caplog.text.count("original session file not readable") == 2


async def test_an_imported_stuck_session_is_suspended_and_its_person_told(real_stage: Stage) -> None:
    keys = {chat: entry(chat)["session_key"] for chat in ("41", "42", "43")}
    counts = {keys["41"]: 2, keys["42"]: 3, keys["43"]: "many", "agent:main:gone": 9}
    original(real_stage.home, *(entry(chat, resume_pending=True) for chat in keys), counts=counts)
    async with real_stage.life():
        await real_stage.says("hello", chat="9")
        assert [real_stage.entry(chat).suspended for chat in keys] == [False, True, False]
        assert real_stage.platform.chat("42").texts == [texts.stuck()]
        assert real_stage.platform.chat("41").texts == []


async def test_an_imported_key_gets_our_spelling(real_stage: Stage) -> None:
    """The original does not escape ids in its keys."""
    theirs = entry("a", session_key="agent:main:memory:dm:!room:server")
    theirs["origin"] = {"platform": "memory", "chat_id": "!room:server", "user_id": "kim"}
    original(real_stage.home, theirs)
    async with real_stage.life():
        await real_stage.says("hello", chat="!room:server", user="kim")
        assert real_stage.entry("!room%3Aserver").session_id == theirs["session_id"]


def test_a_home_without_original_files_imports_nothing(tmp_path: Path) -> None:
    assert read_original(tmp_path) is None
