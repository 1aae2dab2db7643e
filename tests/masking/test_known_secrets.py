# ruff: noqa: E501 - texts as they come
"""The known secrets of a gateway: of its configuration, its home and its environment."""

from __future__ import annotations

from pathlib import Path

from hermes_trio.config.known_secrets import masking_of, secrets_of
from hermes_trio.config.schema import GatewayConfig, McpServerConfig, ModelConfig, PlatformConfig, WebConfig


def test_the_secrets_of_a_configuration_are_found_by_their_names() -> None:
    platform = PlatformConfig(
        token="t-1", options={"poll": {"hook_url": "h-1", "every": 3}, "signing": ["s-1"]}
    )
    config = GatewayConfig(
        model=ModelConfig(api_key="m-1", name="no secret"),
        web=WebConfig(key="w-1"),
        platforms={"x": platform},
    )
    environ = {"OPENAI_API_KEY": "e-1", "PATH": "/bin", "MAX_TOKENS": "128000", "NO_KEY": ""}
    environ |= {"PWD": "/home/ada/work", "OLDPWD": "/home/ada"}  # of a shell: whoever is asked reads paths
    assert set(secrets_of(config, environ)) == {"t-1", "h-1", "s-1", "m-1", "w-1", "e-1", ""}


def test_the_known_secrets_include_files_of_the_home_and_parts_of_addresses(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "SOME_API_KEY=from-dot-env-1\nUNNAMED='x9-unnamed-Value'\nexport DB_PASSWORD=12345678\nLEVEL=production\n"
        "MODEL=gpt-4o-mini\nWORK_DIR=/home/kim/srv\nMAX_TOKENS=128000\nDATABASE_URL=postgres://kim:pw-in-url@db/x\n"
    )
    (tmp_path / "web.key").write_text("the-key-of-the-web\n")
    servers = {
        "x": McpServerConfig(
            command="x",
            env={"OPAQUE": "mcp-Env-7", "HOME": "/home/kim"},
            headers={"X-Authorization": "Bearer mcp-header-9"},
        )
    }
    model = ModelConfig(base_url="https://me:pw-of-model@host/v1?api_key=key-in-query")
    known = masking_of(
        tmp_path, GatewayConfig(model=model, mcp_servers=servers), {"REDIS_URL": "redis://:pw-of-redis@h"}
    )
    for secret in (
        "from-dot-env-1", "x9-unnamed-Value", "12345678", "pw-in-url", "the-key-of-the-web", "mcp-Env-7",
        "mcp-header-9", "pw-of-model", "key-in-query", "pw-of-redis",
    ):  # fmt: skip
        assert known.known(f"it says {secret}!") == "it says ***!", secret
    innocent = "production with gpt-4o-mini in /home/kim/work, 128000 of kim at host and db"
    assert known(innocent) == innocent
    assert "pw-" not in repr(known)


DOT_ENV = """\
WORD=swordfish
PHRASE="correct horse battery"
NUMBER=48151623
MODEL=x7Qp2LmZ9vR4tY8wK1nB5cD3
export SOME_HOST='a.b:q0-secret!'
# OLD=commented-out-9
BROKEN="never closed 77
my-key: with-a-dash-5
lone-value-2026
LEVEL=production
CHAT_ID=123456789012
LOGS=/var/log/hermes
BASE=https://api.example.org/v1
MAIL=kim@example.org
WHERE=db.example.org:5432
ZONE=Europe/Berlin
# This comment: is about the working directory
"""


def test_every_value_of_dot_env_is_a_known_secret_unless_it_is_evidently_a_setting(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(DOT_ENV)
    known = masking_of(tmp_path, GatewayConfig(), {})
    for secret in (
        "swordfish", "correct horse battery", "48151623", "x7Qp2LmZ9vR4tY8wK1nB5cD3", "a.b:q0-secret!",
        "commented-out-9", "never closed 77", "with-a-dash-5", "lone-value-2026",
    ):  # fmt: skip
        assert known.known(f"it says {secret}!") == "it says ***!", secret
    settings = (
        "production 123456789012 /var/log/hermes https://api.example.org/v1 kim@example.org db.example.org:5432 "
        "Europe/Berlin is about the working directory"
    )
    assert known.known(settings) == settings
