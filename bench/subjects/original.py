"""The original: hermes-agent with its HTTP platform."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from .environments import python_environment
from .subject import KEY, Program, Start, Subject
from .telegram_server import PERSON, TOKEN

VERSION = "0.19.0"


def telegram(port: int) -> dict[str, object]:
    """Return the settings of Telegram on a server of this machine, with a home channel."""
    return {
        "enabled": True,
        "token": TOKEN,
        "allow_from": [PERSON],
        "home_channel": {"platform": "telegram", "chat_id": PERSON, "name": "home"},
        "extra": {"base_url": f"http://127.0.0.1:{port}/bot", "disable_fallback_ips": True},
    }


class HermesAgent(Subject):
    """The gateway that this one is a rewrite of."""

    name = "hermes-agent"
    settings = "no titles, no memory review, any number of runs at once, no questions before commands"

    def prepare(self) -> str:
        """Install it from the package index."""
        self._programs = python_environment(
            f"hermes-agent-{VERSION}", f"hermes-agent[messaging]=={VERSION}", "aiohttp"
        )
        return VERSION

    def program(self, start: Start) -> Program:
        """Return its gateway in the foreground."""
        base = f"http://127.0.0.1:{start.model}/v1"
        config: dict[str, object] = {
            "model": {
                "provider": "custom",
                "base_url": base,
                "default": "bench",
                "api_key": "k",
                "context_length": 128000,
            },
            "agent": {"restart_drain_timeout": start.grace},
            "auxiliary": {"title_generation": {"enabled": False}},
            "memory": {"memory_enabled": False, "user_profile_enabled": False, "nudge_interval": 0},
            "skills": {"creation_nudge_interval": 0},
            "gateway": {"api_server": {"max_concurrent_runs": 0}},
            "compression": {"enabled": False},
        }
        if start.telegram is not None:
            config["platforms"] = {"telegram": telegram(start.telegram)}
        (start.home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        environ = {
            "HERMES_HOME": str(start.home),
            "API_SERVER_ENABLED": "true",
            "API_SERVER_KEY": KEY,
            "API_SERVER_HOST": "127.0.0.1",
            "API_SERVER_PORT": str(start.port),
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": base,
            "HERMES_YOLO_MODE": "1",
        }
        return Program([str(self._programs / "hermes"), "gateway", "run"], environ)

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the header that names the session."""
        return {"X-Hermes-Session-Id": session}

    def run_body(self, session: str, text: str) -> Mapping[str, Any]:
        """Return the body that begins a run."""
        return {"input": text, "session_id": session}
