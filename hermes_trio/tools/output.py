"""What a command has written, as a model may be sent it: without what only a terminal understands, without
secrets, and not endless."""

from __future__ import annotations

import re

from ..masking.redaction import Redact
from .tool import Workplace

MOST = 50_000
"""Characters of one result."""
LONGEST_CLEANED = 500_000
"""Characters that are cleaned before they are cut, because most of them may be a progress bar. To clean more
takes seconds."""
MARGIN = 4096
"""Characters around a cut that are looked at too: a secret that is cut in two looks like none."""

_ESCAPES = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
_OVERWRITTEN = re.compile(r"^[^\n]*\r(?!\n|$)", re.MULTILINE)
_UNPRINTABLE = re.compile("[\0-\x08\x0b-\x1f\x7f-\x9f]")


def redaction(place: Workplace) -> Redact:
    """What masks the secrets of this gateway, and whatever looks like one."""
    return place.masking


def without_ours(text: str, place: Workplace) -> str:
    """Text of a file without our own secrets. What only looks like one stays: who changes a file has to see
    what stands in it."""
    return place.masking.known(text)


def cleaned(text: str, redact: Redact) -> str:
    """A piece of output as it is read. Of a line that was written over, as a progress bar is, the last
    state is left."""
    text = _OVERWRITTEN.sub("", _ESCAPES.sub("", text.replace("\r\n", "\n")))
    return redact(_UNPRINTABLE.sub("", text))


def fitted(head: str, tail: str, redact: Redact, *, total: int | None = None) -> str:
    """The beginning and the end of an output: two fifths and three fifths of what a result may be. With no
    `total` nothing lies between them; else all of it is so many bytes."""
    if total is None and len(head) + len(tail) > LONGEST_CLEANED:
        return shortened(head + tail, MOST, lambda text: cleaned(text, redact))
    if total is None:
        head = tail = cleaned(head + tail, redact)
        if len(head) <= MOST:
            return head
    else:
        # However little is left of them when they are clean, what lay at the cut does not come into view.
        edge, head = cleaned(head[-MARGIN:], redact), cleaned(head, redact)
        head, tail = head[: max(0, len(head) - len(edge))], after_margin(tail, redact)
    size = f"{len(head)} characters" if total is None else f"{total} bytes"
    first, last = head[: MOST * 2 // 5], tail[-(MOST * 3 // 5) :]
    return f"{first}\n[... something is left out here: all of it is {size} ...]\n{last}"


def shortened(text: str, most: int, redact: Redact) -> str:
    """A text of any length without secrets; of a long one the beginning and the end. It is cut before it is
    redacted, because that takes seconds for some megabytes, and the margins at the cut are left out, because
    a secret that is cut in two looks like none."""
    first, last = most * 2 // 5, most * 3 // 5
    if len(text) <= most + 2 * MARGIN:
        return redact(text)
    head, tail = text[: first + MARGIN], text[-last - MARGIN :]
    edge = len(redact(head[-MARGIN:]))
    head, tail = redact(head), redact(tail)[len(redact(tail[:MARGIN])) :]
    note = f"[... something is left out here: all of it is {len(text)} characters ...]"
    return f"{head[: max(0, len(head) - edge)][:first]}\n{note}\n{tail[-last:]}"


def latest(text: str, most: int, redact: Redact) -> str:
    """The end of an output, so many characters at most. `text` has `MARGIN` more in front, if there are."""
    return (cleaned(text, redact) if len(text) < most + MARGIN else after_margin(text, redact))[-most:]


def after_margin(text: str, redact: Redact, *, margin: int = MARGIN) -> str:
    """A text without its first characters, which are there so that no half of a secret is left of them."""
    return cleaned(text, redact)[len(cleaned(text[:margin], redact)) :]
