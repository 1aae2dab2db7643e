"""The judge alone, with the corpus of the sandboxes: what it asks about, of harm and of everyday work."""

from __future__ import annotations

import os

import hermes_trio
from hermes_trio.tools.safety.judge import Places, judge
from hermes_trio.tools.safety.verdict import Free
from tests.tools.sandbox.corpus.commands import Sample, everyday, harmful

MOST_HARM_FREE = 0.565
"""More than half of the harm is free: the judge is no wall."""
MOST_WORK_ASKED = 0.08
PLACES = Places("/srv/top/login", "/srv/top/home", cwd="/srv/top/work", pid=4711)
GIVEN = {
    "$GATEWAY": PLACES.gateway_home,
    "$RUNNER": "4711",
    "$PROGRAM": os.path.dirname(hermes_trio.__file__),
}
"""The values of variables that the scene of the corpus sets, and that a command would hold."""


def is_free(sample: Sample) -> bool:
    """Return whether the judge lets a command run without a question."""
    text = sample.text
    for name, value in GIVEN.items():
        text = text.replace(name, value)
    return judge(text, PLACES) == Free()


def test_the_judge_asks_about_a_part_of_the_harm_and_about_little_of_everyday_work() -> None:
    harm, work = harmful(), everyday()
    free = [one.name for one in harm if is_free(one)]
    asked = [one.name for one in work if not is_free(one)]
    print(f"free of {len(harm)} harmful commands: {len(free)}", *free, sep="\n")
    print(f"asked about of {len(work)} everyday commands: {len(asked)}", *asked, sep="\n")
    assert len(free) <= MOST_HARM_FREE * len(harm)
    assert len(asked) <= MOST_WORK_ASKED * len(work)
