"""The background processes of all sessions, and the watches that a turn has left behind.

A process belongs to its session: it is a task under `background` and ends by itself, when somebody ends
it, with its session, or when the gateway goes. Who has ended by itself is known for half an hour more.

Its end begins a turn, if that was asked for: as a message in the inbox, once, and in one step with the note
that it was told. It waits until no turn of the session runs, because a running one may ask for itself;
whoever has seen the end is not told of it, also where the message waits already. What ended with the
gateway is told by the next life, from the rows.

A watch belongs to the turn that asked for it, and runs in its nursery. A turn that was answered hands it to
the session, where it runs until the next turn begins. What it finds there begins a turn: as a message in the
inbox, under a name of its own, once.
"""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ...base.errors import GatewayError, StoreError
from ...base.messages import MessageEvent
from ...log import Log
from ...state.tables import inbox, processes, sessions
from ...state.tables.session_entry import SessionEntry
from ...tools.background_process import Kept, Watch
from ...tools.output import MARGIN, cleaned, latest
from ..outbound import texts
from .command import Command, process_of

if TYPE_CHECKING:
    from ..parts import Gateway

MOST = 64
"""So many run at a time, and so many of those that have ended are remembered."""
KEPT_FOR = 1800.0
"""Seconds for which an ended process can still be asked for."""
MOST_EVENTS, EVENTS_WITHIN, SILENCE = 15, 10.0, 30.0
"""So many matches in so many seconds, of all processes together, bring so many seconds of silence."""
TAIL = 2000
STORE_AGAIN_AFTER = 30.0

log = Log(__name__)


class TooManyProcesses(GatewayError):
    """There is no room for another background process."""

    def __init__(self) -> None:
        super().__init__(f"{MOST} background processes are running. End one before you start another.")


class Background:
    """What runs in the background. Lives with the nursery of that name."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self._gateway, self._nursery = gateway, nursery
        self._kept: dict[Kept, trio.CancelScope] = {}
        self._room = trio.CapacityLimiter(MOST)
        self._watching: dict[str, trio.CancelScope] = {}
        self._events: deque[float] = deque(maxlen=MOST_EVENTS)
        self._silent_until = 0.0

    # --- processes ---

    async def start(
        self, entry: SessionEntry, command: Command, *, cwd: Path | None = None, notify: bool = False
    ) -> Kept:
        """Start a command that goes on when the turn is over. Raises what `running` raises, and
        `TooManyProcesses`."""
        kept: Kept = await self._nursery.start(self._run, entry, command, cwd, notify)
        return kept

    def of(self, session_id: str) -> list[Kept]:
        """Those of a session, the oldest first, also who has ended not long ago."""
        self._forget_old()
        return [kept for kept in self._kept if kept.session_id == session_id]

    def end(self, kept: Kept) -> None:
        """End one of them, with all that came of it. Whoever does so knows of the end."""
        kept.told = True
        if kept in self._kept:
            self._kept[kept].cancel(reason="somebody ended it")

    def end_of(self, session_id: str) -> None:
        """End all that a session has, which ends itself."""
        self.end_watches(session_id)
        for kept in self.of(session_id):
            self.end(kept)

    async def ended_of(self, session_id: str) -> None:
        """As `end_of`, and wait until they are gone."""
        self.end_of(session_id)
        for kept in self.of(session_id):
            await kept.over.wait()

    def end_former(self, entry: SessionEntry) -> None:
        """End what the sessions had that were in this one's place before."""
        for kept in list(self._kept):
            if kept.session_key == entry.session_key and kept.session_id != entry.session_id:
                self.end_of(kept.session_id)

    async def _run(
        self,
        entry: SessionEntry,
        command: Command,
        cwd: Path | None,
        notify: bool,
        *,
        task_status: trio.TaskStatus[Kept] = trio.TASK_STATUS_IGNORED,
    ) -> None:
        gateway, process_id = self._gateway, f"proc_{self._gateway.world.new_id()[:12]}"
        try:
            self._room.acquire_nowait()
        except trio.WouldBlock:
            raise TooManyProcesses from None
        kept: Kept | None = None
        try:
            with trio.CancelScope() as scope:
                async with process_of(
                    gateway, entry.session_id, command, cwd=cwd, process_id=process_id, background=True
                ) as process:
                    said = command if isinstance(command, str) else " ".join(command)
                    at = gateway.world.time()
                    where = cwd or Path.cwd()
                    kept = Kept(
                        process_id, entry.session_id, entry.session_key, said, process, at, where, notify
                    )
                    self._kept[kept] = scope
                    task_status.started(kept)
                    await process.wait()
        finally:
            self._room.release()
            if kept is not None:
                kept.ended_at = gateway.world.time()
                kept.over.set()
        if kept is not None:
            await self._tell_end(entry, kept)

    async def _tell_end(self, entry: SessionEntry, kept: Kept) -> None:
        """A process has ended: the chat may want to know, and the model, if that was by itself."""
        if kept.told:
            with suppress(StoreError):  # then the next life tells it once more
                await self._gateway.database.write(processes.tell, kept.id, self._gateway.world.time())
        if kept.told or entry.origin is None:
            return
        code, command = kept.process.exit_code, self._gateway.masking(kept.command)
        mode = self._gateway.config.display.background_process_notifications
        if mode in ("all", "result") or (mode == "error" and code):
            text = texts.process_ended(command, code)
            self._gateway.lane_of(entry.origin).notice(text, thread_id=entry.origin.thread_id)
        if kept.notify:
            await self._no_turn_runs(entry.session_key)
            if not kept.told:
                kept.told = True
                end = latest(kept.last(TAIL + MARGIN), TAIL, self._gateway.masking)
                text = texts.process_ended(command, code, kept.id, end)
                await self._into_inbox(entry, processes.told_as(kept.id), text, ended=kept.id)

    async def _no_turn_runs(self, session_key: str) -> None:
        """Wait until no turn of this session runs."""
        free = trio.Event()

        async def job() -> None:
            free.set()

        await self._gateway.sessions.after_turn(session_key, job)
        await free.wait()

    def _forget_old(self) -> None:
        before = self._gateway.world.time() - KEPT_FOR
        ended = [(kept, kept.ended_at) for kept in self._kept if kept.ended_at is not None]
        for number, (kept, ended_at) in enumerate(ended, start=1):
            if ended_at < before or number <= len(ended) - MOST:
                del self._kept[kept]

    # --- watches ---

    def take_over(self, entry: SessionEntry, watches: Iterable[Watch]) -> None:
        """A turn was answered: its watches are the session's, until its next turn begins."""
        left = [watch for watch in watches if not watch.is_over]
        if left:
            scope = self._watching[entry.session_id] = trio.CancelScope()
            self._nursery.start_soon(self._watch, entry, left, scope, name=f"watches {entry.session_key}")

    def end_watches(self, session_id: str) -> None:
        """A turn begins: whatever was watched for before it is not watched for any more."""
        scope = self._watching.pop(session_id, None)
        if scope is not None:
            scope.cancel(reason="the next turn begins")

    async def _watch(self, entry: SessionEntry, watches: Iterable[Watch], scope: trio.CancelScope) -> None:
        found = trio.open_memory_channel[tuple[str, str]](MOST_EVENTS)
        with scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, entry, found[1])
                with found[0]:
                    async with trio.open_nursery() as watching:
                        for watch in watches:
                            watching.start_soon(watch.run, self._teller(watch, found[0]))
        if self._watching.get(entry.session_id) is scope:
            del self._watching[entry.session_id]

    def _teller(self, watch: Watch, into: trio.MemorySendChannel[tuple[str, str]]) -> Callable[[str], None]:
        def tell(text: str) -> None:
            heard = self.heard(text)
            if heard is not None:
                try:
                    into.send_nowait((f"match:{watch.kept.id}:{watch.told}", heard))
                except trio.WouldBlock:
                    return  # it says more than anybody can hear

        return tell

    async def _pass_on(self, entry: SessionEntry, found: trio.MemoryReceiveChannel[tuple[str, str]]) -> None:
        async for name, text in found:
            await self._into_inbox(entry, name, text)

    def heard(self, text: str) -> str | None:
        """What a watch has found, as it may be told; None where everything matches all the time."""
        now = trio.current_time()
        if now < self._silent_until:
            return None
        self._events.append(now)
        if len(self._events) == MOST_EVENTS and now - self._events[0] <= EVENTS_WITHIN:
            self._silent_until = now + SILENCE
        return self._read(text)

    # --- what is told ---

    def named(self, process: processes.ProcessRow) -> str:
        """A process of a former life, in one line."""
        code = "" if process.exit_code is None else f", exit code {process.exit_code}"
        return f"{process.process_id} ({self._read(process.command)[:100]!r}{code})"

    def _read(self, output: str) -> str:
        return cleaned(output, self._gateway.masking)

    async def _into_inbox(
        self, entry: SessionEntry, name: str, text: str, *, ended: str | None = None
    ) -> None:
        """Let a session hear of something as if somebody had said it there, once; `ended` is the process
        of whose end it hears. On a full disk that waits."""
        gateway = self._gateway
        if entry.origin is None:
            return
        event = MessageEvent(entry.origin, text, kind="internal")
        while True:
            try:
                await gateway.database.write(_store, entry, event, name, gateway.world.time(), ended)
            except StoreError as error:
                log.error("what a process did cannot be told; trying again", name=name, error=str(error))
            else:
                break
            await trio.sleep(STORE_AGAIN_AFTER)
        gateway.sessions.wake(entry.session_key)


def _store(
    db: sqlite3.Connection, entry: SessionEntry, event: MessageEvent, name: str, at: float, ended: str | None
) -> None:
    """A step of the database: nobody is told in the place of a session that is over."""
    if ended is not None and not processes.tell(db, ended, at):
        return  # whoever looked at what is known of former processes has seen it
    there = sessions.open_by_key(db, entry.session_key)
    if there is not None and there.session_id == entry.session_id:
        inbox.store(db, event, session_key=entry.session_key, own_key=name, at=at, message_key=name)
