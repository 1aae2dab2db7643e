"""No secret of a configuration is shown, neither by its repr nor by an error."""

from __future__ import annotations

from typing import Annotated

import msgspec
import pytest

from hermes_trio.base.errors import ConfigFinding, ConfigInvalid
from hermes_trio.config.config_text import Scalar
from hermes_trio.config.config_values import read_section
from hermes_trio.config.schema import AgentConfig, GatewayConfig
from hermes_trio.config.section import Section, masked
from hermes_trio.masking.secret_words import is_secret
from tests.config.reading import Load, paths

SECRET = "hunter2-hunter2"


def test_the_secret_keys_of_the_schema_are_these() -> None:
    secret = {path for path in paths(GatewayConfig) if is_secret(path.rpartition(".")[2])}
    assert secret == {"model.api_key", "model.fallback.api_key", "web.key", "platforms.*.token"}


@pytest.mark.parametrize(
    "name",
    ["app_token", "botToken", "signing_secret", "password", "apiKey", "private_key", "client-key",
     "webhook_url", "auth", "smtp_passwd", "cookies", "KEY"],
)  # fmt: skip
def test_a_secret_of_a_platform_is_recognised_by_its_name(name: str) -> None:
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


def test_an_error_about_a_secret_number_does_not_show_it() -> None:
    class Lock(Section, frozen=True):
        pin: Annotated[int, msgspec.Meta(ge=0, le=9999, description="Opens the door.")] = 0

    findings: list[ConfigFinding] = []
    read_section(Lock, {"pin": Scalar(SECRET, SECRET)}, "lock", {}, findings)
    [finding] = findings
    assert finding.key == "lock.pin"
    assert finding.problem == "'***' is not a whole number from 0 to 9,999"
