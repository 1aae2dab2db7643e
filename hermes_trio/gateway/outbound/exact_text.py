"""Text that is shown exactly: a person who approves a command, or chooses an answer, has read all of it.

A character that cannot be seen, or looks like another one, is written as its code point, such as ⟨U+202E⟩,
and so is ⟨ itself. So two different texts never look the same:

| written as a code point | reason |
|---|---|
| control and format characters, blanks other than the space, unassigned ones, surrogates | invisible |
| letters that run from right to left | they change the order in which their neighbours are read |
| combining marks and jamo that have a composed form | the composed form looks the same |
| a space at the end of a line, white space at the ends of the text | invisible, or removed by a platform |

Rejected: backslash escapes, because commands are full of backslashes. Letters of different alphabets that
look alike are not distinguished. Pure functions; the messages are `Part`s for the outbox.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

from ...platform.contract import Counting, Traits
from ...tools.tool import Approval, NotShown
from . import texts
from .rows import Part
from .split import SMALLEST_LIMIT, chunks, width

ROOM = 200
"""Room that a question leaves in its message for the mark of a repeat, and for the answer."""
ROOM_FOR_YES = 80
"""The same for an approval, whose answers are short."""
LONGEST = 20_000
"""Limit of characters of an approval: nobody reads more before a yes."""
MOST_PARTS = 6
"""Limit of messages that show an approval, before the one that asks."""
_EDGES = 64
"""Room for two code points at the edges of a block, and for the lines around it."""
QUOTED = "│ "
"""Prefix of each line of preformatted text on a platform that cannot show it as such, so that no part of the
text looks like words of the gateway."""

_LOOKS_LIKE_NOTHING = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc"
    "\U0001d159\U0001d173-\U0001d17a\U000e0100-\U000e01ef"
    # Marks that combine with any character (Telegram drops some of them); parts of Korean syllables.
    "\u0300-\u036f\u1ab0-\u1aff\u1dc0-\u1dff\u20d0-\u20ff\ufe20-\ufe2f\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7fb]"
)
_OPENS = "⟨"
_RIGHT_TO_LEFT = frozenset({"R", "AL", "AN"})


def visible(text: str) -> str:
    """Return `text` with its invisible characters as code points."""
    return "".join(_tokens(text))


def on_one_line(text: str) -> str:
    """Return `text` as `visible` does, with line breaks as code points too."""
    return visible(text).replace("\n", _code_point("\n"))


def _tokens(text: str) -> Iterator[str]:
    """Yield each character of `text` as it is shown."""
    before = ""
    for place, character in enumerate(text):
        at_edge = place == 0 or place == len(text) - 1
        if character == " ":
            unseen = at_edge or text[place + 1] == "\n"
        elif character == "\n":
            unseen = at_edge
        else:
            unseen = _cannot_be_seen(character, before)
        yield _code_point(character) if unseen else character
        before = character


def _cannot_be_seen(character: str, before: str) -> bool:
    if not character.isprintable():
        return True
    if character.isascii():
        return False
    category = unicodedata.category(character)
    return (
        character == _OPENS
        or unicodedata.bidirectional(character) in _RIGHT_TO_LEFT
        or _LOOKS_LIKE_NOTHING.match(character) is not None
        or (category[0] == "M" and (not before or unicodedata.category(before)[0] not in "LM"))
        or unicodedata.normalize("NFC", before + character) != before + character
    )


def _code_point(character: str) -> str:
    return f"{_OPENS}U+{ord(character):04X}⟩"


# --- messages -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Block:
    """A preformatted text in lines of its own."""

    text: str


@dataclass(frozen=True, slots=True)
class _Inline:
    """A preformatted text within a line."""

    text: str


def approval_parts(approval: Approval, within: float, traits: Traits) -> list[Part]:
    """Return the messages that ask for an approval; the last one has the question. Raises `NotShown` if the
    platform cannot show all of it exactly."""
    if traits.dialect == "markdown" and not (traits.preformatted or traits.own_door):
        raise NotShown("the platform has no preformatted text")
    tokens = list(_tokens(approval.exact[: LONGEST + 1]))
    if not tokens or sum(map(len, tokens)) > LONGEST:
        raise NotShown(f"it has more than {LONGEST} characters" if tokens else "there is nothing to show")
    limit = traits.limit - ROOM_FOR_YES
    compose = _Composer(quotes=traits.dialect == "plain")
    shown = "".join(tokens)
    place = visible(approval.place)
    grants = "\n".join(map(on_one_line, approval.grants))
    escapes = _OPENS in shown + place + grants
    asking = partial(_asking, approval, place, grants, within, escapes=escapes)
    whole = compose(*asking(_Block(shown)))
    if width(whole.text, traits.counting) <= limit:
        return [whole]
    blocks = list(_split(tokens, limit, traits.counting, quotes=compose.quotes))
    last = compose(*asking(len(blocks)))
    if len(blocks) > MOST_PARTS or width(last.text, traits.counting) > limit:
        around = len(last.text)
        raise NotShown(
            f"it has {len(shown)} characters, what is said of it has {around}, and a message here takes "
            f"{traits.limit}"
        )
    parts = [
        compose(texts.part_heading(number, len(blocks)), _Block(block), texts.end_of_part())
        for number, block in enumerate(blocks, 1)
    ]
    return [*parts, last]


def question_parts(question: str, choices: Sequence[str], traits: Traits) -> list[Part]:
    """Return the messages that ask a question; the last one has the choices, each shown exactly on one
    line."""
    limit = max(traits.limit - ROOM, SMALLEST_LIMIT)
    parts = [Part(text) for text in chunks(question, replace(traits, limit=limit))]
    if not choices:
        return parts
    lines = [f"{number}. {on_one_line(choice)}" for number, choice in enumerate(choices, start=1)]
    block = "\n".join(lines)
    if width(block, traits.counting) > limit:
        raise NotShown("the choices do not fit into a message")
    text = parts[-1].text + "\n" if parts else ""
    if width(text + block, traits.counting) <= limit:
        parts, start = parts[:-1], len(text)
        return [*parts, Part(text + block, ((start, start + len(block)),))]
    return [*parts, Part(block, ((0, len(block)),))]


def with_end(part: Part, answer: str | None) -> Part:
    """Return the last message of a question with its answer, or with the note that it was not answered."""
    if answer is None:
        return Part(f"{part.text}\n\n{texts.not_answered()}", part.preformatted)
    shown = on_one_line(answer)[:100]
    text = f"{part.text}\n\n{texts.answered(shown)}"
    place = (len(text) - len(shown), len(text))
    return Part(text, (*part.preformatted, place) if shown else part.preformatted)


def _asking(
    approval: Approval, place: str, grants: str, within: float, what: _Block | int, *, escapes: bool
) -> Iterator[str | _Block | _Inline]:
    """Yield the pieces of the message that asks for an approval. `what` is the command or change, or the
    number of messages that show it."""
    yield texts.approval_question()
    if place:
        yield texts.place_heading(approval.kind)
        yield _Block(place)
    if isinstance(what, int):
        yield texts.shown_above(approval.kind, what)
    else:
        yield texts.content_heading(approval.kind)
        yield what
    if grants:
        yield texts.grants_heading()
        yield _Block(grants)
    if escapes:
        yield texts.code_points_note()
    if approval.description:
        yield texts.reason_heading()
        yield _Inline(on_one_line(approval.description))
    yield texts.answer_yes_or_no(within)


@dataclass(frozen=True, slots=True)
class _Composer:
    """Composes a message, one line for each piece; an inline piece continues the line before it."""

    quotes: bool

    def __call__(self, *pieces: str | _Block | _Inline) -> Part:
        text, places = "", list[tuple[int, int]]()
        for piece in pieces:
            shown = piece if isinstance(piece, str) else piece.text
            if isinstance(piece, _Block) and self.quotes:
                shown = QUOTED + shown.replace("\n", f"\n{QUOTED}")
            text += "" if not text else " " if isinstance(piece, _Inline) else "\n"
            if not isinstance(piece, str):
                places.append((len(text), len(text) + len(shown)))
            text += shown
        return Part(text, tuple(places))


def _split(tokens: Sequence[str], limit: int, counting: Counting, *, quotes: bool) -> Iterator[str]:
    """Yield the characters in blocks that fit into one message each, cut at the end of a line if that leaves
    half a block. White space at the edges of a block is written as code points."""
    around = texts.part_heading(99, 99) + texts.end_of_part()
    room = limit - width(around, counting) - _EDGES
    if room < SMALLEST_LIMIT:
        raise NotShown("a message here is too short for it")
    prefix = width(QUOTED, counting) if quotes else 0
    widths = [width(one, counting) + (prefix if one == "\n" else 0) for one in tokens]
    start = 0
    while start < len(tokens):
        end, wide, line_end = start, 0, start
        while end < len(tokens) and (wide := wide + widths[end]) <= room:
            end += 1
            if tokens[end - 1] == "\n" and wide > room // 2:
                line_end = end
        if end < len(tokens) and line_end > start:
            end = line_end
        block = list(tokens[start:end])
        for edge in (0, -1):
            if block[edge] in (" ", "\n"):
                block[edge] = _code_point(block[edge])
        yield "".join(block)
        start = end
