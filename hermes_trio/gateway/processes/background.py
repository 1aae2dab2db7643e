"""Background processes of all sessions, and the output watches that a turn has left behind.

A background process belongs to its session. It is a task in the background nursery, and ends on its own, by
the agent, with its session, or with the gateway. An ended process is listed for half an hour.

With `notify` its end begins a turn: a message in the inbox, stored once, in the transaction that notes that
the end was told. That waits until no turn of the session runs, because a running turn may look at the process
itself, and an end that the agent has seen is not told again. The next life tells the ends of processes that
ended with the gateway, from their rows.

An output watch belongs to the turn that started it, and runs in its nursery. An answered turn hands its
watches to the session, where they run until its next turn begins. A match begins a turn: a message in the
inbox, stored once under a name of its own.

This module may touch the inbox, the table of processes and the chats; it knows sessions only as
`SessionWaker`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

import trio

from ...base.errors import GatewayError, StoreError
from ...base.messages import MessageEvent
from ...state.db.engine import Db
from ...state.db.store_retry import stored
from ...state.tables import inbox, processes, sessions
from ...state.tables.session_entry import SessionEntry
from ...tools.background_process import BackgroundProcess, OutputWatch
from ...tools.output import MARGIN, cleaned, latest
from ...tools.sandbox.views import NOTHING, Grants
from ..home.open_home import Home
from ..outbound import texts
from ..outbound.chats import Chats
from .command import Command, CommandRunner, joined

MOST = 64
"""Limit of running processes, and of ended ones that are remembered."""
KEPT_FOR = 1800.0
"""Seconds for which an ended process is listed."""
MOST_EVENTS, EVENTS_WITHIN, SILENCE = 15, 10.0, 30.0
"""After this many matches of all processes within this many seconds, matches are dropped for `SILENCE`
seconds."""
TAIL = 2000
"""Characters of the last output in the message about an end."""


class TooManyProcesses(GatewayError):
    """The limit of background processes is reached."""

    def __init__(self) -> None:
        super().__init__(f"{MOST} background processes are running. End one before you start another.")


class SessionWaker(Protocol):
    """The sessions, as far as a background process needs them."""

    def wake(self, key: str) -> object:
        """Make the session of this key look into its inbox."""

    async def turn_ended(self, key: str) -> None:
        """Wait until no turn of this session runs."""


class Background:
    """The background processes and left-behind watches of a gateway. Lives with the background nursery."""

    def __init__(
        self, home: Home, chats: Chats, commands: CommandRunner, sessions: SessionWaker, nursery: trio.Nursery
    ) -> None:
        self._home, self._chats, self.commands = home, chats, commands
        self._sessions, self._nursery = sessions, nursery
        self._processes: dict[BackgroundProcess, trio.CancelScope] = {}
        self._room = trio.CapacityLimiter(MOST)
        self._watching: dict[str, trio.CancelScope] = {}
        self._events: deque[float] = deque(maxlen=MOST_EVENTS)
        self._silent_until = 0.0

    # --- processes ---

    async def start(
        self,
        entry: SessionEntry,
        command: Command,
        *,
        cwd: Path,
        grants: Grants = NOTHING,
        notify: bool = False,
    ) -> BackgroundProcess:
        """Start a command that goes on after the turn. Raises `TooManyProcesses`, and the errors of
        `CommandRunner.running`."""
        process: BackgroundProcess = await self._nursery.start(self._run, entry, command, cwd, grants, notify)
        return process

    def of_session(self, session_id: str) -> list[BackgroundProcess]:
        """Return the processes of a session, oldest first, including those that ended lately."""
        self._forget_old()
        return [process for process in self._processes if process.session_id == session_id]

    def kill(self, process: BackgroundProcess) -> None:
        """Kill this process and its descendants. The caller knows, so no notification is sent."""
        process.told = True
        if process in self._processes:
            self._processes[process].cancel(reason="ended by its session")

    def kill_all(self, session_id: str) -> None:
        """End the watches of a session and kill all its processes."""
        self.end_watches(session_id)
        for process in self.of_session(session_id):
            self.kill(process)

    async def kill_all_and_wait(self, session_id: str) -> None:
        """Like `kill_all`, and wait until the processes are gone."""
        self.kill_all(session_id)
        for process in self.of_session(session_id):
            await process.over.wait()

    def turn_begins(self, entry: SessionEntry) -> None:
        """End the watches that former turns left behind, and kill the processes of the former sessions of
        this session's key."""
        self.end_watches(entry.session_id)
        for process in list(self._processes):
            if process.session_key == entry.session_key and process.session_id != entry.session_id:
                self.kill_all(process.session_id)

    async def _run(
        self,
        entry: SessionEntry,
        command: Command,
        cwd: Path,
        grants: Grants,
        notify: bool,
        *,
        task_status: trio.TaskStatus[BackgroundProcess] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        world, process_id = self._home.world, f"proc_{self._home.world.new_id()[:12]}"
        try:
            self._room.acquire_nowait()
        except trio.WouldBlock:
            raise TooManyProcesses from None
        process: BackgroundProcess | None = None
        try:
            with trio.CancelScope() as scope:
                async with self.commands.running(
                    entry.session_id,
                    command,
                    cwd=cwd,
                    grants=grants,
                    process_id=process_id,
                    background=True,
                ) as child:
                    process = BackgroundProcess(
                        process_id,
                        entry.session_id,
                        entry.session_key,
                        joined(command),
                        child,
                        world.time(),
                        cwd,
                        notify,
                        grants=grants if self.commands.confines else None,
                    )
                    self._processes[process] = scope
                    task_status.started(process)
                    await child.wait()
        finally:
            self._room.release()
            if process is not None:
                process.ended_at = world.time()
                process.over.set()
        if process is not None:
            await self._tell_end(entry, process)

    async def _tell_end(self, entry: SessionEntry, process: BackgroundProcess) -> None:
        """Tell the chat and the agent that a process has ended on its own."""
        home = self._home
        if process.told:
            with suppress(StoreError):  # the next life then tells it once more
                await home.database.write(processes.note_told, process.id, home.world.time())
        if process.told or entry.origin is None:
            return
        code, command = process.process.exit_code, home.masking(process.command)
        mode = home.config.display.background_process_notifications
        if mode in ("all", "result") or (mode == "error" and code):
            self._chats.notice(entry.origin, texts.process_ended(command, code))
        if process.notify:
            await self._sessions.turn_ended(entry.session_key)
            if not process.told:
                process.told = True
                end = latest(process.last(TAIL + MARGIN), TAIL, home.masking)
                text = texts.process_ended(command, code, process.id, end)
                await self._store_message(
                    entry, processes.end_message_key(process.id), text, ended=process.id
                )

    def _forget_old(self) -> None:
        before = self._home.world.time() - KEPT_FOR
        ended = [(process, process.ended_at) for process in self._processes if process.ended_at is not None]
        for number, (process, ended_at) in enumerate(ended, start=1):
            if ended_at < before or number <= len(ended) - MOST:
                del self._processes[process]

    # --- watches ---

    def take_over(self, entry: SessionEntry, watches: Iterable[OutputWatch]) -> None:
        """Let the watches of an answered turn run in its session, until the next turn begins."""
        running = [watch for watch in watches if not watch.is_over]
        if running:
            scope = self._watching[entry.session_id] = trio.CancelScope()
            self._nursery.start_soon(self._watch, entry, running, scope, name=f"watches {entry.session_key}")

    def end_watches(self, session_id: str) -> None:
        """End the watches that former turns of a session left behind."""
        scope = self._watching.pop(session_id, None)
        if scope is not None:
            scope.cancel(reason="the next turn begins")

    async def _watch(
        self, entry: SessionEntry, watches: Iterable[OutputWatch], scope: trio.CancelScope
    ) -> None:
        found = trio.open_memory_channel[tuple[str, str]](MOST_EVENTS)
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, entry, found[1])
                with found[0]:
                    async with trio.open_nursery() as watching:
                        for watch in watches:
                            watching.start_soon(watch.run, self._match_callback(watch, found[0]))
        if self._watching.get(entry.session_id) is scope:
            del self._watching[entry.session_id]

    def _match_callback(
        self, watch: OutputWatch, into: trio.MemorySendChannel[tuple[str, str]]
    ) -> Callable[[str], None]:
        def store_match(text: str) -> None:
            match = self.admit_match(text)
            if match is not None:
                try:
                    into.send_nowait((f"match:{watch.background.id}:{watch.told}", match))
                except trio.WouldBlock:
                    return  # more matches than the agent can read

        return store_match

    async def _pass_on(self, entry: SessionEntry, found: trio.MemoryReceiveChannel[tuple[str, str]]) -> None:
        async for name, text in found:
            await self._store_message(entry, name, text)

    def admit_match(self, text: str) -> str | None:
        """Return the text of a match, with secrets masked; None while too many matches arrive."""
        now = trio.current_time()
        if now < self._silent_until:
            return None
        self._events.append(now)
        if len(self._events) == MOST_EVENTS and now - self._events[0] <= EVENTS_WITHIN:
            self._silent_until = now + SILENCE
        return self._read(text)

    # --- messages to the agent ---

    def describe(self, row: processes.ProcessRow) -> str:
        """Return one line about a process of a former life."""
        code = "" if row.exit_code is None else f", exit code {row.exit_code}"
        return f"{row.process_id} ({self._read(row.command)[:100]!r}{code})"

    def _read(self, output: str) -> str:
        return cleaned(output, self._home.masking)

    async def _store_message(
        self, entry: SessionEntry, name: str, text: str, *, ended: str | None = None
    ) -> None:
        """Store a message to a session once, as if a person had written it; retry while the disk is full.
        `ended` is the id of the process whose end it reports."""
        home = self._home
        if entry.origin is None:
            return
        event = MessageEvent(entry.origin, text, kind="internal")
        store = partial(home.database.write, _store, entry, event, name, home.world.time(), ended)
        await stored("message of a background process", store, name=name)
        self._sessions.wake(entry.session_key)


def _store(db: Db, entry: SessionEntry, event: MessageEvent, name: str, at: float, ended: str | None) -> None:
    """Store a message for a session, unless the session is over or its agent knows of the end already."""
    if ended is not None and not processes.note_told(db, ended, at):
        return  # the agent saw it in the list of processes of a former life
    current = sessions.open_by_key(db, entry.session_key)
    if current is not None and current.session_id == entry.session_id:
        inbox.store(db, event, session_key=entry.session_key, own_key=name, at=at, message_key=name)
