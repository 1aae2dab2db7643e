"""The models that a server offers: the answer to `GET …/models`, which servers of both formats give."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
import trio

from .endpoint import Endpoint

PROBE_SECONDS = 1.0
"""Seconds for the list of a server on this machine."""

_PORTS = {11434: "Ollama", 1234: "LM Studio", 8080: "llama.cpp", 8000: "vLLM"}
_NO_CHAT = ("embed", "rerank", "whisper", "tts", "bge-", "moderation", "dall-e", "transcribe")
_LONGEST_LIST = 1 << 20
_ANTHROPIC_VERSION = "2023-06-01"
_NAMED = 12


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers."""

    name: str
    context_length: int | None = None


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server on this machine."""

    name: str
    """The usual program on this port."""
    url: str
    models: Sequence[ServedModel]
    """At least one."""


def known_ports(environ: Mapping[str, str]) -> dict[int, str]:
    """Return the default ports of model servers, in the order in which they are tried."""
    port = environ.get("OLLAMA_HOST", "").rstrip("/").rpartition(":")[2]
    is_port = port.isascii() and port.isdecimal() and len(port) <= 5
    return {int(port): "Ollama", **_PORTS} if is_port else dict(_PORTS)


async def local_server(ports: Mapping[int, str]) -> LocalServer | None:
    """Return the first of these servers that listens on this machine and has a chat model."""
    for port, name in ports.items():
        url = f"http://127.0.0.1:{port}/v1"
        if await _listens(port) and (
            found := await served_models(Endpoint("openai", url, "any"), PROBE_SECONDS)
        ):
            return LocalServer(name, url, found)
    return None


async def served_models(endpoint: Endpoint, within: float) -> list[ServedModel]:
    """Return the chat models of the server of this endpoint, in its order; none if it gives no list in
    time. The name of the endpoint's model is not used."""
    from .model_clients import Http, httpx  # imported here: it takes 0.1 s

    body = b""
    with trio.move_on_after(within) as patience:
        try:
            async with (
                Http().clients([endpoint]) as (client,),
                client.stream("GET", _address(endpoint), headers=_headers(endpoint)) as response,
            ):
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _LONGEST_LIST:
                        patience.cancel(reason="too long for a list of models")
        except (httpx.HTTPError, httpx.InvalidURL):
            return []
    return [*_chat_models(body)]


def shown_names(models: Sequence[ServedModel]) -> str:
    """Return the names of models as a part of a sentence. A name is data of the server."""
    names = [one.name for one in models[:_NAMED]]
    more = f" and {len(models) - _NAMED} more" if len(models) > _NAMED else ""
    return ", ".join(names) + more


def _address(endpoint: Endpoint) -> str:
    url = endpoint.base_url.rstrip("/")
    if endpoint.provider == "anthropic":
        return f"{url.removesuffix('/v1')}/v1/models?limit=1000"
    return f"{url}/models"


def _headers(endpoint: Endpoint) -> dict[str, str]:
    if endpoint.api_key is None:
        return endpoint.sign_in
    if endpoint.provider == "anthropic" and not endpoint.api_key.startswith("sk-ant-oat"):
        return {"x-api-key": endpoint.api_key, "anthropic-version": _ANTHROPIC_VERSION}
    return {"authorization": f"Bearer {endpoint.api_key}", "anthropic-version": _ANTHROPIC_VERSION}


def _chat_models(body: bytes) -> Iterator[ServedModel]:
    """Yield the chat models in the list that a server sent."""
    try:
        listed = msgspec.json.decode(body, type=dict[str, Any]).get("data")
    except (msgspec.MsgspecError, RecursionError):
        return
    for entry in listed if isinstance(listed, list) else []:
        name = entry.get("id") if isinstance(entry, dict) else None
        if isinstance(name, str) and _is_chat_model(name):
            meta = entry.get("meta") if isinstance(entry.get("meta"), dict) else {}
            length = entry.get("max_model_len") or entry.get("context_length") or meta.get("n_ctx")
            yield ServedModel(name, length if isinstance(length, int) and length > 0 else None)


def _is_chat_model(name: str) -> bool:
    is_name = 0 < len(name) <= 200 and name.isprintable()
    return is_name and not any(word in name.lower() for word in _NO_CHAT)


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
