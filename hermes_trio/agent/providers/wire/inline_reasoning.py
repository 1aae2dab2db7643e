"""Reasoning inside the text of an answer, for servers that do not separate it: the answer begins with a tag,
and the text up to the closing tag is reasoning. A tag may arrive in pieces."""

from __future__ import annotations

from ..model import ReasoningDelta, TextDelta

_OPENING, _CLOSING = "<think>", "</think>"

Delta = ReasoningDelta | TextDelta


class InlineReasoning:
    """Separates reasoning from the answer, piece by piece."""

    def __init__(self) -> None:
        self._waits_for: str | None = _OPENING
        """The next tag that may come; None when all further text is the answer."""
        self._held = ""
        """Text that may be the beginning of that tag."""
        self._is_fresh = True
        """True while the answer has no text but white space."""

    def feed(self, text: str) -> list[Delta]:
        """Add a piece of text; return the parts that are known to be reasoning or answer."""
        text, self._held = self._held + text, ""
        items: list[Delta] = []
        if self._waits_for == _OPENING:
            begun = text.lstrip()
            if len(begun) < len(_OPENING) and _OPENING.startswith(begun):
                self._held = text
                return []
            if begun.startswith(_OPENING):
                self._waits_for, text = _CLOSING, begun.removeprefix(_OPENING)
            else:
                self._waits_for, self._is_fresh = None, False
        if self._waits_for == _CLOSING:
            thought, closing, text = text.partition(_CLOSING)
            if not closing:
                kept = max(size for size in range(len(_CLOSING)) if thought.endswith(_CLOSING[:size]))
                thought, self._held = thought[: len(thought) - kept], thought[len(thought) - kept :]
            else:
                self._waits_for = None
            items += [ReasoningDelta(thought)] if thought else []
        if self._is_fresh:  # white space between reasoning and answer belongs to neither
            text = text.lstrip()
            self._is_fresh = not text
        return [*items, TextDelta(text)] if text else items

    def end(self) -> list[Delta]:
        """End the text; return the part that was held back."""
        if not self._held:
            return []
        return [TextDelta(self._held) if self._waits_for == _OPENING else ReasoningDelta(self._held)]
