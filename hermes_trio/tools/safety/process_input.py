r"""Judging of input for a running process, before the process gets it. Pure.

| the process | its input |
|---|---|
| a shell (also after `cat` or ssh) | judged as a command, after all earlier input of the shell |
| only copies, counts or compares (`cat`, `grep`, a `read` loop) | free: it is data |
| any other program, which may evaluate what it reads | needs a yes, with the whole text shown |

A plain answer (`y`, `no`, a number, an empty line) is free for every program, because it does nothing in any
language. A statement that is sent in pieces is judged as a whole with each piece. A shell whose input has
started an interpreter counts as another program from then on.
"""

from __future__ import annotations

import re
from enum import Enum, auto

from .argv import after_options, operands_of
from .command_line import ShellCommand, UnreadableCommand, named
from .command_tables import RUN_CONTAINERS, SHELLS, SQL_CLIENTS, WRAPPERS, command_name
from .interpreters import PROGRAMS, code_of
from .shell import commands_of

_DATA = named(
    "cat tac tee grep egrep fgrep rg wc sort uniq head tail cut tr jq rev nl od base64 md5sum sha256sum "
    "read echo printf true false : sleep date cd pwd ls mkdir touch seq wait kill exit for mkfifo"
)
"""Commands that do not evaluate their input."""
_REPLS = SQL_CLIENTS | named(
    "irb ghci gdb lldb julia r scala iex erl mongosh mongo redis-cli bc dc telnet nc ncat netcat socat xargs "
    "parallel at batch . source expect ssh"
)
"""Commands that evaluate their input, or pass it on, whatever their arguments are."""
_STARTS = named("exec nohup command")
_SSH_WITH_VALUE = "bcDEeFIiJLlmOopQRSWw"
_COMPUTES = re.compile(r"\(\(|\$\[|\$\{|\bPATH=")
"""Text by which a shell evaluates expressions, and the commands in a variable; or by which it finds other
programs."""
_ANSWER = r"(?:y|n|yes|no|q|quit|exit|\d{1,9})?"
_ANSWERS = re.compile(rf"(?:{_ANSWER}\n)*{_ANSWER}", re.IGNORECASE)
_SHELL_OPTION = re.compile(r"-[abd-zA-Z]+|--(?:login|norc|noprofile|posix)")
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
    others = [one for one in commands if not _is_data(one)]
    if _COMPUTES.search(command) or not is_whole(f"{command}\n"):
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
    return last.texts == [_PROBE] and not last.is_piped


def is_answer(text: str) -> bool:
    """Return whether every line is a plain answer to a plain question."""
    return _ANSWERS.fullmatch(text) is not None


def is_remote(command: str) -> bool:
    """Return whether the shell that this command starts runs on another machine."""
    return any(command_name(one.texts[0]) == "ssh" for one in commands_of(command) if one.words)


def _is_data(command: ShellCommand) -> bool:
    words = [text for text in command.texts if not re.match(r"[A-Za-z_]\w*\+?=", text)]
    return not words or (words[0] in _DATA and words[:2] != ["printf", "-v"])


def _is_shell(command: ShellCommand) -> bool:
    """Return whether this is a shell that reads its commands from our input."""
    if any("<" in operator for operator, _ in command.redirects) or command.body:
        return False
    if command.is_piped and (command.source is None or command.source.texts != ["cat"]):
        return False
    words = command.texts
    while words and words[0] in _STARTS:
        words = words[1:]
    if words[:1] == ["ssh"]:
        return len(after_options(words[1:], _SSH_WITH_VALUE)) == 1
    is_named = bool(words) and words[0].removeprefix("/usr").removeprefix("/bin/") in SHELLS
    return is_named and all(
        re.fullmatch(r"-[abd-zA-Z]+|--(?:login|norc|noprofile|posix)", one) for one in words[1:]
    )


def _takes_over(command: ShellCommand) -> bool:
    """Return whether a command that a shell was given reads the rest of the shell's input as code."""
    if command.is_piped or command.body or any("<" in operator for operator, _ in command.redirects):
        return False
    texts = command.texts
    runs_others = bool(texts) and (
        command_name(texts[0]) in WRAPPERS or command_name(texts[0]) in RUN_CONTAINERS
    )
    for at, text in enumerate(texts if runs_others else texts[:1]):
        name, args = command_name(text), texts[at + 1 :]
        if name in _REPLS:
            return True
        reads_code = not operands_of(args) or bool({"-", "-i"} & set(args))
        if PROGRAMS.fullmatch(name) and reads_code and code_of(name, command.words[at:]) is None:
            return True
    return False
