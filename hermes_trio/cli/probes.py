"""The requests of `doctor` to the model and to the MCP servers. Each has a deadline, and ends the processes
that it starts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import trio

from ..agent.providers.choose import choose, fallback
from ..agent.providers.endpoint import Endpoint
from ..base.errors import ConfigInvalid
from ..base.plural import counted
from ..base.world import World
from ..config.config_file import Loaded
from ..config.known_secrets import masking_of
from ..platform.doctor_checks import Finding
from ..tools.mcp.mcp_servers import open_servers
from ..tools.mcp.offered_tools import plain_name

MODEL_WITHIN = 30.0
"""Seconds for the first part of an answer. A local server may have to load its model first."""

LIST_WITHIN = 5.0
"""Seconds for the list of the models of a server."""

SERVERS_WITHIN = 20.0
"""Seconds for all MCP servers, which are asked at the same time."""


async def ask_model(loaded: Loaded, within: float = MODEL_WITHIN) -> list[Finding]:
    """Ask the model that `run` would choose, and its fallback, for one word."""
    try:
        chosen = await choose(loaded.config.model, loaded.origins, loaded.environ)
        if chosen.endpoint is None:
            return [Finding("ok", chosen.why.removesuffix("."))]
        other = fallback(loaded.config.model, chosen.endpoint, loaded.environ)
    except ConfigInvalid:
        return []  # reported by the check of the configuration
    found = [Finding("ok", chosen.why.removesuffix("."))]
    for endpoint in filter(None, (chosen.endpoint, other)):
        found += [await _ask(endpoint, within), *await _listed(endpoint)]
    return found


async def _listed(endpoint: Endpoint) -> list[Finding]:
    """Return the models that the server of this endpoint has, and whether its own is one of them."""
    from ..agent.providers.served_models import served_models, shown_names

    models = await served_models(endpoint, LIST_WITHIN)
    if not models:
        return []
    text = f"{endpoint.shown} has {counted(len(models), 'model')}: {shown_names(models)}"
    return [Finding("ok", text)]


async def _ask(endpoint: Endpoint, within: float) -> Finding:
    from ..agent.providers.model import ModelRequest
    from ..agent.providers.model_clients import open_http
    from ..agent.providers.model_errors import ModelError
    from ..agent.providers.model_messages import UserMessage
    from ..agent.providers.open_models import open_model

    name = f"{endpoint.model} at {endpoint.shown}"
    question = ModelRequest(messages=(UserMessage("Answer with one word: are you there?"),))
    try:
        with trio.fail_after(within):
            async with (
                open_http() as http,
                open_model(http, [endpoint], World(), retries=0) as model,
                model.stream(question) as items,
            ):
                async for _ in items:
                    return Finding("ok", f"{name} answers")
    except trio.TooSlowError:
        remedy = "Check its server: it may be loading the model, or be overloaded."
        return Finding("problem", f"{name} has not answered within {within:g} s", remedy)
    except ModelError as error:
        said = f" ({error.said})" if error.said else ""
        return Finding("problem", f"{name}: {error.problem}{said}", error.remedy)
    except ConfigInvalid as error:
        return Finding("problem", f"{error.key}: {error.problem}", error.remedy)
    return Finding("problem", f"{name} sent an empty answer", "Try again, or choose another model.")


async def ask_servers(loaded: Loaded, folder: Path) -> list[Finding]:
    """Connect to the servers of `mcp_servers`, ask them for their tools, and disconnect. Their logs go into
    `folder`, so that they do not mix with those of a running gateway."""
    reports = list[str]()
    redact = masking_of(loaded.path.parent, loaded.config, loaded.environ)
    async with open_servers(loaded.config, folder, World(), redact=redact, tell=reports.append) as servers:
        if servers is not None:
            with trio.move_on_after(SERVERS_WITHIN):
                for one in servers.every:
                    await one.settled.wait()
        every = {
            one.name: len(one.tools) if one.is_connected else redact(one.trouble)
            for one in (servers.every if servers is not None else ())
        }
    findings = [Finding("problem", text.removesuffix(".")) for text in _unusable(reports, list(every))]
    for name, found in every.items():
        if isinstance(found, int):
            findings.append(Finding("ok", f"the MCP server {name!r} offers {found} tools"))
            continue
        remedy = redact(_last_line(folder / "logs" / f"mcp-{plain_name(name)}.log"))
        text = f"the MCP server {name!r} is not connected: {found}"
        findings.append(Finding("problem", text, remedy or "Check its command, or its url and headers."))
    return findings


def _unusable(reports: list[str], connected: list[str]) -> Iterator[str]:
    """Yield the reports about servers to which no connection was tried."""
    for text in reports:
        if not any(text.startswith(f"The MCP server {name!r} is not connected") for name in connected):
            yield text


def _last_line(log: Path) -> str:
    """Return a sentence with the last line of a log; an empty text if there is none."""
    try:
        lines = log.read_text("utf-8", "replace").strip().splitlines()
    except OSError:
        return ""
    return f"The last line of its log: {lines[-1][:300]}" if lines else ""
