"""The original: hermes-agent with its HTTP platform."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from .environments import python_environment
from .subject import KEY, Program, Subject

VERSION = "0.19.0"


class HermesAgent(Subject):
    """The gateway that this one is a rewrite of."""

    name = "hermes-agent"
    settings = "no titles, no memory review, any number of runs at once"

    def prepare(self) -> str:
        """Install it from the package index."""
        self._programs = python_environment(f"hermes-agent-{VERSION}", f"hermes-agent=={VERSION}", "aiohttp")
        return VERSION

    def program(self, home: Path, port: int, model: int, grace: float) -> Program:
        """Return its gateway in the foreground."""
        base = f"http://127.0.0.1:{model}/v1"
        config = {
            "model": {
                "provider": "custom",
                "base_url": base,
                "default": "bench",
                "api_key": "k",
                "context_length": 128000,
            },
            "agent": {"restart_drain_timeout": grace},
            "auxiliary": {"title_generation": {"enabled": False}},
            "memory": {"memory_enabled": False, "user_profile_enabled": False, "nudge_interval": 0},
            "skills": {"creation_nudge_interval": 0},
            "gateway": {"api_server": {"max_concurrent_runs": 0}},
            "compression": {"enabled": False},
        }
        (home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        environ = {
            "HERMES_HOME": str(home),
            "API_SERVER_ENABLED": "true",
            "API_SERVER_KEY": KEY,
            "API_SERVER_HOST": "127.0.0.1",
            "API_SERVER_PORT": str(port),
            "OPENAI_API_KEY": "k",
            "OPENAI_BASE_URL": base,
        }
        return Program([str(self._programs / "hermes"), "gateway", "run"], environ)

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the header that names the session."""
        return {"X-Hermes-Session-Id": session}
