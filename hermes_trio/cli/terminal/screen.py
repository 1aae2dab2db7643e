"""The output of the terminal: parts of a conversation become text, rendered or plain."""

from __future__ import annotations

import sys
from typing import Protocol

from ..terminal_output import visible
from .conversation import Part
from .line_editor import PROMPT, LineEditor
from .rendering import GrowingMarkdown, Renderer

BELL = "\a"
STYLES = {"tool": "dim", "note": "dim", "problem": "red", "question": "bold yellow", "person": "bold"}


class Screen(Protocol):
    """Shows parts."""

    def show(self, part: Part) -> None:
        """Show a part."""

    def show_state(self, text: str) -> None:
        """Show a line about the state, in place of the last one."""


class DrawnScreen:
    """A terminal on which the editor draws: complete blocks of an answer are rendered, and its last block
    grows above the input line."""

    def __init__(self, editor: LineEditor) -> None:
        self._editor, self._renderer = editor, Renderer()
        self._answer, self._state = GrowingMarkdown(), ""

    def show(self, part: Part) -> None:
        if part.kind == "piece":
            self._show_markdown(self._answer.add(visible(part.text)))
        else:
            self._show_markdown(self._answer.take())
            if part.kind == "answer":
                self._show_markdown(visible(part.text))
            elif part.kind == "person":
                self._editor.write(self._renderer.styled(f"{PROMPT}{part.text}", STYLES["person"]) + "\n")
            elif part.kind != "end":
                bell = BELL if part.kind == "question" else ""
                end = "\n" if part.kind == "tool" else "\n\n"
                self._editor.write(
                    bell
                    + self._renderer.styled(part.text, STYLES[part.kind], wraps=part.kind == "note")
                    + end
                )
        self._draw()

    def show_state(self, text: str) -> None:
        self._state = text
        self._draw()

    def _show_markdown(self, text: str) -> None:
        if text.strip():
            self._editor.write(self._renderer.markdown(text))

    def _draw(self) -> None:
        self._editor.draw(self._answer.rest, self._state)


class PlainScreen:
    """A terminal that draws nothing: text as it comes, and a prompt after it."""

    def __init__(self, editor: LineEditor) -> None:
        self._editor = editor
        self._in_line = False
        """True if the last line is not complete."""

    def show(self, part: Part) -> None:
        if part.kind == "piece":
            self._write(visible(part.text))
        elif part.kind == "end":
            self._write(f"\n{PROMPT}" if self._in_line else PROMPT)
            self._in_line = False
        else:
            before = f"{PROMPT}" if part.kind == "person" else ""
            self._write(("\n" if self._in_line else "") + before + visible(part.text) + "\n")
            if part.kind == "question":
                self._write(PROMPT)

    def show_state(self, text: str) -> None:
        pass

    def _write(self, text: str) -> None:
        self._editor.write(text)
        self._in_line = bool(text) and not text.endswith(("\n", PROMPT))


class PipeScreen:
    """An output for other programs: the text of the answers, and everything else on standard error."""

    def __init__(self) -> None:
        self._ends_line = True

    def show(self, part: Part) -> None:
        if part.kind in ("piece", "answer"):
            sys.stdout.write(visible(part.text))
            sys.stdout.flush()
            self._ends_line = part.text.endswith("\n")
        elif part.kind in ("end", "tool") and not self._ends_line:
            sys.stdout.write("\n")
            sys.stdout.flush()
            self._ends_line = True
        elif part.kind == "problem":
            sys.stderr.write(f"{visible(part.text)}\n")

    def show_state(self, text: str) -> None:
        pass


def screen_of(editor: LineEditor) -> Screen:
    """Return the screen for this editor."""
    return DrawnScreen(editor) if editor.draws else PlainScreen(editor)
