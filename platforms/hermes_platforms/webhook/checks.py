"""Checks of `hermes-trio doctor webhook`. It connects to nobody: a request to a receiver would be a call."""

from __future__ import annotations

from collections.abc import Iterator

import trio.lowlevel

from hermes_trio import PlatformConfig
from hermes_trio.platform import Finding

from ..options import is_this_machine
from . import settings_of
from .listener import PATH
from .settings import Route


async def check(platform: PlatformConfig) -> list[Finding]:
    """Check the address and each route."""
    settings = settings_of(platform)
    await trio.lowlevel.checkpoint()
    where = f"{settings.host}:{settings.port}"
    findings = [Finding("ok", f"the listener is on {where}")]
    if is_this_machine(settings.host):
        text = f"callers on other machines need a proxy with HTTPS that forwards to {where}"
        findings.append(Finding("ok", text))
    else:
        text = f"{where} is open to other machines, in clear text"
        remedy = "Set listen: 127.0.0.1:8644, and put a proxy with HTTPS in front."
        findings.append(Finding("warning", text, remedy))
    for name, route in settings.routes.items():
        findings += _route(name, route)
    return findings


def _route(name: str, route: Route) -> Iterator[Finding]:
    events = f", events {', '.join(route.only)}" if route.only else ""
    yield Finding("ok", f"{PATH}{name} takes {route.per_minute} requests a minute, {route.scheme}{events}")
    if route.answer is None:
        yield Finding("ok", f"answers of {name} are posted nowhere; the page shows them")
    elif route.answer.startswith("http:") and "://127.0.0.1" not in route.answer:
        text = f"answers of {name} are sent in clear text"
        yield Finding("warning", text, f"Write https in routes.{name}.answer.")
    else:
        yield Finding("ok", f"answers of {name} are posted and signed")
