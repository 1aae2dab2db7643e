"""The tool `clarify`: ask the person a question."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from ..tool import Result, Tool, Workplace

NOBODY = (
    "Nobody answered. Decide yourself where that does no harm, and say how you decided; leave the rest "
    "undone and say what you would need to know."
)

Choice = Annotated[str, Meta(min_length=1, max_length=200)]


class ClarifyArguments(msgspec.Struct, frozen=True):
    question: Annotated[str, Meta(min_length=1, max_length=2000, description="What you need to know.")]
    choices: Annotated[
        list[Choice],
        Meta(
            max_length=4, description="Answers to choose from, if there are a few; others can be given too."
        ),
    ] = msgspec.field(default_factory=list)


async def _clarify(arguments: ClarifyArguments, place: Workplace) -> Result:
    choices = list(dict.fromkeys(arguments.choices))
    answer = await place.ask(arguments.question, choices)
    if answer is None:
        # This status in the transcript keeps the next life from going on without the person after a restart.
        return Result(NOBODY, status="unanswered")
    labels = {choice.casefold(): choice for choice in choices}
    return Result(labels.get(answer.strip().casefold(), answer))


CLARIFY = Tool(
    "clarify",
    "Asks the person a question and waits for the answer. Use it only if you can neither find out nor decide "
    "yourself.",
    ClarifyArguments,
    _clarify,
    within=None,  # a person may take as long as agent.clarify_timeout says
)
