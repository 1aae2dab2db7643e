"""The output of commands for a model: without terminal codes, without secrets, and of a bounded length.
Pure."""

from __future__ import annotations

import re

from ..masking.redaction import Redact

MOST = 50_000
"""Characters of one result."""
LONGEST_CLEANED = 500_000
"""Characters that are cleaned before they are cut, because most of them may be a progress bar. Cleaning more
takes seconds."""
MARGIN = 4096
"""Characters around a cut that are checked too: half a secret is not recognised as one."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n|$)", re.MULTILINE)
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")


def cleaned(text: str, redact: Redact) -> str:
    """Return a piece of output as a person reads it. Of a line that was overwritten, such as a progress bar,
    the last state is kept."""
    text = _OVERWRITTEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return redact(_UNPRINTABLE.sub("", text))


def fitted(head: str, tail: str, redact: Redact, *, total: int | None = None) -> str:
    """Return the beginning and the end of an output: two fifths and three fifths of the longest result.
    Without `total` the two parts are the whole output; otherwise the output has `total` bytes, and the middle
    is missing."""
    if total is None and len(head) + len(tail) > LONGEST_CLEANED:
        return shortened(head + tail, MOST, lambda text: cleaned(text, redact))
    if total is None:
        head = tail = cleaned(head + tail, redact)
        if len(head) <= MOST:
            return head
    else:
        # Cleaning may shorten the parts a lot; the text at the cut must not be shown even then.
        edge, head = cleaned(head[-MARGIN:], redact), cleaned(head, redact)
        head, tail = head[: max(0, len(head) - len(edge))], after_margin(tail, redact)
    size = f"{len(head)} characters" if total is None else f"{total} bytes"
    first, last = head[: MOST * 2 // 5], tail[-(MOST * 3 // 5) :]
    return f"{first}\n[... something is left out here: all of it is {size} ...]\n{last}"


def shortened(text: str, most: int, redact: Redact) -> str:
    """Return a text without secrets; of a long text, the beginning and the end. It is cut before it is
    masked, because masking megabytes takes seconds. The margins at the cut are left out, because half a
    secret is not recognised."""
    first, last = most * 2 // 5, most * 3 // 5
    if len(text) <= most + 2 * MARGIN:
        return redact(text)
    head, tail = text[: first + MARGIN], text[-last - MARGIN :]
    edge = len(redact(head[-MARGIN:]))
    head, tail = redact(head), redact(tail)[len(redact(tail[:MARGIN])) :]
    note = f"[... something is left out here: all of it is {len(text)} characters ...]"
    return f"{head[: max(0, len(head) - edge)][:first]}\n{note}\n{tail[-last:]}"


def latest(text: str, most: int, redact: Redact) -> str:
    """Return the end of an output, at most `most` characters. `text` starts `MARGIN` characters earlier, if
    it can."""
    return (cleaned(text, redact) if len(text) < most + MARGIN else after_margin(text, redact))[-most:]


def after_margin(text: str, redact: Redact, *, margin: int = MARGIN) -> str:
    """Return a cleaned text without its first `margin` characters, which are only there so that no half of a
    secret remains."""
    return cleaned(text, redact)[len(cleaned(text[:margin], redact)) :]
