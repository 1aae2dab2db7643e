"""What a model thinks, told from what it says, where its server does not: then an answer begins with a tag,
and what stands behind it, up to the closing tag, was thought. A tag may come in pieces."""

from __future__ import annotations

from ..model import ReasoningDelta, TextDelta

_OPENING, _CLOSING = "<think>", "</think>"

Said = ReasoningDelta | TextDelta


class InlineReasoning:
    """Takes the text of an answer piece by piece."""

    def __init__(self) -> None:
        self._waits_for: str | None = _OPENING
        """The tag that comes next, if one does; None when all that comes is said."""
        self._held = ""
        """What may be the beginning of it."""
        self._is_fresh = True
        """Nothing but blanks has been said so far."""

    def feed(self, text: str) -> list[Said]:
        """What is known of the text by now."""
        text, self._held = self._held + text, ""
        items: list[Said] = []
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
        if self._is_fresh:  # the blanks between thought and answer are neither
            text = text.lstrip()
            self._is_fresh = not text
        return [*items, TextDelta(text)] if text else items

    def end(self) -> list[Said]:
        """What was held back when nothing more comes."""
        if not self._held:
            return []
        return [TextDelta(self._held) if self._waits_for == _OPENING else ReasoningDelta(self._held)]
