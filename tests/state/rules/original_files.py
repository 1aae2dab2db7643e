"""Session files of hermes-agent, the original, written by hand for tests."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

AT = "2026-05-19T12:00:00"
README = "This file is a mirror."


def entry(chat: str, session_id: str | None = None, **more: Any) -> dict[str, Any]:
    """Return a session entry as an old version of the original wrote it, with few fields."""
    return {
        "session_key": f"agent:main:memory:dm:{chat}",
        "session_id": session_id or f"20260519_120000_000000{chat}",
        "created_at": AT,
        "updated_at": AT,
        "origin": {"platform": "memory", "chat_id": chat, "user_id": chat, "user_name": "Kim"},
        **more,
    }


def original(home: Path, *entries: dict[str, Any], counts: object = None, place: str = "sessions") -> None:
    folder = home / place
    folder.mkdir(parents=True, exist_ok=True)
    keyed = {"_README": README, **{one["session_key"]: one for one in entries}}
    (folder / "sessions.json").write_text(json.dumps(keyed))
    if counts is not None:
        (home / ".restart_failure_counts").write_text(json.dumps(counts))
