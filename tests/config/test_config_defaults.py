"""The defaults and help texts of the keys, and the reset policy of a chat."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from hermes_trio.config.config_file import load_config
from hermes_trio.config.schema import GatewayConfig, SessionReset, reset_policy
from hermes_trio.config.section import Section, keys
from tests.config.reading import Load

CONTRACT = {
    "model": {
        "provider": "demo",
        "base_url": None,
        "name": None,
        "api_key": None,
        "context_length": None,
        "fallback": {"name": None, "provider": None, "base_url": None, "api_key": None},
    },
    "agent": {
        "restart_drain_timeout": 0,
        "max_turns": 90,
        "gateway_timeout": 1800,
        "gateway_timeout_warning": 900,
        "gateway_notify_interval": 180,
        "clarify_timeout": 3600,
        "api_max_retries": 3,
        "stuck_after": 3,
        "gateway_auto_continue_freshness": 3600,
        "crash_recovery": "resume",
        "disabled_toolsets": [],
    },
    "display": {"busy_input_mode": "interrupt", "background_process_notifications": "all"},
    "streaming": {"enabled": True, "edit_interval": 0.8, "cursor": " ▉"},
    "session_reset": {
        "mode": "none",
        "at_hour": 4,
        "idle_minutes": 1440,
        "notify": True,
        "notify_exclude_platforms": ["api", "webhook"],
        "bg_process_max_age_hours": 24,
    },
    "reset_by_platform": {},
    "reset_by_type": {},
    "terminal": {
        "cwd": None,
        "timeout": 180,
        "env_passthrough": [],
        "sandbox": "auto",
        "network": "ask",
        "readable": [],
        "writable": [],
        "docker": {"container": None, "program": "docker"},
        "ssh": {"host": None},
    },
    "approvals": {"mode": "ask", "timeout": 300},
    "mcp_servers": {},
    "database": {"url": None, "schema": "hermes_trio", "node": None, "address": None, "lease": 30},
    "journal": {"fsync": "terminal-only"},
    "gateway": {"max_running_turns": None, "resume_at_once": 8},
    "retention": {
        "journal_days": 30,
        "inbox_days": 7,
        "outbox_days": 7,
        "spool_days": 7,
        "files_days": 90,
        "session_days": 90,
    },
    "backup": {"every_hours": 0, "keep": 7, "folder": None},
    "heartbeat": {"url": None, "every_seconds": 60},
    "web": {"host": "127.0.0.1", "port": 8642, "key": None},
    "group_sessions_per_user": True,
    "thread_sessions_per_user": False,
    "platforms": {},
}
PLATFORM_CONTRACT: dict[str, object] = {
    "enabled": True,
    "token": None,
    "base_url": None,
    "home_channel": None,
    "allow_from": [],
    "allow_admin_from": [],
    "unauthorized_dm_behavior": None,
    "require_mention": True,
    "gateway_restart_notification": True,
    "options": {},
}


def test_every_key_has_its_default_without_a_file(tmp_path: Path) -> None:
    loaded = load_config(tmp_path / "nowhere", {})
    assert json.loads(msgspec.json.encode(loaded.config)) == CONTRACT
    assert (loaded.warnings, loaded.origins) == ((), {})
    assert loaded.path == tmp_path / "nowhere" / "config.yaml"


def test_a_platform_that_is_only_named_lets_in_nobody(load: Load) -> None:
    platform = load("platforms:\n  telegram:\n").config.platforms["telegram"]
    assert json.loads(msgspec.json.encode(platform)) == PLATFORM_CONTRACT


def test_the_help_of_every_key_is_one_line() -> None:
    def helps(section: type[Section]) -> Iterator[str]:
        for key in keys(section):
            yield key.help
            for inner in (key.section, key.named):
                if inner:
                    yield from helps(inner)

    for text in helps(GatewayConfig):
        assert text
        assert text.endswith(".")
        assert len(text) <= 80
        assert "\n" not in text


def test_a_configuration_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        GatewayConfig().agent.max_turns = 5  # type: ignore[misc]


@pytest.mark.parametrize(
    ("platform", "chat_type", "mode"),
    [
        ("telegram", "group", "idle"),
        ("telegram", "dm", "idle"),
        ("matrix", "group", "daily"),
        ("matrix", "dm", "both"),
    ],
)
def test_a_reset_policy_comes_from_the_platform_then_the_chat_type_then_the_default(
    load: Load, platform: str, chat_type: str, mode: str
) -> None:
    config = load(
        "session_reset: {mode: both}\n"
        "reset_by_platform: {telegram: {mode: idle}}\n"
        "reset_by_type: {group: {mode: daily}}\n"
    ).config
    assert reset_policy(config, platform, chat_type) == SessionReset(mode=mode)  # type: ignore[arg-type]
