"""The background processes of all sessions, and the watches that a turn has left behind.

A process belongs to its session: it is a task under `background` and ends by itself, when somebody ends
it, with its session, or when the gateway goes. Who has ended by itself is known for half an hour more.

A watch belongs to the turn that asked for it, and runs in its nursery. A turn that was answered hands it to
the session, where it runs until the next turn begins. What it finds there begins a turn, and so does the
end of a process that was to be told: as a message in the inbox, under a name of its own, once.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from ..errors import GatewayError
from ..messages import MessageEvent
from ..state import inbox
from ..state.entry import SessionEntry
from ..tools.kept import Kept, Watch
from . import words
from .processes import Command, process_of

if TYPE_CHECKING:
    from .gateway import Gateway

MOST = 64
KEPT_FOR = 1800.0
"""Seconds for which an ended process can still be asked for."""
MOST_EVENTS, EVENTS_WITHIN, SILENCE = 15, 10.0, 30.0
"""So many matches in so many seconds, of all processes together, bring so many seconds of silence."""
TAIL = 2000


class TooManyProcesses(GatewayError):
    """There is no room for another background process."""

    def __init__(self) -> None:
        super().__init__(f"{MOST} background processes are running. End one before you start another.")


class Background:
    """What runs in the background. Lives with the nursery of that name."""

    def __init__(self, gateway: Gateway, nursery: trio.Nursery) -> None:
        self._gateway, self._nursery = gateway, nursery
        self._kept: dict[Kept, trio.CancelScope] = {}
        self._watching: dict[str, trio.CancelScope] = {}
        self._events: deque[float] = deque(maxlen=MOST_EVENTS)
        self._silent_until = 0.0

    # --- processes ---

    async def start(
        self, entry: SessionEntry, command: Command, *, cwd: Path | None = None, notify: bool = False
    ) -> Kept:
        """Start a command that goes on when the turn is over. Raises what `running` raises, and
        `TooManyProcesses`."""
        self._forget_old()
        if sum(kept.is_running for kept in self._kept) >= MOST:
            raise TooManyProcesses
        kept: Kept = await self._nursery.start(self._run, entry, command, cwd, notify)
        return kept

    def of(self, session_id: str) -> list[Kept]:
        """Those of a session, the oldest first, also who has ended not long ago."""
        self._forget_old()
        return [kept for kept in self._kept if kept.session_id == session_id]

    def end(self, kept: Kept) -> None:
        """End one of them, with all that came of it. Whoever does so knows of the end."""
        kept.told = True
        self._kept[kept].cancel(reason="somebody ended it")

    def end_of(self, session_id: str) -> None:
        """End all that a session has, which ends itself."""
        self.end_watches(session_id)
        for kept in self.of(session_id):
            self.end(kept)

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
        with trio.CancelScope() as scope:
            async with process_of(
                gateway, entry.session_id, command, cwd=cwd, process_id=process_id, background=True
            ) as process:
                said = command if isinstance(command, str) else " ".join(command)
                kept = Kept(process_id, entry.session_id, said, process, gateway.world.time(), notify)
                self._kept[kept] = scope
                task_status.started(kept)
                await process.wait()
        kept.ended_at = gateway.world.time()
        if not kept.told:
            await self._tell_end(entry, kept)

    async def _tell_end(self, entry: SessionEntry, kept: Kept) -> None:
        """A process has ended by itself: the chat may want to know, and the model."""
        code = kept.process.exit_code
        mode = self._gateway.config.display.background_process_notifications
        if entry.origin is not None and (mode in ("all", "result") or (mode == "error" and code)):
            text = words.process_ended(kept.command, code)
            self._gateway.lane_of(entry.origin).notice(text, thread_id=entry.origin.thread_id)
        if kept.notify:
            kept.told = True
            text = words.process_ended(kept.command, code, kept.id, kept.last(TAIL))
            await self._into_inbox(entry, f"ended:{kept.id}", text)

    def _forget_old(self) -> None:
        before = self._gateway.world.time() - KEPT_FOR
        for kept in [kept for kept in self._kept if kept.ended_at is not None and kept.ended_at < before]:
            del self._kept[kept]

    # --- watches ---

    def take_over(self, entry: SessionEntry, watches: Iterable[Watch]) -> None:
        """A turn was answered: its watches are the session's, until its next turn begins."""
        left = [watch for watch in watches if not watch.is_over]
        if left:
            self._nursery.start_soon(self._watch, entry, left, name=f"watches {entry.session_key}")

    def end_watches(self, session_id: str) -> None:
        """A turn begins: whatever was watched for before it is not watched for any more."""
        scope = self._watching.pop(session_id, None)
        if scope is not None:
            scope.cancel(reason="the next turn begins")

    async def _watch(self, entry: SessionEntry, watches: Iterable[Watch]) -> None:
        found = trio.open_memory_channel[tuple[str, str]](MOST_EVENTS)
        with trio.CancelScope() as scope:
            self._watching[entry.session_id] = scope
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._pass_on, entry, found[1])
                with found[0]:
                    async with trio.open_nursery() as watching:
                        for watch in watches:
                            watching.start_soon(watch.run, self._teller(watch, found[0]))

    def _teller(self, watch: Watch, into: trio.MemorySendChannel[tuple[str, str]]) -> Callable[[str], None]:
        def tell(text: str) -> None:
            if self.may_tell():
                try:
                    into.send_nowait((f"match:{watch.kept.id}:{watch.told}", text))
                except trio.WouldBlock:
                    return  # it says more than anybody can hear

        return tell

    async def _pass_on(self, entry: SessionEntry, found: trio.MemoryReceiveChannel[tuple[str, str]]) -> None:
        async for name, text in found:
            await self._into_inbox(entry, name, text)

    def may_tell(self) -> bool:
        """Whether another match may be told now: not where everything matches all the time."""
        now = trio.current_time()
        if now < self._silent_until:
            return False
        self._events.append(now)
        if len(self._events) == MOST_EVENTS and now - self._events[0] <= EVENTS_WITHIN:
            self._silent_until = now + SILENCE
        return True

    async def _into_inbox(self, entry: SessionEntry, name: str, text: str) -> None:
        """Let a session hear of something as if somebody had said it there, once."""
        if entry.origin is None:
            return
        gateway = self._gateway
        event = MessageEvent(entry.origin, text, kind="internal")
        await gateway.database.write(
            inbox.store,
            event,
            session_key=entry.session_key,
            own_key=name,
            at=gateway.world.time(),
            message_key=name,
        )
        gateway.sessions.wake(entry.session_key)
