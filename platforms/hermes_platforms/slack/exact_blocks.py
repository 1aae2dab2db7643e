"""A block of Slack that shows parts of a text exactly. Its elements have no markup: whatever is written
beside a command, such as its reason, can neither hide a part of the command nor change how it looks."""

from __future__ import annotations

from hermes_trio.platform import Preformatted


def exact_block(text: str, preformatted: Preformatted) -> dict[str, object]:
    """Return a text as one block. Preformatted whole lines are code, other preformatted parts are code within
    their line."""
    parts: list[dict[str, object]] = []
    line: list[dict[str, object]] = []
    at = 0

    def close_line() -> None:
        if line:
            parts.append({"type": "rich_text_section", "elements": line[:]})
            line.clear()

    for start, end in preformatted:
        before, code = text[at:start], text[start:end]
        is_block = text[start - 1 : start] in ("", "\n") and text[end : end + 1] in ("", "\n")
        if is_block and code:
            # The block begins and ends a line by itself.
            line += _elements(before.removesuffix("\n"))
            close_line()
            parts.append({"type": "rich_text_preformatted", "elements": _elements(code)})
            end += text[end : end + 1] == "\n"
        else:
            line += [*_elements(before), *({**one, "style": {"code": True}} for one in _elements(code))]
        at = end
    line += _elements(text[at:])
    close_line()
    return {"type": "rich_text", "elements": parts}


def _elements(text: str) -> list[dict[str, object]]:
    return [{"type": "text", "text": text}] if text else []
