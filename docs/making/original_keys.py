"""The page about the keys of hermes-agent, made from the table of its limits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from hermes_trio.config.original_limits import LIMITS, VARIABLES, Limit, Verdict

from .markdown import code, escaped, table

_VERDICTS: Mapping[Verdict, tuple[str, str]] = {
    "taken": ("Taken", "These keys have the same meaning here."),
    "refused": (
        "Refused",
        "Nothing here does the same. A value that limits the agent stops the start with exit code 78. To "
        "start without the limit, remove the key.",
    ),
    "harmless": (
        "Not used",
        "Without these keys the agent may do no more than before. A warning names each one that has a value.",
    ),
}


def hermes_agent() -> Iterator[str]:
    """Yield the lines of the page about the keys of hermes-agent."""
    yield "# Keys of hermes-agent\n"
    yield (
        "The keys by which a configuration of hermes-agent limits the agent or its users, and the result of "
        "each here. `*` stands for any name. Values in the column *Accepted values* limit nothing, so they "
        "pass; so do empty values.\n"
    )
    for verdict, (heading, meaning) in _VERDICTS.items():
        limits = [limit for limit in LIMITS if limit.verdict == verdict]
        yield f"## {heading}\n\n{meaning}\n"
        yield from _limits(limits, "Key")
    yield "## Environment variables\n"
    yield "These variables, in `.env` or in the environment, are refused likewise.\n"
    yield from _limits(VARIABLES, "Variable")


def _limits(limits: Iterable[Limit], name: str) -> Iterator[str]:
    rows = [
        (code(one.key), escaped(one.meaning), ", ".join(map(code, one.passes)), escaped(one.remedy))
        for one in limits
    ]
    head = (name, "Meaning", "Accepted values", "Remedy")
    shown = [column for column in range(len(head)) if column < 2 or any(row[column] for row in rows)]
    yield from table(
        tuple(head[column] for column in shown), (tuple(row[column] for column in shown) for row in rows)
    )
