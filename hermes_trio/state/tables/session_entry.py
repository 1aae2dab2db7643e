"""The value of a stored session, and its conversion to and from plain dicts.

One stored state, the mark, decides how the session is used next: no mark, *resume pending* (a turn was cut)
or *suspended* (the next message starts a new session). Everything else that could be a flag is derived from
the rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any, Literal

from ...base.ids import path_safe_id, session_key
from ...base.messages import SessionSource
from ..db.column_text import storable


class ResumeReason(StrEnum):
    """The reason why a turn was cut. A mark may hold other text (imported data); only these are resumed."""

    RESTART = "restart_timeout"
    SHUTDOWN = "shutdown_timeout"
    CRASH = "crash"


@dataclass(frozen=True, slots=True)
class Mark:
    """The stored state of a session that decides its next use, with reason and time."""

    kind: Literal["resume_pending", "suspended"]
    reason: str | None = None
    at: float | None = None


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost of a session so far. An unknown cost is None, never zero."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    last_prompt_tokens: int = 0
    cost_usd: float | None = None

    @property
    def total_tokens(self) -> int:
        return self.input_tokens + self.output_tokens + self.cache_read_tokens + self.cache_write_tokens


@dataclass(frozen=True, slots=True)
class SessionEntry:
    """One stored session."""

    session_key: str
    session_id: str
    created_at: float
    updated_at: float
    origin: SessionSource | None = None
    display_name: str | None = None
    platform: str | None = None
    chat_type: str = "dm"
    mark: Mark | None = None
    ended_at: float | None = None
    end_reason: str | None = None
    auto_reset_reason: str | None = None
    """Reason why this session automatically replaced the previous one; None if it did not."""
    reset_had_activity: bool = False
    """True if the replaced session had been used, so that the person is told of the reset."""
    cuts_forgiven: int = 0
    """Cut turns up to this turn id are not counted towards a stuck session."""
    model_override: Mapping[str, str] | None = None
    usage: Usage = field(default=Usage())

    @property
    def suspended(self) -> bool:
        return self.mark is not None and self.mark.kind == "suspended"

    @property
    def resume_pending(self) -> bool:
        return self.mark is not None and self.mark.kind == "resume_pending"

    @property
    def resume_reason(self) -> str | None:
        return self.mark.reason if self.mark and self.resume_pending else None

    @property
    def last_resume_marked_at(self) -> datetime | None:
        if self.mark is None or not self.resume_pending or self.mark.at is None:
            return None
        return datetime.fromtimestamp(self.mark.at, UTC)

    @property
    def was_auto_reset(self) -> bool:
        return self.auto_reset_reason is not None

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain JSON values; times are ISO 8601."""
        usage = self.usage
        return {
            "session_key": self.session_key,
            "session_id": self.session_id,
            "created_at": _iso(self.created_at),
            "updated_at": _iso(self.updated_at),
            "origin": self.origin.to_dict() if self.origin else None,
            "display_name": self.display_name,
            "platform": self.platform,
            "chat_type": self.chat_type,
            "suspended": self.suspended,
            "resume_pending": self.resume_pending,
            "resume_reason": self.resume_reason,
            "last_resume_marked_at": _iso(self.mark.at) if self.mark and self.resume_pending else None,
            "was_auto_reset": self.was_auto_reset,
            "auto_reset_reason": self.auto_reset_reason,
            "reset_had_activity": self.reset_had_activity,
            "model_override": dict(self.model_override) if self.model_override else None,
            "input_tokens": usage.input_tokens,
            "output_tokens": usage.output_tokens,
            "cache_read_tokens": usage.cache_read_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
            "total_tokens": usage.total_tokens,
            "last_prompt_tokens": usage.last_prompt_tokens,
            "estimated_cost_usd": usage.cost_usd or 0.0,
            "cost_status": "unknown" if usage.cost_usd is None else "estimated",
        }

    @classmethod
    def from_dict(cls, data: object) -> SessionEntry:
        """Return the entry of a dict of ours or of the original, older or newer: missing values get their
        default, unknown keys are ignored, a bad time of a mark is dropped. An entry without a usable key, id
        or times raises ValueError (`InvalidId` for an id that is not safe)."""
        if not isinstance(data, Mapping):
            raise ValueError(f"a session entry is a mapping, not {type(data).__name__}")
        created = parse_time(data.get("created_at"))
        if created is None:
            raise ValueError(f"session {data.get('session_key')!r} has no usable created_at")
        updated = parse_time(data.get("updated_at"))
        origin, override = data.get("origin"), data.get("model_override")
        auto_reset_reason = _text(data.get("auto_reset_reason"))
        return cls(
            session_key=session_key(data.get("session_key")),
            session_id=path_safe_id(data.get("session_id")),
            created_at=created,
            updated_at=created if updated is None else updated,
            origin=SessionSource.from_dict(origin) if isinstance(origin, Mapping) else None,
            display_name=_text(data.get("display_name")),
            platform=_text(data.get("platform")),
            chat_type=_text(data.get("chat_type")) or "dm",
            mark=_mark_from_dict(data),
            auto_reset_reason=auto_reset_reason if data.get("was_auto_reset") is True else None,
            reset_had_activity=data.get("reset_had_activity") is True,
            model_override=_persistable_override(override),
            usage=Usage(
                input_tokens=_count(data.get("input_tokens")),
                output_tokens=_count(data.get("output_tokens")),
                cache_read_tokens=_count(data.get("cache_read_tokens")),
                cache_write_tokens=_count(data.get("cache_write_tokens")),
                last_prompt_tokens=_count(data.get("last_prompt_tokens")),
                cost_usd=_cost(data),
            ),
        )


def parse_time(value: object) -> float | None:
    """Return seconds since 1970 for a stored time: seconds or milliseconds, as a number or as text, or
    ISO 8601. None for anything else."""
    if isinstance(value, str):
        text = value.strip()
        try:
            value = float(text)
        except ValueError:
            try:
                # A time without a zone is the local time of this machine.
                return _after_1970(datetime.fromisoformat(text).timestamp())
            except (ValueError, OverflowError, OSError):
                return None
    seconds = _finite(value)
    if seconds is None:
        return None
    # Numbers after the year 5138 are milliseconds.
    return _after_1970(seconds / 1000 if seconds > 1e11 else seconds)


def _after_1970(seconds: float) -> float | None:
    return seconds if 0 <= seconds < 253402300800 else None


def _finite(value: object) -> float | None:
    """Return a JSON number as a finite float; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        number = float(value)
    except OverflowError:
        return None
    return number if math.isfinite(number) else None


def _iso(seconds: float | None) -> str | None:
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC).isoformat()


def _mark_from_dict(data: Mapping[str, Any]) -> Mark | None:
    # The original has two booleans; if both are set, suspended wins.
    if data.get("suspended") is True:
        return Mark("suspended")
    if data.get("resume_pending") is True:
        at = parse_time(data.get("last_resume_marked_at"))
        return Mark("resume_pending", _text(data.get("resume_reason")), at)
    return None


def _persistable_override(value: object) -> Mapping[str, str] | None:
    """Return the model that a person chose for this chat, without any other key: never a credential."""
    if not isinstance(value, Mapping):
        return None
    kept = {k: storable(v) for k in ("model", "provider", "base_url") if isinstance(v := value.get(k), str)}
    return kept or None


def _text(value: object) -> str | None:
    return storable(value) if isinstance(value, str) and value else None


def _count(value: object) -> int:
    return min(max(0, value), 2**62) if isinstance(value, int) and not isinstance(value, bool) else 0


def _cost(data: Mapping[str, Any]) -> float | None:
    cost = _finite(data.get("estimated_cost_usd"))
    known = cost is not None and cost >= 0 and data.get("cost_status", "unknown") != "unknown"
    return cost if known else None
