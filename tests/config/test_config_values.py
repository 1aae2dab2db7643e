"""Each value is taken in every spelling of it, and a wrong one is refused with its key and a remedy."""

from __future__ import annotations

import pytest

from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.base.messages import HomeChannel
from tests.config.reading import Load, at


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("agent: {max_turns: 5}", "agent.max_turns", 5),
        ("agent: {max_turns: '5'}", "agent.max_turns", 5),
        ("agent: {max_turns: 1_000}", "agent.max_turns", 1000),
        ("agent: {max_turns: 0x10}", "agent.max_turns", 16),
        ("agent: {max_turns: }", "agent.max_turns", 90),
        ("agent:", "agent.max_turns", 90),
        ("agent: {gateway_timeout: 0}", "agent.gateway_timeout", 0),
        ("agent: {gateway_auto_continue_freshness: -1}", "agent.gateway_auto_continue_freshness", -1),
        ("agent: {restart_drain_timeout: 2.5}", "agent.restart_drain_timeout", 2.5),
        ("agent: {restart_drain_timeout: -30}", "agent.restart_drain_timeout", 0),
        ("streaming: {edit_interval: .5}", "streaming.edit_interval", 0.5),
        ("streaming: {enabled: FALSE}", "streaming.enabled", False),
        ("%YAML 1.1\n---\nstreaming: {enabled: no}", "streaming.enabled", False),
        ("approvals: {mode: off}", "approvals.mode", "off"),
        ("session_reset: {at_hour: 0}", "session_reset.at_hour", 0),
        ("web: {port: 0}", "web.port", 0),
        ("web: {host: '::1'}", "web.host", "::1"),
        ("web: {key: 123456}", "web.key", "123456"),
        ("terminal: {env_passthrough: [A, B]}", "terminal.env_passthrough", ("A", "B")),
        ("gateway: {max_running_turns: null}", "gateway.max_running_turns", None),
        ("reset_by_type: {group: {mode: daily}}", "reset_by_type.group.mode", "daily"),
        # Ids are text as it is written, whatever YAML takes them for.
        (
            "platforms: {x: {allow_from: [42, +4912, 0042]}}",
            "platforms.x.allow_from",
            ("42", "+4912", "0042"),
        ),
        (
            "platforms: {x: {allow_from: [-1_0, true, 2026-01-01]}}",
            "platforms.x.allow_from",
            ("-1_0", "true", "2026-01-01"),
        ),
        ("platforms: {x: {allow_from: all}}", "platforms.x.allow_from", "all"),
        ("platforms: {x: {allow_from: }}", "platforms.x.allow_from", ()),
        ("platforms: {x: {token: 0123}}", "platforms.x.token", "0123"),
        ("platforms: {x: {home_channel: -100}}", "platforms.x.home_channel", HomeChannel("x", "-100")),
        (
            "platforms: {x: {home_channel: {chat_id: 5, thread_id: 7, name: Ops}}}",
            "platforms.x.home_channel",
            HomeChannel("x", "5", "Ops", "7"),
        ),
        # A platform's own keys keep their types, for its adapter to judge.
        (
            "platforms: {x: {poll: 30, deep: {a: [1.5, true, 'x', null]}}}",
            "platforms.x.options",
            {"poll": 30, "deep": {"a": [1.5, True, "x", None]}},
        ),
        ("platforms: {x: {access_token: abc}}", "platforms.x.options", {"access_token": "abc"}),
        ("a: &a {max_turns: 7}\nagent: *a", "agent.max_turns", 7),
        ("web: {port: &x 5}\nagent: {max_turns: &x 6}", "agent.max_turns", 6),
        # What Windows editors write, and what is only a comment.
        ("\ufeffagent: {max_turns: 5}\r\n", "agent.max_turns", 5),
        ("# nothing yet\n", "agent.max_turns", 90),
        ("---\n...\n", "agent.max_turns", 90),
    ],
)  # fmt: skip
def test_a_good_file_is_understood(load: Load, text: str, path: str, value: object) -> None:
    assert at(load(text).config, path) == value


@pytest.mark.parametrize(
    ("text", "path", "value"),
    [
        ("model: {default: gpt-x}", "model.name", "gpt-x"),
        ("model: {default: gpt-x, name: gpt-y}", "model.name", "gpt-y"),
        ("model: {provider: custom}", "model.provider", "openai"),
        ("gateway: {session_reset: {mode: idle}}", "session_reset.mode", "idle"),
        (
            "gateway: {session_reset: {mode: idle}}\nsession_reset: {mode: daily}",
            "session_reset.mode",
            "daily",
        ),
    ],
)
def test_the_spelling_of_the_original_is_understood(load: Load, text: str, path: str, value: object) -> None:
    loaded = load(text)
    assert at(loaded.config, path) == value
    assert not any("unknown key" in warning for warning in loaded.warnings)


@pytest.mark.parametrize(
    ("text", "key", "problem", "remedy"),
    [
        (
            "agent: {max_turns: many}",
            "agent.max_turns",
            "'many' is not a whole number from 1",
            "default, 90.",
        ),
        ("agent: {max_turns: 0}", "agent.max_turns", "'0' is not a whole number from 1", ""),
        ("agent: {max_turns: true}", "agent.max_turns", "'true' is not a whole number", ""),
        ("agent: {max_turns: [5]}", "agent.max_turns", "a list is not a whole number", ""),
        ("agent: {max_turns: 1.5}", "agent.max_turns", "'1.5' is not a whole number", ""),
        ("agent: {gateway_timeout: -1}", "agent.gateway_timeout", "'-1' is not a number from 0", ""),
        ("agent: {gateway_timeout: .inf}", "agent.gateway_timeout", "'.inf' is not a number", ""),
        ("agent: {gateway_timeout: nan}", "agent.gateway_timeout", "'nan' is not a number", ""),
        (
            "agent: {crash_recovery: maybe}",
            "agent.crash_recovery",
            "'maybe' is not one of resume, suspend",
            "",
        ),
        ("agent: yes", "agent", "expected keys below it, found a single value", "max_turns"),
        ("model: [a]", "model", "expected keys below it, found a list", "provider"),
        ("streaming: {enabled: 7}", "streaming.enabled", "'7' is not true or false", "default, true."),
        ("session_reset: {at_hour: 24}", "session_reset.at_hour", "from 0 to 23", ""),
        ("web: {port: 65536}", "web.port", "from 0 to 65,535", ""),
        ("web: {key: ''}", "web.key", "'' is not text of at least one character", ""),
        (
            "terminal: {env_passthrough: HOME}",
            "terminal.env_passthrough",
            "'HOME' is not a list of names",
            "",
        ),
        ("gateway: {max_running_turns: 0}", "gateway.max_running_turns", "'0' is not a whole number", ""),
        ("reset_by_type: {group: {mode: x}}", "reset_by_type.group.mode", "'x' is not one of none", ""),
        ("reset_by_type: [group]", "reset_by_type", "expected names below it, found a list", ""),
        ("platforms: telegram", "platforms", "expected names below it, found a single value", ""),
        ("platforms: {telegram: on}", "platforms.telegram", "found a single value", "token"),
        ("platforms: {Telegram: {}}", "platforms.Telegram", "not a name of a platform", "telegram"),
        ("platforms: {x: {allow_from: 42}}", "platforms.x.allow_from", "'42' is not a list of ids", ""),
        ("platforms: {x: {allow_from: everybody}}", "platforms.x.allow_from", "or the word all", ""),
        ("platforms: {x: {allow_from: [1, all]}}", "platforms.x.allow_from", "'all' inside it is wrong", ""),
        ("platforms: {x: {allow_from: ['*']}}", "platforms.x.allow_from", "'*' inside it is wrong", ""),
        ("platforms: {x: {allow_from: [' ']}}", "platforms.x.allow_from", "' ' inside it is wrong", ""),
        ("platforms: {x: {allow_from: [~]}}", "platforms.x.allow_from", "nothing inside it is wrong", ""),
        (
            "platforms: {x: {allow_admin_from: all}}",
            "platforms.x.allow_admin_from",
            "'all' is not a list of ids such as [42, 43]",
            "",
        ),
        (
            "platforms: {x: {unauthorized_dm_behavior: nothing}}",
            "platforms.x.unauthorized_dm_behavior",
            "'nothing' is not one of pair, ignore",
            "",
        ),
        ("platforms: {x: {home_channel: [5]}}", "platforms.x.home_channel", "a list is not a chat id", ""),
        ("platforms: {x: {home_channel: {name: y}}}", "platforms.x.home_channel", "at least a chat_id", ""),
        (
            "platforms: {x: {home_channel: {chat_id: [5]}}}",
            "platforms.x.home_channel",
            "a list inside it",
            "",
        ),
    ],
)  # fmt: skip
def test_a_wrong_value_is_named_with_its_key_and_a_remedy(
    load: Load, text: str, key: str, problem: str, remedy: str
) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(text)
    assert refusal.value.key == key
    assert problem in refusal.value.problem
    assert remedy in refusal.value.remedy
    assert refusal.value.remedy.endswith(".")
    assert refusal.value.exit_code == 78


def test_all_mistakes_of_a_file_are_reported_at_once(load: Load) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(
            "agent: {max_turns: many, stuck_after: 0}\n"
            "model: [a]\n"
            "approvals: {deny: [rm *], never: 1}\n"
            "platforms: {x: {allow_from: ['*'], alow_from: [], own: '${GONE}'}, Y: {token: '${LOST}'}}\n"
            "mcp_servers: {one: {timeout: -1}}\n"
        )
    assert {finding.key for finding in refusal.value.findings} == {
        "agent.max_turns",
        "agent.stuck_after",
        "model",
        "approvals.deny",
        "approvals.never",
        "platforms.x.allow_from",
        "platforms.x.alow_from",
        "platforms.x.own",
        "platforms.Y",
        "platforms.Y.token",
        "mcp_servers.one.timeout",
    }
    assert str(refusal.value).split("\n") == [str(finding) for finding in refusal.value.findings]


def test_a_long_value_is_cut_short_in_the_error(load: Load) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(f"agent: {{max_turns: {'x' * 5000}}}")
    assert f"'{'x' * 60}…' is not a whole number" in refusal.value.problem
