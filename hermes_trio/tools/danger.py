"""What a command may do, judged before it runs. Pure: a command in, a verdict out.

| verdict | |
|---|---|
| `Refused` | it ends the machine, the home or the gateway: never run, whoever says yes |
| `NeedsYes` | it may do harm that is hard to undo: a person is asked, and told what kind of harm |
| `Free` | nothing is known against it |

A command is read as its shell would read it (`shell`), and each command in it is judged, wherever it stands:
behind `sudo`, `env` or `xargs`, in a `sh -c`, in what is piped into a shell. What cannot be read is never
free. This is a guard against mistakes, and against text that talks a model into them; whoever writes a
program and runs it does as they please.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from .by_name import SQL_CLIENTS, judge_by_name, lifecycle
from .command_line import UNKNOWN, UNSET, Command, Unreadable, Word, known_output, normalised
from .harm import (
    CODE,
    CONTAINERS,
    FOUND,
    FRESH,
    GIT,
    RECURSIVE,
    REMOTE,
    SQL,
    SUDO,
    UNREADABLE,
    UNSEEN,
    Found,
    Free,
    NeedsYes,
    Refused,
    Verdict,
)
from .known import ALL, LONG_WITH_VALUE, READ_COMMANDS, RUN_CONTAINERS, WRAPPERS, base, brings
from .options import after_options, has_long, letters_of, operands_of
from .places import Places
from .programs import PROGRAMS, changes_tables, code_of, runs_commands, strings_of
from .shell import commands_of

DEEPEST = 8

_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{[^{}]{0,200}\1\|\1&")


def judge(command: str, places: Places) -> Verdict:
    """What is known against a command."""
    judging = _Judging(places)
    found = judging.found
    try:
        text = normalised(command)
        if _FORK_BOMB.search(re.sub(r"\s+", "", text)):
            found.refuse("it starts processes without end")
        judging.script(text, {}, 0)
    except Unreadable:
        found.ask(UNREADABLE)
    if found.refused is not None:
        return Refused(found.refused)
    return NeedsYes(tuple(found.kinds)) if found.kinds else Free()


class _Judging:
    """Goes through the commands of a script, and through those that they run."""

    def __init__(self, places: Places) -> None:
        self.found = Found(places, places.cwd)

    def script(self, text: str, given: dict[str, str], depth: int) -> None:
        """Judge every command of a script."""
        if depth > DEEPEST:
            raise Unreadable("it is too deep")
        for command in commands_of(text, {**self.found.places.variables, **given}, depth=depth):
            for operator, target in command.redirects:
                if ">" in operator and not (operator == ">&" and re.fullmatch(r"\d+|-", target.text)):
                    self.found.written(target.text)
                if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
                    self.found.ask(REMOTE)
            self._call(list(command.words), command, depth)

    def _call(self, words: list[Word], command: Command, depth: int) -> None:
        while words and re.match(r"[A-Za-z_]\w*\+?=", words[0].text):
            words = words[1:]
        if not words:
            return
        raw, args = words[0].text, [word.text for word in words[1:]]
        name = base(raw)
        is_computed = UNKNOWN in name or (self.found.finds and "{}" in name)
        if is_computed or (UNSET in name and letters_of(args) & set("rRf")):
            self.found.ask(UNSEEN)
        if "/" in raw and self.found.resolved(raw) in self.found.fresh:
            self.found.ask(FRESH)
        if name in WRAPPERS:
            self._wrapped(name, words, command, depth)
        elif name in READ_COMMANDS:
            self._shell(name, words, command, depth)
        elif PROGRAMS.fullmatch(name):
            self._program(name, words, command, depth)
        elif name == "find":
            self._find(words, command, depth)
        elif name in RUN_CONTAINERS:
            self._containers(args, words, command, depth)
        elif name == "git":
            self._git(args, depth)
        else:
            judge_by_name(self.found, name, args, words, command)

    def _wrapped(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """A command that runs another."""
        with_value, skipped = WRAPPERS[name]
        if name == "sudo":
            options = words[
                1 : 1 + next((i for i, w in enumerate(words[1:]) if not w.text.startswith("-")), 99)
            ]
            texts = [word.text for word in options]
            if letters_of(texts) & set("SAsi") or has_long(texts, "stdin", "askpass", "shell", "login"):
                self.found.ask(SUDO)
        if name == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
            return
        at = 1
        while at < len(words):
            text = words[at].text
            if name == "env" and text.startswith(("-S", "--split-string")):
                _, _, code = text.partition("=")
                code = code or text[2:] or "".join(word.text for word in words[at + 1 : at + 2])
                self.script(code + " " + " ".join(word.text for word in words[at + 2 :]), {}, depth + 1)
                return
            if text == "--":
                at += 1
                break
            if re.match(r"--\w", text):
                at += 1 + (text[2:] in LONG_WITH_VALUE)
            elif text.startswith("-") and len(text) > 1:
                at += 1 + (len(text) == 2 and text[1] in with_value)
            elif re.match(r"[A-Za-z_]\w*=", text) and name in ("env", "sudo"):
                at += 1
            else:
                break
        at += skipped
        if name == "flock" and at < len(words) and words[at].text == "-c":
            self.script(" ".join(word.text for word in words[at + 1 :]), {}, depth + 1)
            return
        if depth > DEEPEST:
            raise Unreadable("it is too deep")
        before, self.found.finds = self.found.finds, self.found.finds or name in ("xargs", "parallel")
        self._call(words[at:], command, depth + 1)
        self.found.finds = before

    def _shell(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """Something that reads commands."""
        args = [word.text for word in words[1:]]
        if name == "alias":
            for arg in args:
                self.script(arg.partition("=")[2], {}, depth + 1)
            return
        if name == "ssh":
            rest = after_options(args, "bcDEeFIiJLlmOopQRSWw")[1:]
            self.script(" ".join(rest), {}, depth + 1)
            return
        if name in ("eval", "trap"):
            code = words[1:] if name == "eval" else words[1:2]
            if brings(code):
                self.found.ask(REMOTE)
            text = " ".join(word.text for word in code)
            if name == "trap" or not (text.strip() == UNKNOWN and any(word.inner for word in code)):
                self.script(text, {}, depth + 1)
            return
        if name in (".", "source"):
            self._run_file(words[1:2])
            return
        place = next((i for i, arg in enumerate(args) if re.fullmatch(r"-[a-zA-Z]*c|--command", arg)), None)
        if place is not None:
            code = words[place + 2 : place + 3]
            if brings(code):
                self.found.ask(REMOTE)
            elif self.found.finds and code and code[0].text.strip() == "{}":
                self.found.ask(UNSEEN)
            given = {str(number): text for number, text in enumerate(args[place + 2 :])}
            self.script(code[0].text if code else "", given, depth + 1)
            return
        scripts = [word for word in words[1:] if word.text == "-" or not word.text.startswith(("-", "+"))]
        if name in ("su", "runuser", "script"):
            return
        if scripts and scripts[0].text not in ("-", "/dev/stdin") and "-s" not in args:
            self._run_file(scripts[:1])
        else:
            self._reads_code(command, lambda text: self.script(text, {}, depth + 1))

    def _program(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """An interpreter of another language: what it is given to run is looked through."""
        args = [word.text for word in words[1:]]

        def look(text: str) -> None:
            if runs_commands(text):
                self.found.ask(CODE)
                for inner in strings_of(text):
                    nested = _Judging(self.found.places)
                    try:
                        nested.script(inner, {}, depth + 1)
                    except Unreadable:
                        continue
                    if nested.found.refused is not None:
                        self.found.refuse(nested.found.refused)
            if changes_tables(text):
                self.found.ask(SQL)

        if "-m" in args and args[args.index("-m") + 1 : args.index("-m") + 2] == ["hermes_trio"]:
            lifecycle(self.found, args[args.index("-m") + 2 :])
        if any(arg.startswith("-i") or re.match(r"-[pn]+i", arg) for arg in args) and name in (
            "perl",
            "ruby",
        ):
            for arg in operands_of(args):
                self.found.written(arg)
        if (code := code_of(name, words)) is not None:
            if brings(code[1:]):
                self.found.ask(REMOTE)
            look(" ".join(word.text for word in code))
            return
        operands = [word for word in words[1:] if word.text == "-" or not word.text.startswith("-")]
        if "awk" in name:
            look(operands[0].text if operands else "")
        elif operands and operands[0].text not in ("-", "/dev/stdin"):
            self._run_file(operands[:1])
        elif "-m" not in args and not {"-V", "-v", "--version", "-h", "--help"} & set(args):
            self._reads_code(command, look)

    def _reads_code(self, command: Command, look: Callable[[str], None]) -> None:
        """Something runs what it reads: that is looked through, if it stands in the line."""
        source = known_output(command.source)
        if command.text_in is not None:
            look(command.text_in)
        elif command.is_piped and source is not None and UNKNOWN not in source:
            look(source)
        elif command.is_piped or any(brings([word]) for _, word in command.redirects):
            self.found.ask(REMOTE)

    def _run_file(self, words: Sequence[Word]) -> None:
        if brings(words):
            self.found.ask(REMOTE)
        for word in words:
            if self.found.resolved(word.text) in self.found.fresh:
                self.found.ask(FRESH)

    def _find(self, words: list[Word], command: Command, depth: int) -> None:
        args = [word.text for word in words[1:]]
        roots = []
        for arg in args:
            if arg.startswith(("-", "(", "!")):
                break
            roots.append(arg)
        before = set(self.found.kinds)
        if "-delete" in args:
            self.found.ask(FOUND)
        self.found.finds = True
        for number, arg in enumerate(args):
            if arg in ("-exec", "-execdir", "-ok", "-okdir"):
                rest = words[number + 2 :]
                end = next((i for i, word in enumerate(rest) if word.text in (";", "+")), len(rest))
                self._call(rest[:end], command, depth + 1)
        self.found.finds = False
        if {FOUND, RECURSIVE} & (set(self.found.kinds) - before):
            for root in roots or ["."]:
                self.found.deleted(root)

    def _containers(self, args: Sequence[str], words: list[Word], command: Command, depth: int) -> None:
        operands = operands_of(args)
        verbs = set(operands[:4] if {"compose", "-f", "--file"} & set(args) else operands[:2])
        if verbs & {"exec", "run"}:
            for number, arg in enumerate(args):
                if number and base(arg) in ALL | SQL_CLIENTS:
                    self._call(words[number + 1 :], command, depth + 1)
                    return
        elif verbs & {"stop", "kill", "down", "rm", "rmi", "prune", "restart", "delete"}:
            self.found.ask(CONTAINERS)

    def _git(self, args: Sequence[str], depth: int) -> None:
        for number, arg in enumerate(args[:-1]):
            if arg == "-c" and "=!" in args[number + 1]:
                self.script(args[number + 1].partition("=!")[2], {}, depth + 1)
        verb, *rest = after_options(args, "Cc") or [""]
        letters = letters_of(rest)
        forced = "f" in letters or has_long(rest, "force", "force-with-lease")
        throws = {
            "reset": "--hard" in rest,
            "push": forced
            or any(operand.startswith("+") for operand in operands_of(rest))
            or "--mirror" in rest,
            "clean": forced and not ("n" in letters or "--dry-run" in rest),
            "branch": "D" in letters or (forced and ("d" in letters or has_long(rest, "delete"))),
        }
        if throws.get(verb, False):
            self.found.ask(GIT)
