"""Choice of the model, and its reason as text for the line at the start and for `doctor`.

The configuration decides; without it, a key in the environment; then a model server on this machine, which is
only asked for its models; then the demo. httpx is imported only if a server listens on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import trio

from ...base.errors import ConfigInvalid
from ...config.config_file import PROGRAM
from ...config.schema import ModelConfig
from .endpoint import Endpoint

LOCAL_SERVERS = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}
"""Default ports of model servers, in the order in which they are tried."""
PROBE_SECONDS = 1.0

_OPENROUTER = "https://openrouter.ai/api/v1"
_ADDRESSES = {"openai": "https://api.openai.com/v1", "anthropic": "https://api.anthropic.com"}
_KEYS = {"openai": "OPENAI_API_KEY", "anthropic": "ANTHROPIC_API_KEY"}
_USUAL = {"openai": "gpt-5.4", "anthropic": "claude-sonnet-5", "openrouter": "openrouter/auto"}
_CONTEXT = (
    ("claude-haiku-4", 200_000),
    ("claude-opus-4", 200_000),
    ("claude-sonnet-4", 200_000),
    ("claude-3", 200_000),
    ("claude-", 1_000_000),
    ("gpt-5", 272_000),
    ("gpt-4.1", 1_000_000),
    ("gpt-4o", 128_000),
    ("o3", 200_000),
    ("o4", 200_000),
)
_NO_CHAT = ("embed", "rerank", "whisper", "tts", "bge-")
_LONGEST_LIST = 1 << 20


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model and the reason."""

    endpoint: Endpoint | None
    """None for the demo."""
    why: str
    """The reason, as a sentence without secrets."""


@dataclass(frozen=True, slots=True)
class _ServedModel:
    """A model that a server on this machine offers."""

    model: str
    context_length: int | None


async def choose(
    model: ModelConfig,
    origins: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    local_servers: Mapping[int, str] = LOCAL_SERVERS,
) -> ModelChoice:
    """Return the model for this configuration. `origins` is `Loaded.origins`: the keys that were set, and
    where they were set."""
    because = _because(origins.get("model.provider"))
    if because and model.provider == "demo":
        return ModelChoice(None, f"The demo answers, because {because}.")
    if (endpoint := configured(model, origins, environ)) is not None:
        if model.base_url and not model.name and model.provider == "openai":
            endpoint = await _with_model_of(endpoint, model)
        return _choice(endpoint, because or "OPENROUTER_API_KEY is set")
    for port, name in local_servers.items():
        url = f"http://127.0.0.1:{port}/v1"
        if await _listens(port) and (found := await _probe(url)):
            endpoint = _endpoint(model, url, found.model, None, found.context_length)
            return _choice(endpoint, f"a model server ({name}, probably) listens there and no key is set")
    return ModelChoice(
        None,
        "The demo answers: no key is set (OPENAI_API_KEY, ANTHROPIC_API_KEY, OPENROUTER_API_KEY), no model "
        "is configured, and no model server answers on this machine.",
    )


def configured(model: ModelConfig, origins: Mapping[str, str], environ: Mapping[str, str]) -> Endpoint | None:
    """Return the endpoint that the configuration or the environment names; None if they name none, or the
    demo. Connects to no server. Raises `ConfigInvalid`."""
    if not _because(origins.get("model.provider")):
        openrouter = environ.get("OPENROUTER_API_KEY")
        return _endpoint(model, _OPENROUTER, _USUAL["openrouter"], openrouter) if openrouter else None
    if model.provider == "demo":
        return None
    url, key = model.base_url or _ADDRESSES[model.provider], model.api_key
    if _OPENROUTER.startswith(url.rstrip("/")) and origins.get("model.api_key") not in (
        "config.yaml",
        PROGRAM,
    ):
        key = environ.get("OPENROUTER_API_KEY")  # never the key of another provider
    return _endpoint(model, url, _USUAL[model.provider], key)


def fallback(model: ModelConfig, first: Endpoint, environ: Mapping[str, str]) -> Endpoint | None:
    """Return the fallback model for `first`; None if none is configured. Raises `ConfigInvalid`."""
    other = model.fallback
    if other.name is None:
        return None
    provider = other.provider or first.provider
    same_server = provider == first.provider and other.base_url in (None, first.base_url)
    url = other.base_url or (first.base_url if same_server else _ADDRESSES[provider])
    key = other.api_key or (first.api_key if same_server else None)
    if key is None and not same_server:
        key = environ.get(
            "OPENROUTER_API_KEY" if _OPENROUTER.startswith(url.rstrip("/")) else _KEYS[provider]
        )
    try:
        return Endpoint(
            provider, url, other.name, key.strip() if key else None, known_context_length(other.name)
        )
    except ConfigInvalid as error:
        found = [replace(one, key=one.key.replace("model.", "model.fallback.")) for one in error.findings]
        raise ConfigInvalid.of(found) from None


def known_context_length(model: str) -> int | None:
    """Return the context length of a model in tokens, if its name is known; else None."""
    name = model.rpartition("/")[2]
    return next((tokens for start, tokens in _CONTEXT if name.startswith(start)), None)


def _because(origin: str | None) -> str:
    """Return the reason for a choice from the origin of its key in the configuration."""
    if origin is None:
        return ""
    says = origin == PROGRAM or origin.endswith(".yaml")
    return f"{origin} says so" if says else f"{origin} is set"


async def _with_model_of(endpoint: Endpoint, model: ModelConfig) -> Endpoint:
    """Return the endpoint with the first model of its server, if that runs on this machine: its models cannot
    be known in advance."""
    found = await _probe(endpoint.base_url) if endpoint.is_local else None
    name = found.model if found else "default"
    length = model.context_length or (found and found.context_length) or known_context_length(name)
    return replace(endpoint, model=name, context_length=length)


def _endpoint(
    model: ModelConfig, url: str, usual: str, key: str | None, context_length: int | None = None
) -> Endpoint:
    """Return an endpoint; the configuration wins over the given defaults."""
    name = model.name or usual
    return Endpoint(
        "anthropic" if model.provider == "anthropic" else "openai",
        url,
        name,
        key.strip() if key else None,
        model.context_length or context_length or known_context_length(name),
    )


def _choice(endpoint: Endpoint, because: str) -> ModelChoice:
    """Return the choice of this endpoint with its reason."""
    return ModelChoice(endpoint, f"{endpoint.model} at {endpoint.shown} is asked, because {because}.")


async def _listens(port: int) -> bool:
    """Return whether a program listens on this port of this machine."""
    with trio.move_on_after(PROBE_SECONDS):
        try:
            stream = await trio.open_tcp_stream("127.0.0.1", port)
        except OSError:
            return False
        await stream.aclose()
        return True
    return False


async def _probe(url: str) -> _ServedModel | None:
    """Return the first chat model of the server at this address. The request has no key and a short
    deadline."""
    from .model_clients import Http, httpx

    body = b""
    with trio.move_on_after(PROBE_SECONDS) as patience:
        try:
            async with (
                Http().clients([Endpoint("openai", url, "any")]) as (client,),
                client.stream("GET", url.rstrip("/") + "/models") as response,
            ):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _LONGEST_LIST:
                        patience.cancel(reason="too long for a list of models")
        except (httpx.HTTPError, httpx.InvalidURL):
            return None
    return _first_chat_model(body)


def _first_chat_model(body: bytes) -> _ServedModel | None:
    """Return the first chat model in the list that a server sent."""
    try:
        listed = msgspec.json.decode(body, type=dict[str, Any]).get("data")
    except (msgspec.MsgspecError, RecursionError):
        return None
    for entry in listed if isinstance(listed, list) else []:
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and name and not any(word in name.lower() for word in _NO_CHAT):
            meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else {}
            length = entry.get("max_model_len") or entry.get("context_length") or meta.get("n_ctx")
            return _ServedModel(name, length if isinstance(length, int) and length > 0 else None)
    return None
