"""The `.env` file, the variables in a configuration, and the choice of the provider by the keys there."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hermes_trio.base.errors import ConfigInvalid
from hermes_trio.config.schema import GatewayConfig
from tests.config.reading import Load, rewriting


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
def test_a_line_of_dotenv_is_read(load: Load, line: str, value: str) -> None:
    loaded = load("terminal: {cwd: '${V}'}", dotenv=line)
    assert loaded.config.terminal.cwd == value
    assert loaded.warnings == ()


@pytest.mark.parametrize("line", ["hunter2", "2V=hunter2", "V='hunter2", 'V="hunter2" 2', "=hunter2"])
def test_a_malformed_line_of_dotenv_is_reported_by_its_number_alone(load: Load, line: str) -> None:
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
def test_variables_are_replaced_by_their_values(load: Load, written: str, value: str) -> None:
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
        ("${GONE", "it has a malformed ${…}"),
        ("${2X}", "it has a malformed ${…}"),
        ("${GONE-x}", "it has a malformed ${…}"),
    ],
)
def test_an_unset_or_malformed_variable_is_named(load: Load, written: str, problem: str) -> None:
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
def test_the_provider_is_chosen_by_the_keys_in_the_environment(
    load: Load, text: str, environ: dict[str, str], provider: str, api_key: str | None
) -> None:
    model = load(text, environ).config.model
    assert (model.provider, model.api_key) == (provider, api_key)
    assert load(text, dotenv="\n".join(f"{k}={v}" for k, v in environ.items())).config.model == model


def test_the_origin_of_each_set_value_is_known(load: Load) -> None:
    loaded = load("agent: {max_turns: 90, stuck_after: }", {"OPENAI_API_KEY": "o"})
    assert loaded.origins == {
        "agent.max_turns": "config.yaml",
        "model.provider": "OPENAI_API_KEY",
        "model.api_key": "OPENAI_API_KEY",
    }
