"""openclaw with its endpoint of chat completions."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .environments import node_environment
from .subject import KEY, Program, Start, Subject

VERSION, NODE = "2026.9.6", "24"


class Openclaw(Subject):
    """An assistant with many chats, written for Node."""

    name = "openclaw"
    tool = "exec command"
    cannot: Mapping[str, str] = {
        "cut": "it waits 315 s for running turns; only the unit of a systemd service shortens that",
        "platform": "its Telegram channel takes no other address than that of the public server",
    }
    settings = "any number of agents at once, no channels, no tools of others"

    def prepare(self) -> str:
        """Install it and a Node that it accepts from the package registry."""
        self._programs = node_environment(f"openclaw-{VERSION}", f"node@{NODE}", f"openclaw@{VERSION}")
        return VERSION

    def program(self, start: Start) -> Program:
        """Return its gateway in the foreground."""
        provider = {
            "baseUrl": f"http://127.0.0.1:{start.model}/v1",
            "apiKey": "k",
            "api": "openai-completions",
            "models": [{"id": "bench", "name": "bench", "contextWindow": 128000, "maxTokens": 8192}],
        }
        config = {
            "gateway": {
                "mode": "local",
                "port": start.port,
                "bind": "loopback",
                "auth": {"mode": "token", "token": KEY},
                "http": {"endpoints": {"chatCompletions": {"enabled": True}}},
            },
            "models": {"providers": {"bench": provider}, "catalogRefresh": {"enabled": False}},
            "agents": {
                "defaults": {
                    "model": {"primary": "bench/bench"},
                    "maxConcurrent": 1000,
                    "heartbeat": {"every": "0m"},
                }
            },
            "update": {"checkOnStart": False},
        }
        path = start.home / "openclaw.json"
        path.write_text(json.dumps(config), encoding="utf-8")
        environ = {
            "OPENCLAW_STATE_DIR": str(start.home / "state"),
            "OPENCLAW_CONFIG_PATH": str(path),
            "OPENCLAW_GATEWAY_TOKEN": KEY,
        }
        node, program = self._programs / "node", self._programs / "openclaw"
        return Program([str(node), str(program.resolve()), "gateway", "run"], environ)

    def body(self, session: str) -> Mapping[str, Any]:
        """Return the field that names the agent."""
        return {"model": "openclaw"}

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the header that names the session."""
        return {"x-openclaw-session-key": session}
