"""A configuration of hermes-agent: each of its limits is kept here, or the start is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from hermes_trio.base.errors import EXIT_CONFIG, ConfigInvalid
from hermes_trio.cli import main
from hermes_trio.config.original_limits import LIMITS, VARIABLES, Limit
from hermes_trio.config.schema import GatewayConfig
from hermes_trio.config.section import Section, keys
from tests.config.reading import Load, rewriting

OPENROUTER = "https://openrouter.ai/api/v1"
LIMITING = "a limit of hermes-agent"


def file_with(path: str, value: object) -> str:
    """Return the text of a file with one key; a `*` in its path becomes the name x."""
    tree = value
    for name in reversed(path.replace("*", "x").split(".")):
        tree = {name: tree}
    return json.dumps(tree)


def a_limiting_value(limit: Limit) -> object:
    return next(value for value in (True, False, "docker") if str(value).lower() not in limit.passes)


def refused() -> list[Limit]:
    return [limit for limit in LIMITS if limit.verdict == "refused"]


# --- the table ----------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", refused(), ids=lambda limit: limit.key)
def test_an_unsupported_limit_stops_the_start(load: Load, limit: Limit) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load(file_with(limit.key, a_limiting_value(limit)))
    [finding] = refusal.value.findings
    assert finding.key == limit.key.replace("*", "x")
    assert LIMITING in finding.problem
    assert limit.meaning in finding.problem
    assert finding.remedy.endswith("Remove the key to start without this limit.")
    assert refusal.value.exit_code == EXIT_CONFIG


@pytest.mark.parametrize("limit", refused(), ids=lambda limit: limit.key)
@pytest.mark.parametrize("empty", [None, ""])
def test_a_limit_without_a_value_limits_nothing(load: Load, limit: Limit, empty: object) -> None:
    assert LIMITING not in str(load(file_with(limit.key, empty)).warnings)


@pytest.mark.parametrize(
    ("limit", "value"),
    [(limit, value) for limit in refused() for value in limit.passes],
    ids=lambda part: part.key if isinstance(part, Limit) else str(part),
)
def test_a_value_that_limits_nothing_passes(load: Load, limit: Limit, value: str) -> None:
    assert load(file_with(limit.key, [] if value == "[]" else value)).warnings == ()


@pytest.mark.parametrize(
    "limit", [one for one in LIMITS if one.verdict == "harmless"], ids=lambda one: one.key
)
def test_a_key_that_is_not_used_is_named_with_the_reason(load: Load, limit: Limit) -> None:
    [warning] = load(file_with(limit.key, ["one"])).warnings
    key = limit.key.replace("*", "x")
    assert warning == f"{key} is a key of hermes-agent and is not used here: {limit.meaning}"


@pytest.mark.parametrize("limit", [one for one in LIMITS if one.verdict == "taken"], ids=lambda one: one.key)
def test_a_key_taken_from_the_original_is_in_the_schema(limit: Limit) -> None:
    section: type[Section] | None = GatewayConfig
    for name in limit.key.split("."):
        if name != "*":
            assert section is not None
            key = next(key for key in keys(section) if key.name == name)
            section = key.section or key.named


@pytest.mark.parametrize("limit", VARIABLES, ids=lambda limit: limit.key)
def test_a_limiting_environment_variable_stops_the_start(load: Load, limit: Limit) -> None:
    with pytest.raises(ConfigInvalid, match=LIMITING):
        load("", {limit.key: "docker"})
    with pytest.raises(ConfigInvalid, match=f"{limit.key}.*{LIMITING}"):
        load("", dotenv=f"{limit.key}=docker\n")


@pytest.mark.parametrize("off", ["false", "False", "no", "off", "'off'"])
def test_a_switch_is_read_as_the_original_reads_it(load: Load, off: str) -> None:
    assert load(f"security: {{tirith_enabled: {off}}}").warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "platform_toolsets: {cli: [hermes-cli], telegram: [hermes-telegram, spotify]}",
        "toolsets: [hermes-cli]",
        "toolsets: [terminal, file, web, memory, todo, session_search, clarify, delegation, browser]",
    ],
)
def test_toolsets_with_all_our_tools_limit_nothing(load: Load, text: str) -> None:
    assert load(text).warnings == ()


@pytest.mark.parametrize(
    "text",
    [
        "platform_toolsets: {telegram: [web, file]}",
        "platform_toolsets: {telegram: []}",
        "platform_toolsets: {telegram: web}",
        "platform_toolsets: {telegram: [hermes-webhook]}",
        "toolsets: []",
        "toolsets: [safe]",
    ],
)
def test_toolsets_without_some_of_our_tools_stop_the_start(load: Load, text: str) -> None:
    with pytest.raises(ConfigInvalid, match=LIMITING) as refusal:
        load(text)
    assert "agent.disabled_toolsets" in refusal.value.remedy


def test_an_unknown_toolset_is_an_error(load: Load) -> None:
    assert load("agent: {disabled_toolsets: [terminal, vision]}").config.agent.disabled_toolsets == (
        "terminal",
        "vision",
    )
    with pytest.raises(ConfigInvalid, match="'termnal' inside it is wrong"):
        load("agent: {disabled_toolsets: [termnal]}")


def test_the_error_about_a_limit_shows_its_value_and_no_secret(load: Load) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load("terminal: {backend: docker}\napprovals: {deny: ['git push --force*', rm]}\n")
    assert [finding.problem.split(" is a limit")[0] for finding in refusal.value.findings] == [
        "'docker'",
        "['git push --force*', 'rm']",
    ]
    with pytest.raises(ConfigInvalid) as refusal:
        load("security: {api_token: hunter2}")
    assert "hunter2" not in str(refusal.value)


def test_run_names_every_limit_at_once_and_exits_with_78(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(
        "terminal: {backend: docker}\n"
        "agent: {max_turns: many}\n"
        "platform_toolsets: {telegram: [web]}\n"
        "security: {website_blocklist: {enabled: true, domains: [example.org]}, tirith_enabled: true}\n"
    )
    result = CliRunner().invoke(main, ["run"], env={"HERMES_HOME": str(tmp_path)})
    assert result.exit_code == EXIT_CONFIG
    assert [line.split(": ")[1] for line in result.stderr.splitlines() if line.startswith("error: ")] == [
        "platform_toolsets.telegram",
        "terminal.backend",
        "security.tirith_enabled",
        "security.website_blocklist.enabled",
        "agent.max_turns",
    ]


# --- spellings ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "model"),
    [
        ("model: some/model", {"name": "some/model"}),
        ("model: ''", {"provider": "demo", "name": None}),
        (
            "model: {default: some/model, provider: auto, base_url: ''}",
            {"name": "some/model", "base_url": None},
        ),
        ("model: {default: '', provider: ''}", {"provider": "demo", "name": None}),
        (
            "model: {provider: openrouter, default: some/model}",
            {"provider": "openai", "name": "some/model", "base_url": OPENROUTER},
        ),
        (
            "model: {provider: openrouter}",
            {"provider": "openai", "name": "openrouter/auto", "base_url": OPENROUTER},
        ),
        (
            "model: {provider: openrouter, base_url: 'http://proxy/v1'}",
            {"provider": "openai", "base_url": "http://proxy/v1"},
        ),
    ],
)
def test_a_model_in_the_spelling_of_the_original_is_understood(
    load: Load, text: str, model: dict[str, object]
) -> None:
    loaded = load(text)
    assert {name: getattr(loaded.config.model, name) for name in model} == model
    assert loaded.warnings == ()


def test_the_provider_auto_is_chosen_by_the_keys_in_the_environment(load: Load) -> None:
    assert load("model: {provider: auto}", {"ANTHROPIC_API_KEY": "a"}).config.model.provider == "anthropic"


@pytest.mark.parametrize(
    ("mode", "warnings"),
    [("manual", 0), ("smart", 1), ("ask", 0)],
)
def test_a_person_is_asked_in_every_mode_that_asks(load: Load, mode: str, warnings: int) -> None:
    loaded = load(f"approvals: {{mode: {mode}, timeout: 60, cron_mode: '', deny: []}}")
    assert loaded.config.approvals.mode == "ask"
    assert len(loaded.warnings) == warnings


def test_the_api_server_of_the_original_sets_the_web_keys(load: Load) -> None:
    text = "platforms: {api_server: {enabled: true, extra: {host: 127.0.0.2, port: 8700, key: a-long-key}}}"
    loaded = load(text)
    web = loaded.config.web
    assert (web.host, web.port, web.key) == ("127.0.0.2", 8700, "a-long-key")
    assert (loaded.config.platforms, loaded.warnings) == ({}, ())


def test_an_api_server_that_is_no_mapping_is_refused(load: Load) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load("platforms: {api_server: on}")
    assert refusal.value.key == "platforms.api_server"


def test_unsupported_keys_of_an_api_server_are_warned_about(load: Load) -> None:
    text = "web: {port: 1}\nplatforms: {api_server: {enabled: false, port: 2, model_name: x}}"
    assert load(text).config.web.port == 1
    assert load(text).warnings == (
        "platforms.api_server.port is ignored, because there is a web.port",
        "platforms.api_server.enabled: false has no effect: the page and the API always listen on web.host",
        "platforms.api_server.model_name is an unknown key",
    )


@pytest.mark.parametrize(
    "text",
    [
        "platforms: {telegram: {token: t, extra: {allow_from: [42], require_mention: false}}}",
        "gateway: {platforms: {telegram: {token: t, allow_from: [42], require_mention: false}}}",
        "platforms: {telegram: {token: t}}\ntelegram: {allow_from: [42], require_mention: false}",
        "platforms: {telegram: {token: t}}\ntelegram: {extra: {allow_from: [42], require_mention: false}}",
    ],
)
def test_a_platform_is_read_from_every_place_the_original_allows(load: Load, text: str) -> None:
    loaded = load(text)
    platform = loaded.config.platforms["telegram"]
    assert (platform.token, platform.allow_from, platform.require_mention) == ("t", ("42",), False)
    assert loaded.warnings == ()


def test_a_limit_below_extra_stops_the_start(load: Load) -> None:
    with pytest.raises(ConfigInvalid) as refusal:
        load("platforms: {telegram: {extra: {allowed_chats: '-100'}}}\ntelegram: {ignored_threads: [1]}")
    assert {finding.key for finding in refusal.value.findings} == {
        "platforms.telegram.allowed_chats",
        "platforms.telegram.ignored_threads",
    }


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("platforms: {x: {allow_from: [1], extra: {allow_from: [2]}}}", "platforms.x.extra.allow_from"),
        ("platforms: {x: {allow_from: [1]}}\nx: {allow_from: [2]}", "x.allow_from"),
        (
            "platforms: {x: {token: a}}\ngateway: {platforms: {x: {token: b}}}",
            "gateway.platforms.x.token",
        ),
    ],
)
def test_two_values_for_one_key_of_a_platform_are_an_error(load: Load, text: str, key: str) -> None:
    with pytest.raises(ConfigInvalid, match="there is another value") as refusal:
        load(text)
    assert refusal.value.key == key


def test_the_answer_to_strangers_can_be_set_once_for_all_platforms(load: Load) -> None:
    text = "unauthorized_dm_behavior: ignore\nplatforms: {x: {}, y: {unauthorized_dm_behavior: pair}, z: }"
    platforms = load(text).config.platforms
    assert [one.unauthorized_dm_behavior for one in platforms.values()] == ["ignore", "pair", "ignore"]
    text = "unauthorized_dm_behavior: ignore\nplatforms: {x: {unauthorized_dm_behavior: }}"
    assert load(text).config.platforms["x"].unauthorized_dm_behavior == "ignore"


def test_a_single_name_selects_one_tool_of_a_server(load: Load) -> None:
    tools = load("mcp_servers: {x: {url: u, tools: {include: search}}}").config.mcp_servers["x"].tools
    assert tools.uses("search")
    assert not tools.uses("delete")


# --- any file -----------------------------------------------------------------------------------

NAMES = sorted(
    {part for limit in LIMITS for part in limit.key.split(".")} | {"x", "telegram", "extra", "name"}
)
VALUES = st.recursive(
    st.none() | st.booleans() | st.sampled_from(["", "docker", "local", "[]", "ask", *NAMES]) | st.integers(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(NAMES), inner, max_size=3),
    max_leaves=12,
)


@given(tree=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=4))
@rewriting
def test_any_such_file_is_understood_or_refused_with_a_key(load: Load, tree: dict[str, object]) -> None:
    try:
        load(json.dumps(tree))
    except ConfigInvalid as error:
        for finding in error.findings:
            assert finding.key
            assert finding.problem
            assert finding.remedy


@given(
    limit=st.sampled_from(refused()),
    tree=st.dictionaries(st.sampled_from(NAMES), VALUES, max_size=3),
)
@rewriting
def test_a_limit_is_found_whatever_stands_around_it(
    load: Load, limit: Limit, tree: dict[str, object]
) -> None:
    first, *rest = limit.key.replace("*", "x").split(".")
    value = a_limiting_value(limit)
    for name in reversed(rest):
        value = {name: value}
    around = tree.get(first)
    both = {**around, **value} if isinstance(around, dict) and isinstance(value, dict) else value
    with pytest.raises(ConfigInvalid) as refusal:
        load(json.dumps({**tree, first: both}))
    assert limit.key.replace("*", "x") in {finding.key for finding in refusal.value.findings}
