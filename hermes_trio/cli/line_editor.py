"""The input line of a terminal: prompt_toolkit edits it, in a separate thread.

A terminal in its usual (canonical) mode cuts a line at 4,095 bytes and delivers a pasted text line by line.
So the keys are read in raw mode, with bracketed paste: a pasted text is inserted whole, and Enter sends it.
We use prompt_toolkit because the alternative is our own editor (echo, wide characters, cursor keys, wrapped
lines).

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
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.output import DummyOutput, create_output
from prompt_toolkit.utils import is_dumb_terminal

from ..host.loop.scoped_task import beside
from ..host.loop.terminal_mode import restored_terminal
from .console import PROMPT

CLOSES_WITHIN = 2.0
"""Seconds for the editor to restore the terminal. A terminal that was stopped with Ctrl-S accepts no
output."""
DRAWN = 2000
"""Characters of a sent text that stay on the screen, and of a line of an answer while it grows."""


class LineEditor:
    """Reads messages from the keyboard, and writes text above the input line."""

    def __init__(self) -> None:
        self._typed, self._messages = trio.open_memory_channel[str](math.inf)
        self.draws = sys.stdout.isatty() and not is_dumb_terminal()
        """True if the input line is drawn, with its prompt; otherwise characters are only echoed."""
        bindings = KeyBindings()
        bindings.add("c-c", eager=True)(_interrupt)
        output = create_output() if self.draws else DummyOutput()
        # Each drawing would switch bracketed paste off for a moment, and a paste in that moment would be
        # split.
        self._end_bracketed_paste = output.disable_bracketed_paste
        output.disable_bracketed_paste = _do_nothing  # type: ignore[method-assign]
        self._session = PromptSession[None](
            self._prompt, key_bindings=bindings, enable_suspend=True, output=output
        )
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

    # --- for the gateway ---

    async def read(self) -> str | None:
        """Return the next message, or None after the last one."""
        try:
            return await self._messages.receive()
        except trio.EndOfChannel:
            return None

    def write(self, text: str) -> None:
        """Show a text. A line appears above the input line when it is complete."""
        with self._lock:
            self._unshown += text
            if self._loop is not None and self.draws:
                with suppress(RuntimeError):  # the loop was just closed; its thread shows the rest
                    self._loop.call_soon_threadsafe(self._show_above)
                return
        self._show()

    def flush(self) -> None:
        """Do nothing: a written text is shown without a flush."""

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

    def _prompt(self) -> str:
        begun = self._unshown.rpartition("\n")[2][-DRAWN:]
        return f"{begun}\n{PROMPT}" if begun else PROMPT

    def _accept(self, buffer: Buffer) -> bool:
        if self.draws:
            begun, more = self._unshown.rpartition("\n")[2], len(buffer.text) - DRAWN
            rest = f"… ({more:,} more characters)" if more > 0 else ""
            self.write(("\n" if begun else "") + PROMPT + buffer.text[:DRAWN] + rest)
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
            self._screen.write(text)
            self._screen.flush()


def _interrupt(event: KeyPressEvent) -> None:
    """Clear the input line with Ctrl-C. On an empty line raise SIGINT, as in any other program."""
    if event.current_buffer.text:
        event.current_buffer.reset()
    else:
        signal.raise_signal(signal.SIGINT)


def _do_nothing() -> None:
    """Do nothing."""


def _echo(buffer: Buffer) -> None:
    """Show the last character that was typed."""
    sys.stdout.write(buffer.document.text_before_cursor[-1:])
    sys.stdout.flush()


@asynccontextmanager
async def open_line_editor() -> AsyncIterator[LineEditor]:
    """Open a line editor on this terminal for the block. After the block the terminal is in its former mode,
    whatever ended the block."""
    with restored_terminal(sys.stdin.fileno()):
        editor, started = LineEditor(), trio.Event()
        async with beside(partial(editor.run, started)):
            await started.wait()
            yield editor
