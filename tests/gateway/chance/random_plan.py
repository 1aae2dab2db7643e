"""The plan of a random story: a configuration and a list of steps, made from a seed; `random_story` plays
it."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from hermes_trio.config.schema import AgentConfig, GatewayConfig, SessionReset
from hermes_trio.platform.contract import (
    FOR_EVER,
    ChatGone,
    FloodWait,
    LinkLost,
    NotSent,
    OutcomeUnknown,
    Refused,
    Traits,
)
from tests.gateway.chance.random_agent import BEHAVIOURS
from tests.stage import everyone

Step = tuple[str | float, ...]

CHATS = "1", "2", "3"
"""Chats of a story; the last one is a group with two people."""
COMMANDS = ["/stop", "/stop all", "/new", "/retry", "/undo", "/approve", "/deny", "/status", "/sethome"]
SAYING = ["/queue", "/steer", "/background"]
SECONDS = [0, 0.1, 0.3, 1, 2, 5, 15, 30, 60, 61, 200, 300, 700]
PLATFORMS = {
    "plain": Traits(),
    "keys": Traits(takes_keys_for=FOR_EVER),
    "edits": Traits(edits=True, typing=True),
    "edits, keys": Traits(edits=True, takes_keys_for=FOR_EVER, buttons=True, sends_files=True),
    "edits, finds": Traits(edits=True, finds=True, typing=True, buttons=True),
    "placeholder": Traits(edits=True, placeholder="…"),
    "keys for a while": Traits(edits=True, takes_keys_for=30),
    "drafts": Traits(edits=True, drafts=True, reacts=True, placeholder="…"),
}
ERRORS: dict[str, Callable[[], Exception]] = {
    "not sent": lambda: NotSent("busy"),
    "unknown": lambda: OutcomeUnknown("no answer"),
    "flood": lambda: FloodWait(7),
    "lost": lambda: LinkLost("it broke"),
    "refused": lambda: Refused("not this"),
    "gone": lambda: ChatGone("it is gone"),
}


@dataclass(frozen=True)
class Plan:
    """Configuration and steps of a story."""

    seed: int
    platform: str
    config: GatewayConfig
    steps: tuple[Step, ...]
    hasty: bool = False
    """True if a step begins while the one before is still being handled."""

    def __str__(self) -> str:
        agent, reset = self.config.agent, self.config.session_reset.mode
        mode, room = self.config.display.busy_input_mode, self.config.gateway.max_running_turns
        settings = f"{mode=} {room=} {reset=} {agent.crash_recovery=} {agent.gateway_timeout=} {self.hasty=}"
        return "\n".join(map(str, [f"seed {self.seed}: {self.platform=} {settings}", *self.steps]))


def make_plan(seed: int) -> Plan:
    """Return the plan for this seed. A plan has only some kinds of steps, so that rare steps meet often."""
    dice = random.Random(seed)  # noqa: S311
    config = everyone(
        AgentConfig(
            restart_drain_timeout=dice.choice([0, 5]),
            gateway_timeout=dice.choice([1800, 300]),
            gateway_timeout_warning=dice.choice([900, 100]),
            crash_recovery=dice.choice(["resume", "resume", "resume", "suspend"]),
        ),
        busy=dice.choice(["interrupt", "queue", "steer"]),
    )
    config = msgspec.structs.replace(
        config,
        session_reset=SessionReset(mode=dice.choice(["none", "none", "none", "both"]), idle_minutes=30),
        gateway=msgspec.structs.replace(
            config.gateway,
            max_running_turns=dice.choice([None, None, 1, 2]),
            resume_at_once=dice.choice([1, 8]),
        ),
    )
    behaviours = dice.sample(BEHAVIOURS, 4)
    commands = dice.sample(COMMANDS, dice.choice([0, 0, 2, 4]))
    sayings = dice.sample(SAYING, dice.choice([0, 1, 3]))
    errors = dice.sample(sorted(ERRORS), dice.choice([0, 0, 1, 3]))
    seconds = [*dice.sample(SECONDS, 4), *([dice.choice([4000.0, 90000.0])] if dice.random() < 0.1 else [])]
    ends: list[Step] = [("stop", 0), ("stop", 5), ("restart", 5), ("cancel",), ("kill", 0)]
    early: list[Step] = [("kill", dice.randrange(1, 40)), ("kill", dice.randrange(1, 9))]
    early.append(("kill early", dice.randrange(1, 30)))
    ends = dice.sample([*ends, *early], 3)
    numbers = itertools.count(1)

    def says() -> str:
        return f"{dice.choice(behaviours)} {next(numbers)}"

    makes: list[tuple[int, Callable[[], list[Step]]]] = [
        (8, lambda: [("says", dice.choice(CHATS), says())]),
        (2, lambda: [("says", chat, says()) for chat in [dice.choice(CHATS)] for _ in range(3)]),
        (dice.choice([0, 1]), lambda: [("photo", dice.choice(CHATS), says())]),
        (1, lambda: [("again", dice.choice(CHATS))]),
        (2, lambda: [("says", dice.choice(CHATS), dice.choice(["yes", "no", "1"]))]),
        (1, lambda: [("press", dice.choice(CHATS))]),
        (
            dice.choice([1, 3]) if commands else 0,
            lambda: [("says", dice.choice(CHATS), dice.choice(commands))],
        ),
        (3 if sayings else 0, lambda: [("says", dice.choice(CHATS), f"{dice.choice(sayings)} {says()}")]),
        (
            2 if errors else 0,
            lambda: [
                ("fails", dice.choice(["send", "send", "edit"]), dice.choice(errors), dice.randint(1, 4))
            ],
        ),
        (dice.choice([0, 0, 1]), lambda: [("loses", dice.randint(1, 2))]),
        (dice.choice([0, 0, 1]), lambda: [("slow", dice.choice(["send", "edit"]), dice.choice([1, 7, 70]))]),
        (dice.choice([0, 0, 1]), lambda: [("drop",)]),
        (dice.choice([0, 0, 1]), lambda: [("away", dice.choice([1, 2]))]),
        (dice.choice([0, 0, 0, 1]), lambda: [("bar",)]),
        (dice.choice([0, 0, 1]), lambda: [("part", dice.choice([0, 2]))]),
        (dice.choice([0, 0, 2]), lambda: [("hold",)]),
        (dice.choice([0, 1]), lambda: [("release",)]),
        (8, lambda: [("sleep", dice.choice(seconds))]),
        (dice.choice([0, 0, 1]), lambda: [("full", dice.randint(1, 6))]),
        (dice.choice([0, 0, 3]), lambda: [("post", dice.choice(CHATS[:2]), says())]),
        (dice.choice([0, 0, 0, 1]), lambda: [("says", dice.choice(CHATS), "/restart")]),
        (dice.choice([1, 3]), lambda: [dice.choice(ends)]),
    ]
    weights = [weight for weight, _ in makes]
    steps = [step for _, make in dice.choices(makes, weights, k=dice.randint(3, 30)) for step in make()]
    return Plan(seed, dice.choice(sorted(PLATFORMS)), config, tuple(steps), hasty=dice.random() < 0.4)
