"""The choice of the model, and its reason."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from hermes_trio.agent.providers.choose import ModelChoice, choose, fallback, known_context_length
from hermes_trio.agent.providers.endpoint import Endpoint
from hermes_trio.agent.providers.served_models import known_ports
from hermes_trio.config.config_file import load_config
from hermes_trio.config.schema import FallbackConfig, ModelConfig
from hermes_trio.testing.model_server import open_model_server

KEY = "sk-test-0123456789abcdef"


async def chosen(
    tmp_path: Path,
    config: str = "",
    *,
    local: dict[int, str] | None = None,
    environ: dict[str, str] | None = None,
) -> ModelChoice:
    environ = environ or {}
    tmp_path.joinpath("config.yaml").write_text(config, "utf-8")
    loaded = load_config(tmp_path, environ)
    choice = await choose(loaded.config.model, loaded.origins, environ, local_servers=local or {})
    assert KEY not in choice.why + repr(choice)
    return choice


async def test_the_demo_is_chosen_without_any_configuration(tmp_path: Path) -> None:
    choice = await chosen(tmp_path)
    assert choice.endpoint is None
    assert "OPENAI_API_KEY" in choice.why


CASES = [
    ("OPENAI_API_KEY", "openai", "https://api.openai.com/v1"),
    ("ANTHROPIC_API_KEY", "anthropic", "https://api.anthropic.com"),
    ("OPENROUTER_API_KEY", "openai", "https://openrouter.ai/api/v1"),
]


@pytest.mark.parametrize(("variable", "provider", "url"), CASES)
async def test_a_key_in_the_environment_chooses_the_provider(
    variable: str, provider: str, url: str, tmp_path: Path
) -> None:
    choice = await chosen(tmp_path, environ={variable: KEY})
    assert choice.endpoint is not None
    assert (choice.endpoint.provider, choice.endpoint.base_url, choice.endpoint.api_key) == (
        provider,
        url,
        KEY,
    )
    assert f"because {variable} is set" in choice.why
    assert choice.endpoint.model in choice.why


async def test_the_configuration_wins_over_a_key_in_the_environment(tmp_path: Path) -> None:
    config = "model: {provider: anthropic, name: claude-opus-5, context_length: 5000}"
    choice = await chosen(tmp_path, config, environ={"OPENAI_API_KEY": KEY})
    assert choice.endpoint == Endpoint("anthropic", "https://api.anthropic.com", "claude-opus-5", None, 5000)
    assert "config.yaml says so" in choice.why


async def test_the_demo_can_be_configured(tmp_path: Path) -> None:
    choice = await chosen(tmp_path, "model: {provider: demo}", environ={"OPENAI_API_KEY": KEY})
    assert choice == ModelChoice(
        None,
        "The demo answers, because config.yaml says so. OPENAI_API_KEY is set: `hermes-trio setup` connects "
        "its model.",
    )


async def test_openrouter_gets_its_own_key_and_no_other(tmp_path: Path) -> None:
    config = "model: {base_url: https://openrouter.ai/api/v1, name: x/y}"
    choice = await chosen(tmp_path, config, environ={"OPENROUTER_API_KEY": KEY, "OPENAI_API_KEY": "another"})
    assert choice.endpoint is not None
    assert choice.endpoint.api_key == KEY
    for one in (config, "model: {provider: openrouter, name: x/y}"):
        choice = await chosen(tmp_path, one, environ={"OPENAI_API_KEY": "another"})
        assert choice.endpoint is not None
        assert choice.endpoint.api_key is None


async def test_a_server_on_this_machine_is_found(tmp_path: Path) -> None:
    async with open_model_server(models=("nomic-embed-text", "llama-9")) as server:
        choice = await chosen(tmp_path, local={1: "Nobody", server.port: "Ollama"})
        assert choice.endpoint == Endpoint("openai", f"http://127.0.0.1:{server.port}/v1", "llama-9")
        assert "Ollama" in choice.why
        assert server.requests == []
        await server.until(lambda: server.open == 0)


def test_the_port_of_ollama_may_be_moved() -> None:
    assert next(iter(known_ports({"OLLAMA_HOST": "http://0.0.0.0:5555/"}))) == 5555
    assert [*known_ports({"OLLAMA_HOST": "somewhere"})] == [*known_ports({})]


async def test_a_local_server_is_asked_for_its_model(tmp_path: Path) -> None:
    async with open_model_server(models=("llama-9",)) as server:
        choice = await chosen(tmp_path, f"model: {{base_url: {server.openai_url}}}")
        assert choice.endpoint == Endpoint("openai", server.openai_url, "llama-9")


async def test_a_port_without_a_model_server_is_skipped(tmp_path: Path) -> None:
    async def web(stream: trio.SocketStream) -> None:
        async with stream:
            if await stream.receive_some(1000):
                page = b"<html>"
                await stream.send_all(b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n\r\n%s" % (len(page), page))

    async def silent(stream: trio.SocketStream) -> None:
        async with stream:
            while await stream.receive_some(1000):
                pass

    async with trio.open_nursery() as nursery:
        ports = [(await nursery.start(_serve, handler)) for handler in (web, silent)]
        choice = await chosen(tmp_path, local=dict.fromkeys(ports, "Somebody"))
        nursery.cancel_scope.cancel()
    assert choice.endpoint is None


async def _serve(handler, task_status=trio.TASK_STATUS_IGNORED):  # type: ignore[no-untyped-def]
    listeners = await trio.open_tcp_listeners(0, host="127.0.0.1")
    task_status.started(listeners[0].socket.getsockname()[1])
    await trio.serve_listeners(handler, listeners)


def test_a_known_model_name_has_a_context_length() -> None:
    assert known_context_length("claude-haiku-4-5-20251001") == 200_000
    assert known_context_length("anthropic/claude-sonnet-5") == 1_000_000
    assert known_context_length("llama-9") is None


def test_choosing_loads_no_http_client() -> None:
    code = (
        "import sys, trio\n"
        "from hermes_trio.config.schema import ModelConfig\n"
        "from hermes_trio.agent.providers.choose import choose\n"
        "print(trio.run(lambda: choose(ModelConfig(), {}, {}, local_servers={})).why)\n"
        "assert 'httpx' not in sys.modules"
    )
    root = Path(__file__).parents[3]
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60, cwd=root)


FIRST = Endpoint("openai", "http://localhost:8080/v1", "small", "sk-first")


@pytest.mark.parametrize(
    ("other", "wanted"),
    [
        ({}, None),
        ({"name": "big"}, ("openai", FIRST.base_url, "big", "sk-first")),
        ({"name": "big", "api_key": "sk-own"}, ("openai", FIRST.base_url, "big", "sk-own")),
        (
            {"name": "claude-sonnet-5", "provider": "anthropic"},
            ("anthropic", "https://api.anthropic.com", "claude-sonnet-5", "sk-ant"),
        ),
        (
            {"name": "x/y", "base_url": "https://openrouter.ai/api/v1"},
            ("openai", "https://openrouter.ai/api/v1", "x/y", "sk-or"),
        ),
        ({"name": "m", "base_url": "http://far/v1"}, ("openai", "http://far/v1", "m", "sk-oa")),
    ],
)
def test_the_fallback_model_has_its_own_address_and_key(
    other: dict[str, Any], wanted: tuple[str, ...] | None
) -> None:
    environ = {"OPENAI_API_KEY": "sk-oa", "ANTHROPIC_API_KEY": "sk-ant", "OPENROUTER_API_KEY": "sk-or"}
    found = fallback(ModelConfig(fallback=FallbackConfig(**other)), FIRST, environ)
    assert (found and (found.provider, found.base_url, found.model, found.api_key)) == wanted
