"""Our own gateway, as the process that people start, and in programs of others."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from . import embedding_program
from .subject import KEY, Program, Start, Subject
from .telegram_server import PERSON, TOKEN

_ENDED = re.compile(r"event='ended'.*")
_PHASE = re.compile(r"(\w+)_ms=([0-9.]+)")


class HermesTrio(Subject):
    """Our own gateway."""

    name = "hermes-trio"
    settings = "no questions before commands"

    def prepare(self) -> str:
        """Return the version that is installed."""
        return version("hermes-trio")

    def program(self, start: Start) -> Program:
        """Return the command that people start."""
        _configure(start, {"port": start.port, "key": KEY})
        return Program([sys.executable, "-m", "hermes_trio", "run"], {"HERMES_HOME": str(start.home)})

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the header that names the session."""
        return {"X-Hermes-Session-Id": session}

    def run_body(self, session: str, text: str) -> Mapping[str, Any]:
        """Return the body that begins a run."""
        return {"input": text, "session_id": session}

    def phases(self, home: Path) -> Mapping[str, float]:
        """Return the phases of the last stop from its log."""
        log = (home / "logs" / "gateway.log").read_text("utf-8")
        ended = _ENDED.findall(log) or [""]
        return {name: float(ms) for name, ms in _PHASE.findall(ended[-1])}


class Embedded(Subject):
    """Our own gateway in a program on Trio, which takes the signal itself."""

    host = "trio"
    name = "embedded-trio"
    settings = HermesTrio.settings
    cannot: Mapping[str, str] = {"platform": "its host program has no chat platform"}

    def prepare(self) -> str:
        """Return the version that is installed."""
        return version("hermes-trio")

    def program(self, start: Start) -> Program:
        """Return the program with the gateway in it."""
        _configure(start, {})
        given = [self.host, str(start.home), str(start.port), str(start.grace)]
        return Program([sys.executable, str(Path(embedding_program.__file__)), *given])

    def headers(self, session: str) -> Mapping[str, str]:
        """Return the header that names the session."""
        return {"X-Session": session}


class EmbeddedGuest(Embedded):
    """Our own gateway in a program on asyncio, as the guest of its loop."""

    host = "asyncio"
    name = "embedded-asyncio"


def _configure(start: Start, web: Mapping[str, Any]) -> None:
    config: dict[str, Any] = {
        "model": {
            "provider": "openai",
            "base_url": f"http://127.0.0.1:{start.model}/v1",
            "name": "bench",
            "api_key": "k",
        },
        "web": web,
        "agent": {"restart_drain_timeout": start.grace},
        "approvals": {"mode": "off"},
    }
    if start.telegram is not None:
        config["platforms"] = {
            "telegram": {
                "token": TOKEN,
                "base_url": f"http://127.0.0.1:{start.telegram}",
                "allow_from": [PERSON],
                "home_channel": PERSON,
            }
        }
    (start.home / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
