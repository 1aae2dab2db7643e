"""Choice of the model, and its reason as text for the line at the start and for `doctor`.

The configuration decides; without it, a key in the environment; then a model server on this machine, which is
only asked for its models; then the demo. httpx is imported only if a server listens on this machine.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from ...base.errors import ConfigInvalid
from ...config.config_file import PROGRAM
from ...config.schema import ModelConfig
from .endpoint import Endpoint
from .served_models import PROBE_SECONDS, known_ports, local_server, served_models

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


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """The chosen model and the reason."""

    endpoint: Endpoint | None
    """None for the demo."""
    why: str
    """The reason, as a sentence without secrets."""


async def choose(
    model: ModelConfig,
    origins: Mapping[str, str],
    environ: Mapping[str, str],
    *,
    local_servers: Mapping[int, str] | None = None,
) -> ModelChoice:
    """Return the model for this configuration. `origins` is `Loaded.origins`: the keys that were set, and
    where they were set."""
    because = _because(origins.get("model.provider"))
    if because and model.provider == "demo":
        keys = [name for name in (*_KEYS.values(), "OPENROUTER_API_KEY") if environ.get(name)]
        offer = f" {keys[0]} is set: `hermes-trio setup` connects its model." if keys else ""
        return ModelChoice(None, f"The demo answers, because {because}.{offer}")
    if (endpoint := configured(model, origins, environ)) is not None:
        if model.base_url and not model.name and model.provider == "openai":
            endpoint = await _with_model_of(endpoint, model)
        return _choice(endpoint, because or "OPENROUTER_API_KEY is set")
    ports = known_ports(environ) if local_servers is None else local_servers
    if (server := await local_server(ports)) is not None:
        first = server.models[0]
        endpoint = _endpoint(model, server.url, first.name, None, first.context_length)
        return _choice(endpoint, f"a model server ({server.name}, probably) listens there and no key is set")
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
    models = await served_models(endpoint, PROBE_SECONDS) if endpoint.is_local else []
    found = models[0] if models else None
    name = found.name if found else "default"
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
