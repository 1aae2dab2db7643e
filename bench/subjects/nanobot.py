"""nanobot with its server of chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .environments import python_environment
from .subject import Program, Start, Subject

VERSION = "0.3.5"


class Nanobot(Subject):
    """A small agent with many chats."""

    name = "nanobot"
    settings = "any number of requests at once, no consolidation of memory"
    tool = "exec command"
    cannot: Mapping[str, str] = {"platform": "its server of completions has no chat platforms"}

    def prepare(self) -> str:
        """Install it from the package index."""
        self._programs = python_environment(f"nanobot-{VERSION}", f"nanobot-ai=={VERSION}", "aiohttp")
        return VERSION

    def program(self, start: Start) -> Program:
        """Return its server."""
        config = {
            "providers": {"custom": {"apiKey": "k", "apiBase": f"http://127.0.0.1:{start.model}/v1"}},
            "agents": {
                "defaults": {"provider": "custom", "model": "bench", "dream": {"enabled": False}},
            },
        }
        path = start.home / "config.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        command = ["serve", "--port", str(start.port), "--host", "127.0.0.1", "--timeout", "600"]
        where = ["--workspace", str(start.home / "workspace"), "--config", str(path)]
        return Program([str(self._programs / "nanobot"), *command, *where])

    def body(self, session: str) -> Mapping[str, Any]:
        """Return the field that names the session."""
        return {"session_id": session}
