"""Judge a command before it runs: the door of this package.

The rest of the tools imports from here, from `verdict`, from `process_input` and from `protected_paths`; the
other modules of this package are its own.

| verdict | |
|---|---|
| `Blocked` | it shuts the machine down, the home or the gateway: never run, even if a person says yes |
| `NeedsYes` | it may do harm that is hard to undo: a person is asked, and told which kind of harm |
| `Free` | no rule objects to it |

It is asked where the kernel confines nothing: without a sandbox, for a command that asks for `everything`,
and for input to a process that is not confined. It is a question to a person, for mistakes and for text that
talks a model into harm. It is no wall: a program that is written and then run can do anything.

A command line is read by its tree (`grammar`, `shell`), and each command in it is judged by a table
(`rules`), wherever it stands: after `sudo`, `env` or `xargs`, in a `sh -c`. What only running the line would
tell needs a yes, as does a line that cannot be read; neither yes is for another line.
"""

from __future__ import annotations

import re

from .command_line import LONGEST, ShellCommand, UnreadableCommand, normalised
from .judged_paths import Places, places_here, places_there
from .script_judge import ScriptJudge
from .shell import commands_of
from .verdict import UNREADABLE, Blocked, Free, NeedsYes, Verdict

__all__ = [
    "LONGEST",
    "Places",
    "ShellCommand",
    "UnreadableCommand",
    "commands_of",
    "judge",
    "places_here",
    "places_there",
]

_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{[^{}]{0,200}\1\|\1&")


def judge(command: str, places: Places, after: str = "") -> Verdict:
    """Judge a command that a shell runs after the text `after`, which ends a line and is not judged again."""
    # The text is judged twice: as the shell reads it, and as it looks to a person, which may be what was
    # meant.
    texts = dict.fromkeys(((after, command), (normalised(after), normalised(command))))
    judged = [_judged(before, text, places) for before, text in texts]
    for reason in (one.refused for one in judged):
        if reason is not None:
            return Blocked(reason)
    kinds = dict.fromkeys(kind for one in judged for kind in one.kinds)
    return NeedsYes(tuple(kinds)) if kinds else Free()


def _judged(before: str, text: str, places: Places) -> ScriptJudge:
    script = ScriptJudge(places)
    try:
        if _FORK_BOMB.search(re.sub(r"\s+", "", before + text)):
            script.refuse("it starts processes without end")
        known = len(commands_of(before, places.variables)) if before else 0
        script.judge(before + text, known=known)
    except UnreadableCommand:
        script.ask(UNREADABLE)
    return script
