"""Unknown keys are warned about, and refused where they may be about security."""

from __future__ import annotations

import pytest

from hermes_trio.base.errors import ConfigInvalid
from tests.config.reading import Load


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("agent: {max_turn: 5}", "agent.max_turn is an unknown key; did you mean agent.max_turns?"),
        ("agents: {}", "agents is an unknown key; did you mean agent?"),
        ("max_turns: 5", "max_turns is an unknown key; did you mean agent.max_turns?"),
        (
            "gateway: {stuck_after: 5}",
            "gateway.stuck_after is an unknown key; did you mean agent.stuck_after?",
        ),
        ("kanban: {failure_limit: 2}", "kanban is an unknown key"),
        (
            "reset_by_type: {dm: {hour: 3}}",
            "reset_by_type.dm.hour is an unknown key; did you mean reset_by_type.dm.at_hour?",
        ),
        (
            "platforms: {x: {enabeld: false}}",
            "platforms.x.enabeld is an unknown key; did you mean platforms.x.enabled?",
        ),
        (
            "platforms: {x: {home_channel: {chat_id: 1, thread: 2}}}",
            "platforms.x.home_channel.thread is an unknown key; "
            "did you mean platforms.x.home_channel.thread_id?",
        ),
        (
            "gateway: {session_reset: {mode: idle}}\nsession_reset: {}",
            "gateway.session_reset is ignored, because there is a session_reset",
        ),
        ("model: {default: a, name: b}", "model.default is ignored, because there is a model.name"),
    ],
)  # fmt: skip
def test_an_unknown_key_is_warned_about_with_the_nearest_known(load: Load, text: str, warning: str) -> None:
    assert load(text).warnings == (warning,)


def test_an_unset_variable_of_an_unknown_key_is_no_error(load: Load) -> None:
    assert load("kanban: '${NOWHERE}'").warnings == ("kanban is an unknown key",)


def test_the_own_keys_of_a_platform_are_passed_on_without_a_warning(load: Load) -> None:
    loaded = load("platforms: {x: {mode: poll, timeout: 5, key: a, app_token: b}}")
    assert loaded.warnings == ()
    assert set(loaded.config.platforms["x"].options) == {"mode", "timeout", "key", "app_token"}


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("approvals: {mod: off}", "approvals.mod", "Did you mean approvals.mode?"),
        ("approvals: {only: deny}", "approvals.only", "Remove it."),
        ("approval: {mode: ask}", "approval", "Did you mean approvals?"),
        ("access: {}", "access", "Remove it."),
        ("pairing: {}", "pairing", "Remove it."),
        ("command_denylist: []", "command_denylist", "Remove it."),
        ("security: strict", "security", "Remove it."),
        ("toolset: [web]", "toolset", "Remove it."),
        ("mcp_servers: {x: {tools: {inclde: [a]}}}", "mcp_servers.x.tools.inclde", "Did you mean"),
        ("web: {allow_origins: []}", "web.allow_origins", "Remove it."),
        ("platforms: {x: {alow_from: []}}", "platforms.x.alow_from", "Did you mean platforms.x.allow_from?"),
        (
            "platforms: {x: {allow_form: all}}",
            "platforms.x.allow_form",
            "Did you mean platforms.x.allow_from?",
        ),
        ("platforms: {x: {Allow-From: all}}", "platforms.x.Allow-From", ""),
        ("platforms: {x: {allowed_users: []}}", "platforms.x.allowed_users", ""),
        ("platforms: {x: {deny_from: []}}", "platforms.x.deny_from", ""),
        (
            "platforms: {x: {allow_admins_from: [1]}}",
            "platforms.x.allow_admins_from",
            "Did you mean platforms.x.allow_admin_from?",
        ),
        ("platforms: {x: {admins: [1]}}", "platforms.x.admins", ""),
        (
            "platforms: {x: {unauthorised_dm_behaviour: ignore}}",
            "platforms.x.unauthorised_dm_behaviour",
            "Did you mean platforms.x.unauthorized_dm_behavior?",
        ),
        ("unauthorized_dm_behavior: ignore", "unauthorized_dm_behavior", ""),
        (
            "platforms: {x: {require_mentions: false}}",
            "platforms.x.require_mentions",
            "Did you mean platforms.x.require_mention?",
        ),
    ],
)  # fmt: skip
def test_an_unknown_key_about_security_stops_the_start(load: Load, text: str, key: str, remedy: str) -> None:
    with pytest.raises(ConfigInvalid, match="it may be a security setting") as refusal:
        load(text)
    assert refusal.value.key == key
    assert remedy in refusal.value.remedy
