"""Our own gateway, as the process that people start."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path

from .subject import KEY, Program, Subject


class HermesTrio(Subject):
    """Our own gateway."""

    name = "hermes-trio"

    def prepare(self) -> str:
        """Return the version that is installed."""
        return version("hermes-trio")

    def program(self, home: Path, port: int, model: int, grace: float) -> Program:
        """Return the command that people start."""
        config = {
            "model": {
                "provider": "openai",
                "base_url": f"http://127.0.0.1:{model}/v1",
                "name": "bench",
                "api_key": "k",
            },
            "web": {"port": port, "key": KEY},
            "agent": {"restart_drain_timeout": grace},
        }
        (home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
        return Program([sys.executable, "-m", "hermes_trio", "run"], {"HERMES_HOME": str(home)})

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the header that names the session."""
        return {"X-Hermes-Session-Id": session}
