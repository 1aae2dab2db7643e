"""Receipts: what becomes of the lines that we have sent.

A server takes the lines of a connection in order, and says nothing of a message that it delivers. There are
two ways to know all the same:

| the server has | a message |
|---|---|
| labeled-response and echo-message | comes back with the label of its line, and its id |
| neither | is followed by a PING: what was wrong with it is said before the PONG |
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import trio

from hermes_trio.platform import (
    ChatGone,
    FloodWait,
    NotSent,
    OutcomeUnknown,
    PlatformError,
    Refused,
)

from .wire import Line

DEFAULT_WAIT = 10.0
_SECONDS = re.compile(r"(\d{1,5}) sec")


@dataclass(slots=True, eq=False)
class Receipt:
    """The fate of some lines to one target."""

    target: str
    known: trio.Event = field(default_factory=trio.Event)
    error: PlatformError | None = None
    message_id: str | None = None


class Receipts:
    """The receipts that are not known yet, by label or token, oldest first."""

    def __init__(self, folded: Callable[[str], str]) -> None:
        self._folded = folded
        self._open: dict[str, Receipt] = {}
        self._batches: dict[str, str] = {}

    def expect(self, token: str, target: str) -> Receipt:
        """Return the receipt for what is sent with this token. Close it with `forget`."""
        self._open[token] = receipt = Receipt(self._folded(target))
        return receipt

    def forget(self, token: str) -> None:
        """Note that nobody waits for a receipt any more."""
        self._open.pop(token, None)

    def lost(self, why: str) -> None:
        """Note that the connection has ended: what became of the open ones is never known."""
        for receipt in self._open.values():
            receipt.error = receipt.error or OutcomeUnknown(f"The IRC server did not answer: {why}.")
            receipt.known.set()

    def take(self, line: Line) -> None:
        """Note what a line of the server says about a receipt."""
        if line.command == "BATCH":
            self._batch(line)
            return
        label = line.tags.get("label") or self._batches.get(line.tags.get("batch", ""), "")
        if label:
            self._labelled(label, line)
        elif line.command == "PONG":
            if receipt := self._open.get(line.param(-1)):
                receipt.known.set()
        elif (error := error_of(line)) is not None:
            self._refused(line, error)

    def _refused(self, line: Line, error: PlatformError) -> None:
        """Note an error without a label. It names the target, or else only the command."""
        target = self._folded(line.param(-2 if line.command == "FAIL" else 1))
        is_named = line.command != "263"
        for receipt in self._open.values():
            if receipt.error is None and (receipt.target == target or not is_named):
                receipt.error = error
                return

    def _batch(self, line: Line) -> None:
        name = line.param(0)
        if name.startswith("+") and "label" in line.tags:
            self._batches[name[1:]] = line.tags["label"]
        elif name.startswith("-") and (receipt := self._open.get(self._batches.pop(name[1:], ""))):
            receipt.known.set()

    def _labelled(self, label: str, line: Line) -> None:
        receipt = self._open.get(label)
        if receipt is None:
            return
        if (error := error_of(line)) is not None:
            receipt.error = error
        elif line.command in ("PRIVMSG", "NOTICE"):
            receipt.message_id = line.tags.get("msgid")
        if "batch" not in line.tags:
            receipt.known.set()


async def all_of(receipts: Sequence[Receipt]) -> str | None:
    """Wait for the receipts of one group of lines, and return the id of the last message. Raises their error;
    `OutcomeUnknown` if some of the lines have arrived."""
    for receipt in receipts:
        await receipt.known.wait()
    errors = [receipt.error for receipt in receipts if receipt.error is not None]
    if not errors:
        return receipts[-1].message_id
    if len(errors) == len(receipts):
        raise errors[0]
    raise OutcomeUnknown(f"A part of the message arrived: {errors[0]}")


def error_of(line: Line) -> PlatformError | None:
    """Return the error that a line tells us about a message; None for a line that tells none."""
    text = f"IRC: {line.param(-1)[:200]}"
    seconds = float(found[1]) if (found := _SECONDS.search(line.param(-1))) else DEFAULT_WAIT
    match line.command:
        case "401" | "403" | "406":
            return ChatGone(text)
        case "439":
            return FloodWait(seconds)
        case "263":
            return NotSent(text)
        case "FAIL" if line.param(1) in ("RATE_LIMITED", "TEMPORARILY_UNAVAILABLE"):
            return FloodWait(seconds)
        case "FAIL":
            return Refused(text)
        case code if code.isdecimal() and "400" <= code <= "599" and code != "433":
            return Refused(text)
    return None
