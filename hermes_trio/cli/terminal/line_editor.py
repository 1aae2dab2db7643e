"""The input line of a terminal: prompt_toolkit edits it, in a separate thread.

A terminal in its usual (canonical) mode cuts a line at 4,095 bytes and delivers a pasted text line by line.
So the keys are read in raw mode, with bracketed paste: a pasted text is inserted whole, and Enter sends it.
We use prompt_toolkit because the alternative is our own editor (echo, wide characters, cursor keys, wrapped
lines).

Enter sends, and Alt-Enter or Ctrl-J begins a new line. Above the input line grows what is not complete yet,
and a line tells the state; both are drawn by the editor, and never stay on the screen. The library's own line
at the bottom was rejected: only terminals that tell the position of their cursor show it.

The editor runs, and the terminal is in raw mode, from `open_line_editor` to the end of its block. One editor
serves the whole chat: between two messages the terminal never returns to canonical mode, in which the rest of
a paste would be cut. For the same reason output is written between two drawings of the input line and not
with `run_in_terminal`, which leaves raw mode for a moment.
"""

from __future__ import annotations

import asyncio
import math
import signal
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial

import trio
from prompt_toolkit import PromptSession
from prompt_toolkit.application import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer
from prompt_toolkit.filters import Condition
from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.history import History
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import DummyOutput, Output, create_output
from prompt_toolkit.styles import Style
from prompt_toolkit.utils import is_dumb_terminal

from ...host.loop.scoped_task import beside
from ...host.loop.terminal_mode import restored_terminal
from ..terminal_output import visible
from .completion import is_command

PROMPT = "> "

CLOSES_WITHIN = 2.0
"""Seconds for the editor to restore the terminal. A terminal that was stopped with Ctrl-S accepts no
output."""
DRAWN = 2000
"""Characters of a sent text that stay on the screen, and of a line of an answer while it grows."""
GROWN_LINES = 8
"""Lines of an incomplete text that are shown while it grows."""
REDRAWN_EVERY = 0.04
"""Seconds between two drawings, at least."""
_STYLE = Style.from_dict({"state": "ansibrightblack", "growing": "ansibrightblack"})


class LineEditor:
    """Reads messages from the keyboard, and writes text above the input line."""

    def __init__(self, history: History | None = None, completer: Completer | None = None) -> None:
        self._typed, self._messages = trio.open_memory_channel[str](math.inf)
        self.draws = sys.stdout.isatty() and not is_dumb_terminal()
        """True if the input line is drawn, with its prompt; otherwise characters are only echoed."""
        bindings = KeyBindings()
        bindings.add("c-c", eager=True)(_interrupt)
        bindings.add("escape", "enter")(_new_line)
        bindings.add("c-j")(_new_line)
        output = create_output() if self.draws else DummyOutput()
        # Each drawing would switch bracketed paste off for a moment, and a paste in that moment would be
        # split.
        self._end_bracketed_paste = output.disable_bracketed_paste
        output.disable_bracketed_paste = _do_nothing  # type: ignore[method-assign]
        self._session = PromptSession[None](
            self._prompt,
            key_bindings=bindings,
            enable_suspend=True,
            output=output,
            history=history,
            completer=completer,
            complete_while_typing=Condition(lambda: is_command(get_app().current_buffer.text)),
            prompt_continuation=_continuation,
            style=_STYLE,
        )
        self._session.app.min_redraw_interval = REDRAWN_EVERY
        self._screen = output if self.draws else sys.stdout
        buffer = self._session.default_buffer
        buffer.accept_handler = self._accept
        if not self.draws:
            buffer.on_text_insert += _echo
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop in the thread, while the editor runs."""
        self._send: Callable[[str], None] = self._typed.send_nowait
        """Send a typed message to the gateway; replaced while the thread runs."""
        self._lock = threading.Lock()
        self._unshown = ""
        """Text that is not on the screen yet. An unfinished line is drawn above the prompt."""
        self._grown = self._state = ""
        """Lines above the input line: state and growing text."""

    # --- for the gateway ---

    async def read(self) -> str | None:
        """Return the next message, or None after the last one."""
        try:
            return await self._messages.receive()
        except trio.EndOfChannel:
            return None

    def write(self, text: str) -> None:
        """Show a text, in which only escape sequences of ours are left. A line appears above the input line
        when it is complete."""
        with self._lock:
            self._unshown += text
            if self._loop is not None and self.draws:
                with suppress(RuntimeError):  # the loop was just closed; its thread shows the rest
                    self._loop.call_soon_threadsafe(self._show_above)
                return
        self._show()

    def flush(self) -> None:
        """Do nothing: a written text is shown without a flush."""

    def draw(self, grown: str, state: str) -> None:
        """Draw the last lines of a text that still grows, and the state, above the input line."""
        with self._lock:
            if (grown, state) == (self._grown, self._state):
                return
            self._grown, self._state = grown, state
            if self._loop is not None and self.draws:
                with suppress(RuntimeError):  # the loop was just closed
                    self._loop.call_soon_threadsafe(self._session.app.invalidate)

    async def run(self, started: trio.Event) -> None:
        """Run the editor until the input ends or the task is cancelled."""
        token, ended = trio.lowlevel.current_trio_token(), trio.Event()

        def call_soon(function: Callable[[], object]) -> None:
            with suppress(trio.RunFinishedError):
                token.run_sync_soon(function)

        try:
            await trio.to_thread.run_sync(
                self._edit,
                lambda text: call_soon(partial(self._typed.send_nowait, text)),
                lambda: call_soon(started.set),
                lambda: call_soon(ended.set),
                abandon_on_cancel=True,
            )
            if self._session.input.closed:
                signal.raise_signal(signal.SIGTERM)  # the terminal was closed; Ctrl-D was not pressed
            else:
                self._typed.close()
        finally:
            self._close()
            with trio.move_on_after(CLOSES_WITHIN, shield=True):
                await ended.wait()

    # --- in the thread ---

    def _edit(
        self, typed: Callable[[str], None], started: Callable[[], None], ended: Callable[[], None]
    ) -> None:
        def begin() -> None:
            self._loop = asyncio.get_running_loop()
            started()

        self._send = typed
        try:
            with suppress(EOFError):
                self._session.prompt(pre_run=begin, handle_sigint=False, set_exception_handler=False)
        finally:
            with self._lock:
                self._loop = None
            try:
                with suppress(OSError):  # the terminal was closed
                    self._end_bracketed_paste()
                    self._session.output.flush()
                    self._show()
            finally:
                started()
                ended()

    def _close(self) -> None:
        with self._lock:
            if self._loop is not None:
                with suppress(RuntimeError):  # the loop was just closed
                    self._loop.call_soon_threadsafe(self._leave)

    def _leave(self) -> None:
        app = self._session.app
        if app.future is not None and not app.future.done():
            app.exit(exception=EOFError)

    def _prompt(self) -> StyleAndTextTuples:
        begun = self._unshown.rpartition("\n")[2][-DRAWN:]
        grown = "\n".join(visible(self._grown[-DRAWN:]).rstrip("\n").split("\n")[-GROWN_LINES:])
        above = [("", f"{begun}\n")] if begun else [("class:growing", f"{grown}\n\n")] if grown else []
        if self._state:
            width = self._session.output.get_size().columns - 1
            above.append(("class:state", f"{visible(self._state)[:width]}\n"))
        return [*above, ("bold", PROMPT)]

    def _accept(self, buffer: Buffer) -> bool:
        if self.draws:
            begun, more = self._unshown.rpartition("\n")[2], len(buffer.text) - DRAWN
            rest = f"… ({more:,} more characters)" if more > 0 else ""
            self.write(("\n" if begun else "") + PROMPT + _indented(buffer.text[:DRAWN]) + rest)
        self.write("\n")
        self._send(buffer.text)
        return False  # prompt_toolkit clears the input line, and the editor continues

    def _show_above(self) -> None:
        """Show complete lines above the input line, which is drawn again below them."""
        app = self._session.app
        if "\n" in self._unshown and app.is_running:
            app.renderer.erase()
            self._show(whole_lines=True)
        app.invalidate()

    def _show(self, *, whole_lines: bool = False) -> None:
        with self._lock:  # not held while writing: a terminal may be slow
            end = self._unshown.rfind("\n") + 1 if whole_lines else len(self._unshown)
            text, self._unshown = self._unshown[:end], self._unshown[end:]
        if text:
            if isinstance(self._screen, Output):
                self._screen.write_raw(text.replace("\n", "\r\n"))
            else:
                self._screen.write(text)
            self._screen.flush()


def _interrupt(event: KeyPressEvent) -> None:
    """Clear the input line with Ctrl-C. On an empty line raise SIGINT, as in any other program."""
    if event.current_buffer.text:
        event.current_buffer.reset()
    else:
        signal.raise_signal(signal.SIGINT)


def _indented(text: str) -> str:
    """Return a message as it is shown below the prompt."""
    return visible(text).replace("\n", "\n" + " " * len(PROMPT))


def _new_line(event: KeyPressEvent) -> None:
    """Begin a new line of the message."""
    event.current_buffer.insert_text("\n")


def _continuation(width: int, line_number: int, wrap_count: int) -> str:
    """Indent the lines of a message below its first one."""
    return " " * width


def _do_nothing() -> None:
    """Do nothing."""


def _echo(buffer: Buffer) -> None:
    """Show the last character that was typed."""
    sys.stdout.write(buffer.document.text_before_cursor[-1:])
    sys.stdout.flush()


@asynccontextmanager
async def open_line_editor(
    history: History | None = None, completer: Completer | None = None
) -> AsyncIterator[LineEditor]:
    """Open a line editor on this terminal for the block. After the block the terminal is in its former mode,
    whatever ended the block."""
    with restored_terminal(sys.stdin.fileno()):
        editor, started = LineEditor(history, completer), trio.Event()
        async with beside(partial(editor.run, started)):
            await started.wait()
            yield editor
