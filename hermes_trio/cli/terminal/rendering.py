"""Markdown as text for a terminal, with colours.

What a model writes is masked for the terminal twice: before it is parsed, and after it, because Markdown has
entities for control characters (`&#27;`). Only styles that are chosen here become escape sequences.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable

from markdown_it import MarkdownIt
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import CodeBlock, Heading, Markdown
from rich.padding import Padding
from rich.segment import Segment
from rich.syntax import Syntax
from rich.text import Text
from rich.theme import Theme

from ..terminal_output import visible

CODE_THEME = "ansi_dark"
"""The sixteen colours of the terminal, so that code can be read on a dark and on a light background."""
WIDEST = 100
"""Columns of a paragraph. Longer lines are hard to read."""
NARROWEST = 20
_STYLES = Theme(
    {"markdown.code": "bold cyan", "markdown.table.border": "dim", "markdown.table.header": "bold"}
)
"""Where a style of the library has a background: a terminal may be light."""


class _Heading(Heading):
    """A heading at the left margin. The one of the library is centred, in a box."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        self.text.justify = "left"
        self.text.stylize("bold" if self.tag != "h1" else "bold underline")
        yield self.text


class _Code(CodeBlock):
    """Code without borders, blanks and breaks of our own, so that it can be copied from the screen."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = Syntax("", self.lexer_name, theme=self.theme).highlight(str(self.text).rstrip())
        code.no_wrap, code.overflow = True, "ignore"
        code.rstrip()
        yield Padding(code, (0, 0, 0, 2))


class _Answer(Markdown):
    """Markdown in which a line of a paragraph stays a line, as in a chat."""

    elements = {  # noqa: RUF012 - the name and the type of the base class
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
    }

    def __init__(self, text: str) -> None:
        super().__init__(text, code_theme=CODE_THEME, hyperlinks=False)
        for token in self.parsed:
            for child in token.children or ():
                child.type = "hardbreak" if child.type == "softbreak" else child.type


class Renderer:
    """Makes the text that a terminal is sent. Without `colours` there is no escape sequence in it."""

    def __init__(self, *, colours: bool = True) -> None:
        self._colours = colours

    def markdown(self, text: str) -> str:
        """Return the rendered Markdown, with a blank line after it."""
        console = self._console()
        parsed = _Answer(visible(text))
        options = console.options.update(max_width=min(console.width, WIDEST))
        rendered = self._sent(console, console.render(parsed, options))
        return "\n".join(line.rstrip() for line in rendered.strip("\n").split("\n")) + "\n\n"

    def styled(self, text: str, style: str, *, wraps: bool = False) -> str:
        """Return a text in one style, unchanged but for its control characters. With `wraps` its lines are
        broken between words."""
        console = self._console()
        line = Text(visible(text), style=style, end="")
        whole = console.options.update(no_wrap=True, overflow="ignore", max_width=1_000_000)
        return self._sent(console, console.render(line, console.options if wraps else whole))

    def _console(self) -> Console:
        width = max(NARROWEST, shutil.get_terminal_size().columns)
        return Console(width=width, force_terminal=True, legacy_windows=False, theme=_STYLES)

    def _sent(self, console: Console, segments: Iterable[Segment]) -> str:
        """Return the segments as a terminal is sent them."""
        system = console._color_system if self._colours else None
        return "".join(
            visible(text)
            if style is None or not self._colours
            else style.render(visible(text), color_system=system)
            for text, style, control in segments
            if not control
        )


_BLOCKS = MarkdownIt("commonmark").enable("table")
_BLOCKS.core.ruler.enableOnly(["normalize", "block"])


class GrowingMarkdown:
    """A Markdown text that grows. Its blocks (paragraphs, lists, code) are taken when they are complete: a
    rendered block is never changed later, and the last block may still become something else."""

    def __init__(self) -> None:
        self.rest = ""
        """The text that is not taken yet."""
        self._looked_at = 0
        """The length of the rest when it was last looked at. A long block is not read again for each line."""

    def add(self, text: str) -> str:
        """Add a text, and return the blocks that are complete now."""
        self.rest += text
        # A block begins on a line of its own.
        if "\n" not in text or len(self.rest) < self._looked_at * 17 // 16:
            return ""
        lines = self.rest.split("\n")
        begin = next(
            (token.map[0] for token in reversed(_BLOCKS.parse(self.rest)) if token.level == 0 and token.map),
            0,
        )
        # The library counts the lines as we do: carriage returns are escaped before.
        complete, self.rest = "\n".join(lines[:begin]), "\n".join(lines[begin:])
        self._looked_at = len(self.rest)
        return complete

    def take(self) -> str:
        """Return the rest. The text has ended."""
        rest, self.rest, self._looked_at = self.rest, "", 0
        return rest
