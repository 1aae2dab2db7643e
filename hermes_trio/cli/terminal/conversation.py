"""The shown form of a session in a terminal: each event, and each stored message, becomes parts.

A pure fold. A message of the transcript has a place: the number of the last event of its run that it
contains. So a terminal that begins in the middle of a run shows the stored messages, then the events after
them, and nothing twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal

Kind = Literal["piece", "answer", "tool", "person", "note", "problem", "question", "end"]
"""A piece of an answer that grows, a whole answer, a tool call that ended, words of a person, a note, an
error, a question to the person, and the end of a run."""
ENDS = ("run.completed", "run.failed", "run.cancelled")
INTERRUPTED = "interrupted"
LONGEST_TOOL_LINE = 70
_FIRST_ARGUMENT = re.compile(r'^\{"\w+":\s*"?')


QUOTED = "  │ "
"""Beginning of each line of a command."""


@dataclass(frozen=True, slots=True)
class Part:
    """Something to show."""

    kind: Kind
    text: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A question that waits for the person."""

    id: str
    is_approval: bool


@dataclass(slots=True)
class Conversation:
    """A session in the terminal."""

    session_id: str
    title: str = ""
    is_read: bool = False
    """True if the stored messages are shown."""
    last_row: str = ""
    """The id of the last stored message that was read."""
    ask: Ask | None = None
    run_id: str = ""
    """The run that goes on; empty if none does."""
    since: float = 0.0
    """The time at which the run began, by the clock of the gateway."""
    _places: dict[str, int] = field(default_factory=dict)
    """The number of the last shown event of each run."""
    _tools: dict[str, str] = field(default_factory=dict)
    """The running tool calls, each with its line."""
    _doing: str = ""
    _is_shown: bool = False
    """True if a part of the answer of this run is shown."""

    def take_rows(self, rows: Sequence[Mapping[str, Any]]) -> Iterator[Part]:
        """Yield the parts of stored messages, from the last one of a person on."""
        for row in rows:
            self.last_row = row["id"]
            if run_id := row.get("run_id"):
                self._places[run_id] = max(self._places.get(run_id, 0), row.get("place") or 0)
        last = max((at for at, row in enumerate(rows) if row["role"] == "user"), default=len(rows))
        for row in rows[last:]:
            yield from _parts_of_row(row)

    def is_new(self, event: Mapping[str, Any]) -> bool:
        """Return whether an event begins a run that is not known yet."""
        return event["run_id"] != self.run_id and event["event"] not in ENDS

    def take(self, event: Mapping[str, Any]) -> Iterator[Part]:
        """Yield the parts of an event of this session."""
        run_id, seq = event["run_id"], event["seq"]
        if self.is_new(event):
            self.run_id, self.since, self._doing = run_id, event["at"], ""
            self._tools.clear()
            self._is_shown = bool(self._places.get(run_id))
        if seq <= self._places.get(run_id, 0):
            return
        self._places[run_id] = seq
        yield from self._parts(event)

    def waits_for(self) -> str:
        """Return what the session waits for, in words; an empty text if nothing runs."""
        if self.ask is not None:
            return "waits for your yes" if self.ask.is_approval else "waits for your answer"
        if not self.run_id:
            return ""
        if self._tools:
            return f"runs {', '.join(self._tools.values())}"
        return self._doing or "waits for the model"

    def _parts(self, event: Mapping[str, Any]) -> Iterator[Part]:
        match event["event"]:
            case "message.delta":
                self._doing, self._is_shown = "writes", True
                yield Part("piece", event["delta"])
            case "reasoning.available":
                self._doing = "thinks"
            case "tool.started":
                self._tools[event.get("call_id") or event["tool"]] = _tool_line(event)
            case "tool.completed":
                line = self._tools.pop(event.get("call_id") or event.get("tool") or "", None)
                self._doing = ""
                yield Part("tool", _ended_tool(line or _tool_line(event), event))
            case "approval.request":
                self.ask = Ask(event["approval_id"], is_approval=True)
                yield Part("question", approval_text(event))
            case "question.request":
                self.ask = Ask(event["question_id"], is_approval=False)
                yield Part("question", question_text(event))
            case "request.closed":
                if self.ask is not None and self.ask.id == event["request_id"]:
                    self.ask = None
            case "run.completed" | "run.failed" | "run.cancelled":
                self.run_id, self.ask, self._doing = "", None, ""
                self._tools.clear()
                if not self._is_shown and event.get("output"):
                    yield Part("answer", event["output"])
                yield from _end(event)
                yield Part("end")


def _end(event: Mapping[str, Any]) -> Iterator[Part]:
    if event["event"] == "run.cancelled":
        yield Part("note", "(stopped)")
    elif event["event"] == "run.failed" and event.get("code") == INTERRUPTED:
        yield Part("note", "(interrupted)")
    elif event["event"] == "run.failed":
        yield Part("problem", event.get("error") or "The turn failed.")


def _parts_of_row(row: Mapping[str, Any]) -> Iterator[Part]:
    text = row["content"]
    if row.get("marker"):
        yield Part("note", text)
    elif row["role"] == "user":
        yield Part("person", text)
    elif row["role"] == "assistant" and text.strip():
        yield Part("answer", text)
    elif row["role"] == "tool":
        ended = {"error": row.get("status") not in (None, "ok")}
        yield Part("tool", _ended_tool(row.get("tool_name") or "tool", ended))


def _tool_line(event: Mapping[str, Any]) -> str:
    preview = event.get("preview") or ""
    with suppress(ValueError):  # a long one is cut
        args = json.loads(preview)
        preview = " ".join(map(str, args.values())) if isinstance(args, dict) else preview
    preview = _FIRST_ARGUMENT.sub("", preview)
    line = " ".join(f"{event.get('tool') or 'tool'} {preview}".split())
    return line if len(line) <= LONGEST_TOOL_LINE else f"{line[: LONGEST_TOOL_LINE - 1]}…"


def _ended_tool(line: str, event: Mapping[str, Any]) -> str:
    seconds = event.get("duration")
    return f"{'✗' if event.get('error') else '✓'} {line}" + (f"  {seconds:.1f} s" if seconds else "")


def approval_text(event: Mapping[str, Any]) -> str:
    """Return an approval with its whole command."""
    why = f"\n{event['description']}" if event.get("description") else ""
    command = "".join(f"\n{QUOTED}{line}" for line in (event.get("command") or "").split("\n"))
    where = "".join(f"\n  in {line}" for line in (event.get("cwd") or "").split("\n") if line)
    grants = "".join(f"\n  with {grant}" for grant in event.get("grants") or ())
    return f"May this run?{why}{command}{where}{grants}\nAnswer yes, session, always or no."


def question_text(event: Mapping[str, Any]) -> str:
    """Return a question with its choices."""
    choices = "".join(
        f"\n  {number}. {choice}" for number, choice in enumerate(event.get("choices") or (), 1)
    )
    return f"{event.get('question') or ''}{choices}"
