r"""Judging of input for a running process, before the process gets it. Pure.

| the process | its input |
|---|---|
| a shell (also after `cat` or ssh) | judged as a command, after all earlier input of the shell |
| only copies, counts or compares (`cat`, `grep`, a `read` loop) | free: it is data |
| any other program, which may evaluate what it reads | needs a yes, with the whole text shown |

A plain answer (`y`, `no`, a number, an empty line) is free for every program, because it does nothing in any
language. A statement that is sent in pieces is judged as a whole with each piece, as if it ended there. A
shell whose input has started an interpreter counts as another program from then on.
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum, auto

from . import rules
from .command_line import ShellCommand, UnreadableCommand, named
from .shell import commands_of

_DATA = named(
    "cat tac tee grep egrep fgrep rg wc sort uniq head tail cut tr jq rev nl od base64 md5sum sha256sum "
    "read echo printf true false : sleep date cd pwd ls mkdir touch seq wait kill exit mkfifo function"
)
"""Commands that do not evaluate their input."""
_EVALUATE = rules.SQL_CLIENTS | named(
    "irb ghci gdb lldb julia r scala iex erl mongosh mongo redis-cli bc dc telnet nc ncat netcat socat xargs "
    "parallel at batch . source expect ssh"
)
"""Commands that evaluate their input, or pass it on, whatever their arguments are."""
_COMPUTES = re.compile(r"\(\(|\$\[|\$\{|\bPATH=")
"""Text by which a shell evaluates expressions, and the commands in a variable; or by which it finds other
programs."""
_ANSWER = r"(?:y|n|yes|no|q|quit|exit|\d{1,9})?"
_ANSWERS = re.compile(rf"(?:{_ANSWER}\n)*{_ANSWER}", re.IGNORECASE)
_SHELL_LINE = re.compile(
    rf"(?:(?:exec|nohup|command) )*(?:(?:/usr)?/bin/)?(?:{'|'.join(rules.SHELLS)})"
    r"(?: (?:-[abd-zA-Z]+|--login|--norc|--noprofile|--posix))*|ssh(?: -\w)* [^ -][^ ]*"
)
_ENDS = (":;done", ":;fi", ":;}", ":;;esac", "'", '"')
_HERE = re.compile(r"<<-?\s*['\"]?(\w+)")
_PROBE = "hermes_probe"


class InputReader(Enum):
    """The kind of program that reads the input."""

    SHELL = auto()
    DATA = auto()
    UNKNOWN = auto()


def reader_of(command: str, given: str = "") -> InputReader:
    """Return the kind of program that reads the input of this command, after it was given the input
    `given`."""
    try:
        commands, earlier = commands_of(command), commands_of(given)
    except UnreadableCommand:
        return InputReader.UNKNOWN
    others = [
        one
        for one in commands
        if (one.texts and one.texts[0] not in _DATA) or one.texts[:2] == ["printf", "-v"]
    ]
    if _COMPUTES.search(command):
        return InputReader.UNKNOWN
    if not others:
        return InputReader.DATA
    if len(others) > 1 or not _is_shell(others[0]) or any(map(_takes_over, earlier)):
        return InputReader.UNKNOWN
    return InputReader.SHELL


def is_whole(text: str) -> bool:
    """Return whether a statement ends here for a shell: the next line is a command of its own."""
    if not text.endswith("\n"):
        return False
    try:
        last = commands_of(text + _PROBE)[-1]
    except UnreadableCommand:
        return False
    return last.texts == [_PROBE] and not last.input.is_piped


def completed(text: str) -> str:
    """Return a text that ends within a statement with the end of that statement, so that it can be judged."""
    ends = [f"\n{end}\n" for end in (*_ENDS, *_HERE.findall(text)[-1:])]
    for end in ("", *ends, *(f"{inner}{outer}" for inner in ends for outer in ends)):
        with suppress(UnreadableCommand):
            commands_of(text + end)
            return text + end
    return text


def is_answer(text: str) -> bool:
    """Return whether every line is a plain answer to a plain question."""
    return _ANSWERS.fullmatch(text) is not None


def is_remote(command: str) -> bool:
    """Return whether the shell that this command starts runs on another machine."""
    return any(one.texts[:1] == ["ssh"] for one in commands_of(command))


def _is_shell(command: ShellCommand) -> bool:
    """Return whether this is a shell that reads its commands from our input."""
    source = command.input.source
    ours = command.reads_ours or (source is not None and source.texts == ["cat"] and source.reads_ours)
    return ours and _SHELL_LINE.fullmatch(" ".join(command.texts)) is not None


def _takes_over(command: ShellCommand) -> bool:
    """Return whether a command that a shell was given reads the rest of the shell's input as code."""
    texts = command.texts
    runs_others = texts and texts[0].rpartition("/")[2] in rules.WRAPPERS | rules.CONTAINER_COMMANDS
    for at, text in enumerate(texts if runs_others else texts[:1]):
        name, args = text.rpartition("/")[2].lower(), texts[at + 1 :]
        reads_code = not rules.operands_of(args) or {"-", "-i"} & set(args)
        is_program = rules.PROGRAMS.fullmatch(name) and reads_code and rules.code_at(name, args) is None
        if command.reads_ours and (name in _EVALUATE or is_program):
            return True
    return False
