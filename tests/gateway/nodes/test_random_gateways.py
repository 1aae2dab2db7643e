"""Random stories of one, two and three gateways that share a store: whatever is killed, paused, continued,
stopped, started and given away between any two steps, each message is answered, in order, and none twice
without a mark; and no life that is over changes a row. A failing story is repeated by its seed."""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import trio
from trio.testing import MockClock

from hermes_trio.gateway.outbound.delivery import POSSIBLY_REPEATED
from hermes_trio.platform.contract import FOR_EVER, Traits
from hermes_trio.state.db.engine import Db
from hermes_trio.testing import MemoryPlatform, Script
from tests.stage import Stage, everyone, settled

from .shared_store import LEASE, NodeLife, SharedStore, shared_store

NAMES = "one", "two", "three"
CHATS = "1", "2", "3"
TRAITS = {
    "keys": Traits(takes_keys_for=FOR_EVER),
    "edits, keys": Traits(edits=True, takes_keys_for=FOR_EVER),
    "edits, finds": Traits(edits=True, finds=True, typing=True),
    "plain": Traits(),
}
SCRIPTS: tuple[Callable[[str], Script], ...] = (
    lambda text: Script().says(f"<{text}>"),
    lambda text: Script().takes(5).says(f"<{text}>"),
    lambda text: Script().says(f"<{text}", pieces=4, seconds=6).says(">"),
    lambda text: Script().says("thinking ", seconds=2).takes(40).says(f"<{text}>"),
)


class RandomStory:
    """A story that is made from a seed and played on the shared store."""

    def __init__(self, store: SharedStore, seed: int, gateways: int) -> None:
        self.store, self.dice = store, random.Random(seed)  # noqa: S311
        self.names = NAMES[:gateways]
        self.said: dict[str, list[str]] = {chat: [] for chat in CHATS}
        self.former: list[NodeLife] = []
        """Lives that were killed."""
        self.paused: set[NodeLife] = set()

    async def play(self, steps: int) -> None:
        for name in self.names:
            await self.store.start(name)
        for _ in range(steps):
            await self._step()
            for _ in range(self.dice.choice((0, 0, 1, 5, 40))):
                await trio.lowlevel.checkpoint()
        for life in self.paused:
            life.continue_()
        for _ in range(3):  # a message that was accepted last may need a take-over, and a second one
            await trio.sleep(4 * LEASE)
            await self._start_missing()
        await trio.sleep(30 * 60)

    async def _start_missing(self) -> None:
        for name in self.names:
            if self.store.running[name].over.is_set():
                await self.store.start(name)

    async def _step(self) -> None:
        dice, store = self.dice, self.store
        life = store.running[dice.choice(self.names)]
        runs = not life.over.is_set()
        match dice.choices(
            ["says", "sleep", "kill", "pause", "continue", "stop", "start", "give"], [10, 8, 1, 1, 2, 1, 3, 3]
        )[0]:
            case "says":
                chat = dice.choice(CHATS)
                text = f"{chat}.{len(self.said[chat])}"
                self.said[chat].append(text)
                store.stage.agent.on(text, dice.choice(SCRIPTS)(text))
                store.platform.post(text, chat=chat)
                await settled()
            case "sleep":
                await trio.sleep(dice.choice((0.1, 1, 3, 7, 20, LEASE, 2 * LEASE)))
            case "kill" if runs:
                self.paused.discard(life)
                life.kill()
                await life.over.wait()
            case "pause" if runs:
                self.paused.add(life)
                life.pause()
            case "continue" if life in self.paused:
                self.paused.discard(life)
                life.continue_()
            case "stop" if runs and life not in self.paused:
                life.stop()
                await life.over.wait()
            case "start" if not runs:
                await store.start(life.node.name)
            case "give" if runs and life not in self.paused:
                to = store.running[dice.choice(self.names)]
                await life.give(dice.choice(CHATS), to)


def answered(text: str) -> list[str]:
    """Return the messages that a text answers; several at once are answered by the agent's usual words."""
    return re.findall(r"\d\.\d+", text) if text.startswith("You said") else re.findall(r"<(\d\.\d+)>", text)


def is_marked(text: str) -> bool:
    return text.startswith(POSSIBLY_REPEATED.strip())


def violations(story: RandomStory, db: Db) -> Iterator[str]:
    """Yield the violated promises."""
    platform = story.store.platform
    for chat in CHATS:
        texts = platform.chat(chat).texts
        whole = [text for text in texts if "(interrupted)" not in text]
        shown = [found for text in whole for found in answered(text) if not is_marked(text)]
        marked = {found for text in whole for found in answered(text)}
        if missing := set(story.said[chat]) - marked:
            yield f"not answered in {chat}: {sorted(missing)}; shown {texts}"
        if twice := [text for text, times in Counter(shown).items() if times > 1]:
            yield f"answered twice in {chat}: {twice}"
        if any(text.endswith("▉") for text in texts):
            yield f"a cursor is left in {chat}: {texts}"
    for query in (
        "SELECT 'waits', inbox_id, state FROM inbox WHERE state <> 'done'",
        "SELECT 'told', inbox_id, 0 FROM told",
        "SELECT 'open', turn_id, life FROM turns WHERE ended_at IS NULL",
        "SELECT 'owed', delivery_key, state FROM outbox "
        "WHERE NOT streamed AND state IN ('owed', 'attempting')",
        "SELECT 'of a life that is over', chat_id, life FROM chats JOIN lives USING (life) "
        "WHERE over_at IS NOT NULL",
        "SELECT 'began after its life', turn_id, turns.life FROM turns JOIN lives USING (life) "
        "WHERE started_at > over_at",
    ):
        yield from map(str, db.execute(query))
    for chat in CHATS:
        rows = db.execute(
            "SELECT inbox_id, turn_id FROM inbox WHERE chat_id = ? AND turn_id IS NOT NULL ORDER BY inbox_id",
            (chat,),
        )
        turns = [turn_id for _, turn_id in rows]
        if turns != sorted(turns):
            yield f"turns of {chat} were not in the order of its messages: {turns}"


async def check(stage: Stage, seed: int, gateways: int) -> list[str]:
    dice = random.Random(f"platform of {seed}")  # noqa: S311
    stage.home = stage.home.with_name(f"shared-{gateways}-{seed}") / "common"
    stage.platform = MemoryPlatform(traits=TRAITS[dice.choice(sorted(TRAITS))])
    stage.config = everyone(busy="queue")
    async with shared_store(stage) as store:
        story = RandomStory(store, seed, gateways)
        await story.play(dice.randint(10, 60))
        with stage.looking() as db:
            return list(violations(story, db))


@pytest.mark.parametrize("gateways", [1, 2, 3])
async def test_random_stories_of_gateways_that_share_a_store(
    stage: Stage, autojump_clock: MockClock, gateways: int
) -> None:
    for seed in range(4):
        assert await check(stage, seed, gateways) == [], f"seed {seed} with {gateways} gateways"
