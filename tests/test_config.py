"""What a configuration promises: every key checked, every error with its place and remedy, no secret
ever shown."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import msgspec
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from hermes_trio.base.errors import ConfigFinding, ConfigInvalid, HomeUnusable
from hermes_trio.base.messages import HomeChannel
from hermes_trio.config.config_file import Loaded, home_directory, load_config
from hermes_trio.config.config_text import Scalar
from hermes_trio.config.config_values import section
from hermes_trio.config.schema import AgentConfig, GatewayConfig, PlatformConfig, SessionReset, reset_policy
from hermes_trio.config.section import Section, is_secret, keys, masked

Load = Callable[..., Loaded]

# One directory serves all examples of a property: each writes its files anew.
rewriting = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write the files of a home and load them, as a gateway with this environment would."""

    def write_and_load(
        config: str | bytes, environ: Mapping[str, str] | None = None, dotenv: str = ""
    ) -> Loaded:
        content = config if isinstance(config, bytes) else config.encode()
        (tmp_path / "config.yaml").write_bytes(content)
        (tmp_path / ".env").write_text(dotenv, encoding="utf-8")
        return load_config(tmp_path, environ or {})

    return write_and_load


def at(config: Section, path: str) -> object:
    """The value under a path, as people write paths."""
    value: object = config
    for name in path.split("."):
        value = value[name] if isinstance(value, Mapping) else getattr(value, name)
    return value


def paths(section: type[Section], prefix: str = "") -> Iterator[str]:
    """Every path that ends in a value; a name that people choose is `*`."""
    for key in keys(section):
        if key.section:
            yield from paths(key.section, f"{prefix}{key.name}.")
        elif key.named:
            yield from paths(key.named, f"{prefix}{key.name}.*.")
        else:
            yield prefix + key.name


# --- what stands in the contract ---------------------------------------------------------------

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
    "terminal": {"cwd": None, "timeout": 180, "env_passthrough": []},
    "approvals": {"mode": "ask", "timeout": 60},
    "mcp_servers": {},
    "journal": {"fsync": "terminal-only"},
    "gateway": {"max_running_turns": None, "resume_at_once": 8},
    "retention": {
        "journal_days": 30,
        "inbox_days": 7,
        "outbox_days": 7,
        "spool_days": 7,
        "session_days": 90,
    },
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


def test_without_a_file_everything_has_the_default_of_the_contract(tmp_path: Path) -> None:
    loaded = load_config(tmp_path / "nowhere", {})
    assert json.loads(msgspec.json.encode(loaded.config)) == CONTRACT
    assert (loaded.warnings, loaded.origins) == ((), {})
    assert loaded.path == tmp_path / "nowhere" / "config.yaml"


def test_a_platform_that_is_only_named_lets_in_nobody(load: Load) -> None:
    platform = load("platforms:\n  telegram:\n").config.platforms["telegram"]
    assert json.loads(msgspec.json.encode(platform)) == PLATFORM_CONTRACT


def test_every_key_says_on_one_line_what_it_is() -> None:
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


# --- what may stand in a file -------------------------------------------------------------------


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
def test_the_originals_spelling_works(load: Load, text: str, path: str, value: object) -> None:
    loaded = load(text)
    assert at(loaded.config, path) == value
    assert not any("not a key I know" in warning for warning in loaded.warnings)


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
        ("agent: yes", "agent", "a single value stands where its keys should", "max_turns"),
        ("model: [a]", "model", "a list stands where its keys should", "provider"),
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
        ("reset_by_type: [group]", "reset_by_type", "a list stands where names should", ""),
        ("platforms: telegram", "platforms", "a single value stands where names should", ""),
        ("platforms: {telegram: on}", "platforms.telegram", "a single value stands where its keys", "token"),
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


def test_all_mistakes_of_a_file_are_told_at_once(load: Load) -> None:
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


LAUGHS = "\n".join(f"l{n}: &l{n} [{', '.join([f'*l{n - 1}'] * 9)}]" for n in range(1, 12))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("agent: {max_turns: 5", "line 1, column 21: expected ',' or '}'"),
        ("agent: [\n", "line 2, column 1: expected the node content, but found the end of the file"),
        ("agent:\n\tmax_turns: 5", "line 2, column 1: found character '\\t'"),
        ("web:\n  port: 1\n  port: 2", "line 3, column 3: port is there a second time"),
        ("a: 1\n--- \nb: 2", "line 2, column 1: but found another document"),
        ("- agent", "line 1, column 1: a mapping is wanted"),
        ("only words", "line 1, column 1: a mapping is wanted"),
        ("web: {port:1}", "line 1, column 7: no space behind the colon"),
        ("? [a]\n: 1", "line 1, column 3: a key has to be a word"),
        ("? ~\n: 1", "line 1, column 3: a key has to be a word"),
        ('"\\a": 1', "line 1, column 1: a key that cannot be printed"),
        ('"": 1', "line 1, column 1: a key that cannot be printed"),
        ("a: &a {b: 1}\nc: {<<: *a}", "line 2, column 5: `<<` is not supported"),
        ("a: !!python/name:os.system x", "line 1, column 4: a tag (`!…`)"),
        ("a: !!set {b, c}", "line 1, column 4: a tag (`!…`)"),
        ("a: !secret b", "line 1, column 4: a tag (`!…`)"),
        ("a: *b", "line 1, column 4: found undefined alias 'b'"),
        ("a: &a [*a]", "line 1, column 4: too many values, or one within the other"),
        (f"l0: &l0 ha\n{LAUGHS}", "too many values, or one within the other"),
        ("a: " + "[" * 40 + "]" * 40, "one within the other too deeply"),
        ("[" * 5000, "nested too deeply"),
        ('a: "\\UFFFFFFFF"', "not YAML"),
        ('a: "\\ud800"', "line 1, column 4: a character that no text may hold"),
        ("a: b\nc: \x00", "line 2 holds a character that cannot be printed"),
        (b"a: b\nc: \xff", "line 2 is not UTF-8"),
        ("agent: {}".encode("utf-16"), "line 1 is not UTF-8"),
        (b"#" * (1024 * 1024 + 1), "larger than 1 MiB"),
    ],
)
def test_a_broken_file_is_named_with_its_place(
    load: Load, tmp_path: Path, text: str | bytes, problem: str
) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(text)
    assert refusal.value.key == str(tmp_path / "config.yaml")
    assert problem in refusal.value.problem


def test_a_directory_in_place_of_the_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").mkdir()
    with pytest.raises(ConfigInvalid, match="this is a directory"):
        load_config(tmp_path, {})


@pytest.mark.parametrize("name", ["config.yaml", ".env"])
def test_a_link_to_nothing_is_no_file_that_was_left_out(tmp_path: Path, name: str) -> None:
    """Its disk is not there yet, say: a gateway that starts without it does not do what it was told."""
    (tmp_path / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ConfigInvalid, match="a link to nothing") as refusal:
        load_config(tmp_path, {})
    assert refusal.value.key == str(tmp_path / name)


def test_a_file_in_place_of_the_home_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").touch()
    with pytest.raises(ConfigInvalid, match="cannot be read"):
        load_config(tmp_path / "home", {})


# --- keys nobody knows --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "warning"),
    [
        ("agent: {max_turn: 5}", "agent.max_turn is not a key I know; did you mean agent.max_turns?"),
        ("agents: {}", "agents is not a key I know; did you mean agent?"),
        ("max_turns: 5", "max_turns is not a key I know; did you mean agent.max_turns?"),
        (
            "gateway: {stuck_after: 5}",
            "gateway.stuck_after is not a key I know; did you mean agent.stuck_after?",
        ),
        ("kanban: {failure_limit: 2}", "kanban is not a key I know"),
        (
            "reset_by_type: {dm: {hour: 3}}",
            "reset_by_type.dm.hour is not a key I know; did you mean reset_by_type.dm.at_hour?",
        ),
        (
            "platforms: {x: {enabeld: false}}",
            "platforms.x.enabeld is not a key I know; did you mean platforms.x.enabled?",
        ),
        (
            "platforms: {x: {home_channel: {chat_id: 1, thread: 2}}}",
            "platforms.x.home_channel.thread is not a key I know; "
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


def test_a_variable_that_an_unknown_key_wants_is_not_missed(load: Load) -> None:
    assert load("kanban: '${NOWHERE}'").warnings == ("kanban is not a key I know",)


def test_a_platforms_own_keys_are_left_to_it_without_a_word(load: Load) -> None:
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
    with pytest.raises(ConfigInvalid, match="may decide who may do what") as refusal:
        load(text)
    assert refusal.value.key == key
    assert remedy in refusal.value.remedy


# --- the environment ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("V=plain", "plain"),
        ("\ufeffV=plain", "plain"),
        ("export V=plain", "plain"),
        ("  V = spaced out  ", "spaced out"),
        ("V=a=b#c", "a=b#c"),
        ("V=value # comment", "value"),
        ("V='single # $x \\n' # comment", "single # $x \\n"),
        ('V="double \\"quoted\\" \\\\ \\n#"', 'double "quoted" \\ \n#'),
        ("V=it's", "it's"),
        ("V=first\nV=second", "second"),
        ("# comment\n\nV=windows\r\nW=2\r\n", "windows"),
        ("V=", ""),
        ("V= # comment", ""),
        ("V=''", ""),
    ],
)
def test_a_line_of_dotenv(load: Load, line: str, value: str) -> None:
    loaded = load("terminal: {cwd: '${V}'}", dotenv=line)
    assert loaded.config.terminal.cwd == value
    assert loaded.warnings == ()


@pytest.mark.parametrize("line", ["hunter2", "2V=hunter2", "V='hunter2", 'V="hunter2" 2', "=hunter2"])
def test_a_malformed_line_of_dotenv_is_told_by_its_number_alone(load: Load, line: str) -> None:
    (warning,) = load("", dotenv=f"A=1\n{line}\n").warnings
    assert ".env, line 2 is not KEY=value" in warning
    assert "hunter2" not in warning


def test_the_environment_wins_over_dotenv(load: Load) -> None:
    text = "terminal: {cwd: '${A} ${B}'}"
    assert load(text, {"A": "outer"}, "A=inner\nB=inner").config.terminal.cwd == "outer inner"


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("${A}", "a"),
        ("<${A}${A}>", "<aa>"),
        ("${NO:-other}", "other"),
        ("${A:-other}", "a"),
        ("${EMPTY:-other}", "other"),
        ("${EMPTY}", ""),
        ("${NO:-}", ""),
        ("$$", "$"),
        ("$${A}", "${A}"),
        ("$A costs 5$", "$A costs 5$"),
        ("${NESTED}", "${A}"),
    ],
)
def test_variables_are_put_in(load: Load, written: str, value: str) -> None:
    environ = {"A": "a", "EMPTY": "", "NESTED": "${A}"}
    assert load(f"terminal: {{cwd: '{written}'}}", environ).config.terminal.cwd == value
    assert load(f"platforms: {{x: {{own: ['{written}']}}}}", environ).config.platforms["x"].options == {
        "own": [value]
    }  # fmt: skip


@given(value=st.text(st.characters(exclude_categories=["Cs"])))
@example(value="x\nweb:\n  key: stolen")
@example(value="a: [b, {c")
@rewriting
def test_a_variable_cannot_become_yaml(load: Load, value: str) -> None:
    loaded = load("terminal: {cwd: '${V}'}", {"V": value})
    assert loaded.config == GatewayConfig(
        terminal=msgspec.structs.replace(GatewayConfig().terminal, cwd=value)
    )


def test_a_variable_can_be_a_number_or_a_switch(load: Load) -> None:
    text = "agent: {max_turns: '${N}'}\nstreaming: {enabled: '${B}', edit_interval: '${F}'}"
    config = load(text, {"N": "7", "B": "false", "F": "0.25"}).config
    assert (config.agent.max_turns, config.streaming) == (
        7,
        msgspec.structs.replace(config.streaming, enabled=False, edit_interval=0.25),
    )


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("${GONE}", "the environment variable GONE is not set"),
        ("${GONE", "it has a ${…} that cannot be read"),
        ("${2X}", "it has a ${…} that cannot be read"),
        ("${GONE-x}", "it has a ${…} that cannot be read"),
    ],
)
def test_a_variable_that_cannot_be_had_is_named(load: Load, written: str, problem: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(f"platforms: {{x: {{token: '{written}'}}}}")
    assert (refusal.value.key, refusal.value.problem) == ("platforms.x.token", problem)


def test_a_variable_between_braces_without_quotes_gets_the_right_advice(load: Load) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load("web: {key: ${KEY}}")
    assert "quotes" in refusal.value.remedy


@pytest.mark.parametrize(
    ("text", "environ", "provider", "api_key"),
    [
        ("", {}, "demo", None),
        ("", {"OPENAI_API_KEY": ""}, "demo", None),
        ("", {"OPENAI_API_KEY": "o"}, "openai", "o"),
        ("", {"ANTHROPIC_API_KEY": "a"}, "anthropic", "a"),
        ("", {"ANTHROPIC_API_KEY": "a", "OPENAI_API_KEY": "o"}, "openai", "o"),
        ("model: {provider: anthropic}", {"OPENAI_API_KEY": "o"}, "anthropic", None),
        ("model: {provider: demo}", {"OPENAI_API_KEY": "o"}, "demo", None),
        ("model: {provider: openai, api_key: own}", {"OPENAI_API_KEY": "o"}, "openai", "own"),
        # Somebody's own server must not be answered for by the demo, nor get another one's key.
        ("model: {base_url: 'http://localhost/'}", {"ANTHROPIC_API_KEY": "a"}, "openai", None),
        ("model: {api_key: own}", {}, "openai", "own"),
    ],
)
def test_the_provider_is_chosen_by_the_keys_there_are(
    load: Load, text: str, environ: dict[str, str], provider: str, api_key: str | None
) -> None:
    model = load(text, environ).config.model
    assert (model.provider, model.api_key) == (provider, api_key)
    assert load(text, dotenv="\n".join(f"{k}={v}" for k, v in environ.items())).config.model == model


def test_it_is_known_what_was_set_and_by_whom(load: Load) -> None:
    loaded = load("agent: {max_turns: 90, stuck_after: }", {"OPENAI_API_KEY": "o"})
    assert loaded.origins == {
        "agent.max_turns": "config.yaml",
        "model.provider": "OPENAI_API_KEY",
        "model.api_key": "OPENAI_API_KEY",
    }


# --- the home -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "home"),
    [
        (None, Path.home() / ".hermes-trio"),
        ("", Path.home() / ".hermes-trio"),
        ("~/elsewhere", Path.home() / "elsewhere"),
        (str(Path.home() / "absolute"), Path.home() / "absolute"),
    ],
)
def test_the_home_directory(value: str | None, home: Path) -> None:
    assert home_directory({} if value is None else {"HERMES_HOME": value}) == home


@pytest.mark.parametrize("value", ["relative/home", ".", "~no-such-user-here/home"])
def test_a_home_that_depends_on_the_moment_is_refused(value: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        home_directory({"HERMES_HOME": value})
    assert refusal.value.key == "HERMES_HOME"
    assert value in refusal.value.problem


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="nothing is closed to this account")
@pytest.mark.parametrize("closed", ["home", ""])
def test_a_home_that_may_not_be_looked_into_is_told(tmp_path: Path, closed: str) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / closed).chmod(0)
    try:
        with pytest.raises(HomeUnusable, match="Permission denied"):
            home_directory({"HERMES_HOME": str(tmp_path / "home")})
    finally:
        (tmp_path / closed).chmod(0o700)


@pytest.mark.skipif(os.name != "posix", reason="there are no such links here")
def test_a_home_that_leads_nowhere_is_told(tmp_path: Path) -> None:
    (tmp_path / "home").symlink_to(tmp_path / "home")
    with pytest.raises(HomeUnusable, match="Too many levels"):
        home_directory({"HERMES_HOME": str(tmp_path / "home")})


# --- resets -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("platform", "chat_type", "mode"),
    [
        ("telegram", "group", "idle"),
        ("telegram", "dm", "idle"),
        ("matrix", "group", "daily"),
        ("matrix", "dm", "both"),
    ],
)
def test_a_reset_policy_is_the_platforms_then_the_chat_types_then_the_general_one(
    load: Load, platform: str, chat_type: str, mode: str
) -> None:
    config = load(
        "session_reset: {mode: both}\n"
        "reset_by_platform: {telegram: {mode: idle}}\n"
        "reset_by_type: {group: {mode: daily}}\n"
    ).config
    assert reset_policy(config, platform, chat_type) == SessionReset(mode=mode)  # type: ignore[arg-type]


# --- secrets ------------------------------------------------------------------------------------

SECRET = "hunter2-hunter2"


def test_only_these_keys_of_ours_are_secrets() -> None:
    secret = {path for path in paths(GatewayConfig) if is_secret(path.rpartition(".")[2])}
    assert secret == {"model.api_key", "model.fallback.api_key", "web.key", "platforms.*.token"}


@pytest.mark.parametrize(
    "name",
    ["app_token", "botToken", "signing_secret", "password", "apiKey", "private_key", "client-key",
     "webhook_url", "auth", "smtp_passwd", "cookies", "KEY"],
)  # fmt: skip
def test_a_platforms_own_secret_is_known_by_its_name(name: str) -> None:
    assert is_secret(name)
    assert masked("options", {name: SECRET, "deep": [{name: [SECRET]}]}) == {
        name: "***",
        "deep": [{name: "***"}],
    }


@pytest.mark.parametrize("name", ["monkey", "keys", "author", "poll", "host", "base_url"])
def test_other_names_are_no_secrets(name: str) -> None:
    assert masked(name, "plain") == "plain"


def test_a_configuration_can_be_printed_without_its_secrets(load: Load) -> None:
    config = load(
        f"model: {{api_key: {SECRET}, base_url: 'https://me:{SECRET}@host/v1'}}\n"
        f"web: {{key: {SECRET}}}\n"
        f"platforms: {{webhook: {{token: {SECRET}, app_secret: {SECRET}, poll: {{key: {SECRET}}}}}}}\n"
    ).config
    platform = config.platforms["webhook"]
    assert [config.model.api_key, config.web.key, platform.token] == [SECRET] * 3
    for shown in (repr(config), str(config), f"{platform}", repr(config.__rich_repr__())):
        assert SECRET not in shown
    assert "PlatformConfig(enabled=True, token='***'" in repr(config)
    assert "https://***@host/v1" in repr(config)
    assert repr(AgentConfig(max_turns=5)).startswith("AgentConfig(restart_drain_timeout=0, max_turns=5")


@pytest.mark.parametrize(
    "text",
    [
        f"model: {{api_key: [{SECRET}]}}",
        f"web: {{key:{SECRET}}}",
        f"web: {{key: {{a: {SECRET}}}}}",
        f"web: {{key: *{SECRET}}}",
        f"web: {{key: &{SECRET} }}\nweb: 1",
        f"web: {{key: !{SECRET} x}}",
        f"web: {{key: '{SECRET}}}",
        f"web: {{key: @{SECRET}}}",
        f"web: {{key: {SECRET}${{X}}",
        f"web:\n  key: {SECRET}\n bad: 1",
        f"web:\n  key: {SECRET}\n  key: {SECRET}",
        f'web: {{key: "\\q{SECRET}"}}',
        f"platforms: {{telegram: {SECRET}}}",
        f"platforms: {{telegram: {{token: {SECRET}, alow_from: [{SECRET}]}}}}",
        f"platforms: {{telegram: {{token: '{SECRET}${{'}}}}",
        "agent: {max_turns: '${VARIABLE}'}",
        "platforms: {x: {allow_from: ['${VARIABLE}', '']}}",
    ],
)
def test_an_error_never_shows_a_secret(load: Load, text: str) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(text, {"VARIABLE": SECRET})
    assert SECRET not in f"{refusal.value} {refusal.value.__cause__}"


def test_the_error_about_a_secret_that_is_no_text_is_silent_too() -> None:
    class Lock(Section, frozen=True):
        pin: Annotated[int, msgspec.Meta(ge=0, le=9999, description="Opens the door.")] = 0

    findings: list[ConfigFinding] = []
    section(Lock, {"pin": Scalar(SECRET, SECRET)}, "lock", {}, findings)
    [finding] = findings
    assert finding.key == "lock.pin"
    assert finding.problem == "'***' is not a whole number from 0 to 9,999"


# --- whatever stands in the file ----------------------------------------------------------------

NAMES = sorted({part for path in paths(GatewayConfig) for part in path.split(".")} | {"telegram"})
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.sampled_from(NAMES),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from(NAMES), inner),
)
PIECES = st.sampled_from(
    [*"\n \t:-{}[]&*!|>'\"%@,#?", *NAMES, ": ", "- ", "---", "&a ", "*a", "<<", "${A}", "${", "~",
     "!!int", "1", "-.5", ".inf", "0o7", "2026-01-01", "\\U", "%YAML 1.1\n", "\n  ", "\r", "é", "\x85"]
)  # fmt: skip


@given(
    content=st.binary()
    | st.text().map(lambda text: text.encode("utf-8", "surrogatepass"))
    | st.lists(PIECES, max_size=40).map(lambda pieces: "".join(pieces).encode())
    | st.dictionaries(st.sampled_from(NAMES), VALUES).map(lambda tree: json.dumps(tree).encode())
)
@example(content=b'"\\UFFFFFFFF"')
@example(content=b"%YAML 1.1\n--- {a: 0o9, b: 09, c: 1:30, d: 1e999}")
@rewriting
def test_any_file_is_either_understood_or_refused(load: Load, content: bytes) -> None:
    with suppress(ConfigInvalid):
        config = load(content, {"A": "a"}).config
        assert all(isinstance(each, PlatformConfig) for each in config.platforms.values())
        # What was understood is right: every value passes the checks of its own key once more.
        assert msgspec.convert(msgspec.to_builtins(config), GatewayConfig) == config


@given(text=st.text(st.sampled_from("AB=' \"\\#\n\r\texport$é")))
@rewriting
def test_any_dotenv_is_read_or_warned_about(load: Load, text: str) -> None:
    for warning in load("", dotenv=text).warnings:
        assert "is not KEY=value" in warning
