"""Judge a command before it runs: the door of this package.

The rest of the tools imports from here, from `verdict`, from `process_input` and from `protected_paths`; the
other modules of this package are its own.

| verdict | |
|---|---|
| `Blocked` | it shuts the machine down, the home or the gateway: never run, even if a person says yes |
| `NeedsYes` | it may do harm that is hard to undo: a person is asked, and told which kind of harm |
| `Free` | no rule objects to it |

A command line is read as its shell would read it (`shell`), and each command in it is judged, wherever it
stands: after `sudo`, `env` or `xargs`, in a `sh -c`, in a text that is piped into a shell. A line that cannot
be read is never free. This is a guard against mistakes, and against text that talks a model into them. It is
no sandbox: a program that is written and then run can do anything.
"""

from __future__ import annotations

import re

from .command_line import LONGEST, ShellCommand, UnreadableCommand, normalised
from .judged_paths import Places, places_here
from .script_judge import ScriptJudge
from .shell import commands_of
from .verdict import UNREADABLE, Assessment, Blocked, Free, NeedsYes, Verdict

__all__ = ["LONGEST", "Places", "ShellCommand", "UnreadableCommand", "commands_of", "judge", "places_here"]

_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{[^{}]{0,200}\1\|\1&")


def judge(command: str, places: Places, after: str = "") -> Verdict:
    """Judge a command that a shell runs after the text `after`, which ends a line and is not judged again."""
    # The text is judged twice: as the shell reads it, and as it looks to a person, which may be what was
    # meant.
    texts = dict.fromkeys(((after, command), (normalised(after), normalised(command))))
    assessments = [_assessment(before, text, places) for before, text in texts]
    for reason in (one.refused for one in assessments):
        if reason is not None:
            return Blocked(reason)
    kinds = dict.fromkeys(kind for one in assessments for kind in one.kinds)
    return NeedsYes(tuple(kinds)) if kinds else Free()


def _assessment(before: str, text: str, places: Places) -> Assessment:
    script = ScriptJudge(places)
    try:
        if _FORK_BOMB.search(re.sub(r"\s+", "", before + text)):
            script.assessment.refuse("it starts processes without end")
        script.judge(before + text, {}, 0, known=len(commands_of(before, places.variables)))
    except UnreadableCommand:
        script.assessment.ask(UNREADABLE)
    return script.assessment
