"""Interpreters of other languages, and the suspicious parts of a program text for them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from .command_line import Word
from .command_tables import SQL_TEXT

PROGRAMS = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|deno|bun|osascript|awk|gawk|mawk)[0-9.]*")
_RUNS = re.compile(
    r"rmtree|from\s+os\s+import|\|\s*&?\s*getline|(?<!\|)\|\s*\"|\bos\s*\.\s*(?:system|popen|remove|unlink|rmdir|removedirs|kill|exec\w*)|subprocess|pty\.spawn|__import__|"
    r"\bexec\b|\beval\s*\(|child_process|unlinkSync|rmSync|rmdirSync|FileUtils|\bunlink\b|\bsystem\b|\bqx\b|"
    r"\bpopen\b|shell_exec|passthru|do shell script|socket|b64decode|urlopen|urllib|requests\s*\.|LWP"
)
_STRINGS = re.compile(r"\"((?:[^\"\\\n]|\\.)+)\"|'((?:[^'\\\n]|\\.)+)'")
_WRITES = re.compile(
    r"""['"](?:[awx][bt]?\+?|r[bt]?\+[bt]?|>>?)['"]|write|append|dump|copy|move|rename|replace|link|chmod|touch|"""
    r"""truncate|execute|>\s*['"]|['"]\s*\+?>""",
    re.IGNORECASE,
)
_TAKES_CODE = {
    "python": "c",
    "pypy": "c",
    "perl": "eE",
    "ruby": "e",
    "php": "r",
    "lua": "e",
    "osascript": "e",
}
"""The option letters that a program text follows; `e` and `p` for all others."""


def code_of(name: str, words: Sequence[Word]) -> Sequence[Word] | None:
    """Return the option before a program text, and the text; None if the line holds none."""
    letters = set(_TAKES_CODE.get(name.rstrip("0123456789."), "ep"))
    for at, word in enumerate(words[1:], start=1):
        text = word.text
        if text in ("--eval", "--print", "eval") or (re.match(r"-[^-]", text) and set(text[1:]) & letters):
            return words[at : at + 2]
    return None


def runs_commands(name: str, text: str) -> bool:
    """Return whether a program text for this interpreter deletes, runs commands, or uses the network."""
    return _RUNS.search(text) is not None or ("`" in text and name.startswith(("perl", "ruby", "php")))


def strings_of(text: str) -> Iterator[str]:
    """Yield the quoted strings of a program text: each may be a command or a path."""
    return (found[1] or found[2] for found in _STRINGS.finditer(text))


def changes_files(text: str) -> bool:
    """Return whether a program text may write to the files that it names."""
    return _WRITES.search(text) is not None


def changes_tables(text: str) -> bool:
    """Return whether a program text drops or empties tables of a database."""
    return bool(SQL_TEXT.search(text) and re.search(r"\bexecute|cursor|connect", text))
