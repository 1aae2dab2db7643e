"""A random story: actions of people, the agent, the platform, the disk and the clock in several lives of one
home, with a record of all that is visible outside the gateway.

It is played on the virtual clock, with the real store, journals and loop. A kill keeps the files of its
moment: the home is copied between two jobs of its workers, the platform hears nothing more of that life, and
the next life begins with the copy. `database_checks` and `chat_checks` check the promises.
"""

from __future__ import annotations

import itertools
import random
import re
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import trio

from hermes_trio.base.errors import StoreError
from hermes_trio.base.events import MessageDelta
from hermes_trio.base.messages import Attachment, MessageEvent
from hermes_trio.base.world import World
from hermes_trio.gateway.intake.requests import NoTurnsNow, post
from hermes_trio.journal.reader import read_run
from hermes_trio.platform.contract import CredentialsRefused, LinkLost
from tests.gateway.chance.random_life import Life, Platform, Ran
from tests.gateway.chance.random_plan import CHATS, ERRORS, PLATFORMS, Plan, Step
from tests.stage import settled

ENDS = "stop", "restart", "cancel", "kill", "kill early"
START = datetime(2026, 5, 20, 12, 0, tzinfo=UTC)
STOP_MARGIN = 5.0
"""Seconds from the end of the grace to the end of the gateway, at most."""
BEGIN_MARGIN = 20.0
"""Seconds after a release in which all held messages have begun, also with one turn at a time."""


@dataclass
class Story:
    """A story that is being played, with its records."""

    plan: Plan
    root: Path
    problems: list[str] = field(default_factory=list)
    ran: list[Ran] = field(default_factory=list)
    homes: Iterator[int] = field(default_factory=lambda: itertools.count(1))
    healthy: bool = False
    lives: int = 0
    released_at: float = 0.0
    posted: list[str] = field(default_factory=list)
    """Texts of the accepted requests."""
    said: dict[str, list[MessageEvent]] = field(default_factory=dict)
    """Messages in each chat."""

    def __post_init__(self) -> None:
        ids = itertools.count(1)
        self.dice = random.Random(self.plan.seed)  # noqa: S311
        self.world = World(
            now=lambda: START + timedelta(seconds=trio.current_time()),
            new_id=lambda: f"{next(ids):08x}",
            jitter=self.dice.random,
            zone=UTC,
        )
        self.home = self.root / "0"
        self.platform = Platform(PLATFORMS[self.plan.platform], self.check_text)

    def next_home(self) -> None:
        """Copy the home, as the next life would find it now, and continue with the copy."""
        home = self.root / str(next(self.homes))
        shutil.copytree(self.home, home)
        self.home = home

    def check_text(self, text: str) -> None:
        """Check that a text is in the journal before it is shown."""
        found = re.search(r"\[(\w{8})\]", text)
        if found is None or "cannot be written" in text:
            return
        # The chat shows a blank line between two tools, and the journal has none.
        text = (
            text[found.start() :].removesuffix(" ▉").removesuffix("\n\n(interrupted)").partition("\n\n⚠")[0]
        )
        text, known = " ".join(text.split()), " ".join("".join(self._journal_text(found[1])).split())
        returned = [ran.answer for ran in self.ran if ran.run_id == found[1] and ran.answer]
        if not any(one.startswith(text) for one in [known, *returned]):
            self.problems.append(f"shown before it was in the journal: {text!r}; the journal has {known!r}")

    def _journal_text(self, run_id: str) -> Iterator[str]:
        """Yield the text of a run in its journal, in the home of this life."""
        for path in (self.home / "journal").glob(f"*/{run_id}.jsonl"):
            for record in read_run(self.home / "journal", path.parent.name, run_id).records:
                if record.event == MessageDelta.event:
                    yield str(record.payload["delta"])

    async def play(self) -> None:
        """Play all steps, and then a life without trouble until nothing moves any more."""
        steps = list(self.plan.steps)
        while steps:
            await self._life(steps)
        self.healthy = True
        self.platform.end_troubles()
        while self.platform.has_unaccepted:  # a restart command may wait there
            await self._life([("sleep", 5.0)])
        await self._life([("sleep", 7200.0), ("stop", 5)])

    async def last_messages(self) -> None:
        """Play one more life: messages come in each chat during a hold, which is then released; then messages
        come once more, and the life ends during their answers."""
        await self._life(
            [
                *[("hold",), ("last messages",), ("sleep", 60.0), ("release",), ("sleep", BEGIN_MARGIN)],
                *[("last messages",), ("sleep", 2.0), ("stop", 60)],
            ]
        )

    async def silence(self) -> None:
        """Play one more life without messages."""
        await self._life([("sleep", 3600.0), ("stop", 5)])

    async def _life(self, steps: list[Step]) -> None:
        async with trio.open_nursery() as nursery:
            life = Life(self)
            self.lives += 1
            if steps[0][0] == "kill early":
                life.jobs_to_kill = int(steps.pop(0)[1])
            await nursery.start(life.run)
            while steps and not life.killed.is_set():
                step = steps.pop(0)
                if step[0] == "kill early":  # the next life is killed early
                    steps.insert(0, step)
                if step[0] in ENDS:
                    await self._end(life, step)
                    break
                async with trio.open_nursery() as doing:
                    doing.start_soon(_cancel_when, life.over, doing.cancel_scope)
                    await self._do(life, step)
                    doing.cancel_scope.cancel()
            else:
                await self._end(life, ("stop", 0))

    async def _end(self, life: Life, step: Step) -> None:
        if life.gateway is None:
            return
        control, began = life.gateway.control, trio.current_time()
        by = control.end_by
        match step:
            case ("stop", grace):
                life.gateway.stop(grace=float(grace))
            case ("restart", grace):
                life.gateway.stop(grace=float(grace), restart=True)
            case ("cancel",):
                life.scope.cancel()
            case ("kill", 0):
                life.kill()
            case ("kill early", _):
                life.kill()
            case ("kill", jobs):
                life.jobs_to_kill = int(jobs)
                with trio.move_on_after(10):
                    await life.over.wait()
                life.kill()
        if not life.killed.is_set():
            by = min(by, control.end_by, began + STOP_MARGIN if step[0] == "cancel" else by)
        await life.over.wait()
        if trio.current_time() > max(by, began) + 0.001 and not life.killed.is_set():
            self.problems.append(f"{step} took {trio.current_time() - began} s")

    async def _do(self, life: Life, step: Step) -> None:
        platform = self.platform
        match step:
            case ("says", str(chat), str(text)):
                self._says(chat, text)
            case ("photo", str(chat), str(text)):
                file = Attachment("photo", "a.jpg", file_id="f1")
                self._says(chat, text, attachments=(file,))
            case ("again", str(chat)) if chat in self.said:
                platform.deliver(self.dice.choice(self.said[chat]))
            case ("press", str(chat)):
                labels = [button.label for shown in platform.chat(chat).messages for button in shown.buttons]
                if labels:
                    platform.deliver(platform.press(labels[-1], chat=chat))
            case ("fails", call, str(error), times):
                platform.fails(call, ERRORS[error](), times=int(times))  # type: ignore[arg-type]
            case ("loses", times):
                platform.loses_answer("send", times=int(times))
            case ("slow", call, seconds):
                platform.hangs(call, float(seconds), arrives=self.dice.random() < 0.5)  # type: ignore[arg-type]
            case ("drop",):
                platform.drop()
            case ("away", times):
                platform.fails("connect", LinkLost("nobody there"), times=int(times))
                platform.drop()
            case ("bar",):
                platform.fails("connect", CredentialsRefused(platform.name))
                platform.drop()
            case ("part", seconds):
                platform.disconnect_takes = float(seconds)
            case ("hold",) | ("release",):
                assert life.gateway is not None
                life.gateway.control.hold(step[0] == "hold")
                self.released_at = trio.current_time()
            case ("full", commits) if life.gateway is not None:
                with suppress(StoreError):
                    life.connection = await life.gateway.home.database.write(lambda connection: connection)
                life.full_for = int(commits)
            case ("post", str(chat), str(text)) if life.gateway is not None:
                key = life.gateway.home.store.key_of(platform.event("", chat=chat).source)
                event = replace(platform.event(text, chat=chat), message_id=None, idempotency_key=text)
                with suppress(NoTurnsNow, StoreError):
                    await post(life.gateway.mailbox, key, event)
                    self.posted.append(text)
            case ("last messages",):
                for chat in CHATS:
                    self._says(chat, f"stream last {len(self.said.get(chat, ()))}")
            case ("sleep", seconds):
                await trio.sleep(float(seconds))
        if self.plan.hasty:
            for _ in range(self.dice.choice([0, 3, 30])):
                await trio.lowlevel.checkpoint()
        else:
            await settled()

    def _says(self, chat: str, text: str, **more: object) -> None:
        how = {"chat_type": "group", "user": f"u{self.dice.randint(1, 2)}"} if chat == CHATS[-1] else {}
        event = replace(self.platform.event(text, chat=chat, **how), **more)  # type: ignore[arg-type]
        self.said.setdefault(chat, []).append(event)
        self.platform.deliver(event)


async def _cancel_when(event: trio.Event, scope: trio.CancelScope) -> None:
    await event.wait()
    scope.cancel()
