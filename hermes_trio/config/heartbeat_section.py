"""The section about the heartbeat for a watcher outside."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

from .section import Section


class HeartbeatConfig(Section, frozen=True):
    """A sign of life for a watcher outside of this machine, which raises an alarm when none comes."""

    url: Annotated[
        Annotated[str, Meta(pattern=r"^https?://[^/]")] | None,
        Meta(
            description="Address that is fetched as a sign of life. Left out: none is sent.",
            extra={"allowed": "an address with http:// or https://"},
        ),
    ] = None
    every_seconds: Annotated[
        int, Meta(ge=10, le=86_400, description="Seconds between two signs of life.")
    ] = 60
