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
from collections.abc import Sequence

from .argv import after_options, has_long, letters_of, mark_of, operands_of, takes_next
from .code_sources import Look, reads_code, reads_output, run_file
from .command_line import UNKNOWN, UNSET, Command, Unreadable, Word, normalised
from .command_tables import (
    ALL,
    EVALUATES,
    LONG_WITH_VALUE,
    READ_COMMANDS,
    RUN_CONTAINERS,
    WRAPPERS,
    base,
    brings,
)
from .interpreters import PROGRAMS, changes_files, changes_tables, code_of, runs_commands, strings_of
from .judged_paths import Places
from .rules_by_command import SQL_CLIENTS, git_config, judge_by_name, lifecycle
from .shell import commands_of
from .verdict import (
    CODE,
    CONTAINERS,
    FOUND,
    FRESH,
    GIT,
    RECURSIVE,
    REMOTE,
    SCHEDULE,
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

DEEPEST = 8

_SSH_WITH_VALUE = "bcDEeFIiJLlmOopQRSWw"
_GIT_RUNS = {("submodule", "foreach"), ("bisect", "run"), ("rebase", "-x"), ("rebase", "--exec")}
_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{[^{}]{0,200}\1\|\1&")


def judge(command: str, places: Places, after: str = "") -> Verdict:
    """What is known against a command that a shell runs after what came before it, which ends a line and is
    not judged again."""
    # A shell reads what stands there. Who has written it meant what it looks like.
    texts = dict.fromkeys(((after, command), (normalised(after), normalised(command))))
    found = [_judged(before, text, places) for before, text in texts]
    for refused in (one.refused for one in found):
        if refused is not None:
            return Refused(refused)
    kinds = dict.fromkeys(kind for one in found for kind in one.kinds)
    return NeedsYes(tuple(kinds)) if kinds else Free()


def _judged(before: str, text: str, places: Places) -> Found:
    judging = _Judging(places)
    try:
        if _FORK_BOMB.search(re.sub(r"\s+", "", before + text)):
            judging.found.refuse("it starts processes without end")
        judging.script(before + text, {}, 0, known=len(commands_of(before, places.variables)))
    except Unreadable:
        judging.found.ask(UNREADABLE)
    return judging.found


class _Judging:
    """Goes through the commands of a script, and through those that they run."""

    def __init__(self, places: Places) -> None:
        self.found = Found(places, places.cwd)
        self._functions = set[str]()

    def script(
        self, text: str, given: dict[str, str], depth: int, around: Command | None = None, *, known: int = 0
    ) -> None:
        """Judge every command of a script, which that one around it runs. The first `known` commands were
        judged before: they only say where we are."""
        if depth > DEEPEST:
            raise Unreadable("it is too deep")
        for number, command in enumerate(
            commands_of(text, {**self.found.places.variables, **given}, depth=depth), start=1
        ):
            command = command.inside(around) if around else command
            for operator, target in command.redirects:
                if ">" in operator and not (operator == ">&" and re.fullmatch(r"\d+|-", target.text)):
                    self.found.written(target.text)
                if operator in (">&", "<&") and re.search(r"\$|`", target.text):
                    self.found.ask(UNSEEN)  # a shell puts in there what stands for something, quoted or not
                if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
                    self.found.ask(REMOTE)
            if command.behind in ("(", "{") and len(command.words) == 1:
                self._functions.add(command.words[0].text)
            self._call(list(command.words), command, depth)
            if number == known:
                self.found.kinds.clear()

    def _call(self, words: list[Word], command: Command, depth: int) -> None:
        if depth > DEEPEST:
            raise Unreadable("it is too deep")
        while words and re.match(r"[A-Za-z_]\w*\+?=", words[0].text):
            words = words[1:]
        if not words:
            return
        if words[0].may_be_none and len(words) > 1 and not words[1].text.startswith("-"):
            self._call(words[1:], command, depth + 1)
        raw, args = words[0].text, [word.text for word in words[1:]]
        name = base(raw)
        if self._is_unseen(raw, name, args):
            self.found.ask(UNSEEN)
        if raw in self._functions:  # it may run what it is given
            self._call(words[1:], command, depth + 1)
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

    def _is_unseen(self, raw: str, name: str, args: Sequence[str]) -> bool:
        """Whether it cannot be said what a command of this name is."""
        found = self.found.finds
        return bool(
            (not name and args)
            or re.match("-.", name)
            or re.search(rf"[{UNKNOWN}?*]|^\w+\[|\[.+\]", name)
            or (UNSET in name and letters_of(args) & set("rRf"))
            or (found and found in raw)
            or (name in EVALUATES and any(re.search(r"\[.*(?:\$\(|`)", arg) for arg in args))
            or (name == "hash" and "p" in letters_of(args))
        )

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
            if name == "env" and (split := re.match(r"-(?:[i0v]*S|-split-string=?)(.*)", text, re.S)):
                code = " ".join([split[1], *(word.text for word in words[at + 1 :])])
                self.script(code, {}, depth + 1)
                return
            if text == "--":
                at += 1
                break
            if re.match(r"--\w", text):
                at += 1 + (text[2:] in LONG_WITH_VALUE)
            elif text.startswith("-") and (len(text) > 1 or name == "env"):
                at += 1 + takes_next(text, with_value)
            elif "=" in text and name in ("env", "sudo"):
                at += 1
            else:
                break
        rest = words[at + skipped :]
        if name == "flock" and rest and rest[0].text == "-c":
            self.script(" ".join(word.text for word in rest[1:]), {}, depth + 1)
            return
        if (self.found.finds or name == "parallel") and (not rest or rest[0].text.startswith(":::")):
            self.found.ask(UNSEEN)  # what was found is the command
            return
        if name == "systemd-run" and any(re.match(r"--(on-|timer|path)", word.text) for word in words[1:at]):
            self.found.ask(SCHEDULE)
        before = self.found.finds
        if name in ("xargs", "parallel"):
            self.found.finds = mark_of([word.text for word in words[1:at]])
        if name in ("parallel", "watch"):  # a shell gets it
            self.script(" ".join(word.text for word in rest), {}, depth + 1)
        else:
            self._call(rest, command, depth + 1)
        self.found.finds = before

    def _shell(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """Something that reads commands."""
        if words[1:2] == [Word("--")]:
            words = words[:1] + words[2:]
        args = [word.text for word in words[1:]]

        def look(text: str) -> None:
            self.script(text, {}, depth + 1, command)

        if name == "alias":
            for arg in args:
                look(arg.partition("=")[2])
        elif name == "ssh":
            behind_host = after_options(args, _SSH_WITH_VALUE)[1:]
            before, self.found.cwd = self.found.cwd, self.found.places.user_home  # a login begins there
            look(" ".join(after_options(behind_host, _SSH_WITH_VALUE)))
            self.found.cwd = before
        elif name == "eval":
            text = " ".join(args)
            if text.strip() == UNKNOWN and any(word.inner for word in words):
                reads_output(self.found, words[1:], look)
            else:
                self._reads_given(words[1:], text, {}, command, depth)
        elif name == "trap":
            self._reads_given(words[1:2], "".join(args[:1]), {}, command, depth)
        elif name in (".", "source"):
            run_file(self.found, words[1:2], command, look)
        elif name in ("at", "batch"):
            judge_by_name(self.found, name, args, words, command)
            reads_code(self.found, command, look)
        else:
            self._interprets(name, words, command, look, depth)

    def _interprets(self, name: str, words: list[Word], command: Command, look: Look, depth: int) -> None:
        """A shell, or what starts one."""
        at = 1
        while at < len(words) and re.match(r"[-+].", text := words[at].text):
            at += 1 + (text in ("--rcfile", "--init-file") or takes_next(text, "oO"))
        if name in ("su", "script"):
            place = next((i for i, one in enumerate(words) if re.match(r"-[a-z]*c$|--command$", one.text)), 0)
            at = place + 1
            if not place:
                return
        elif not any(re.match(r"-[a-zA-Z]*c|--command$", word.text) for word in words[1:at]):
            options = [word.text for word in words[1:at]]
            if at < len(words) and "s" not in letters_of(options):
                run_file(self.found, words[at : at + 1], command, look)
            else:
                reads_code(self.found, command, look)
            return
        if at >= len(words):
            if self.found.finds:
                self.found.ask(UNSEEN)
            return
        if words[at].may_be_none and at + 1 < len(words):
            self._reads_given(words[at + 1 : at + 2], words[at + 1].text, {}, command, depth)
        given = {str(number): word.text for number, word in enumerate(words[at + 1 :])}
        given |= dict.fromkeys("@*", " ".join(word.text for word in words[at + 2 :]))
        self._reads_given(words[at : at + 1], words[at].text, given, command, depth)

    def _reads_given(
        self, words: Sequence[Word], text: str, given: dict[str, str], command: Command, depth: int
    ) -> None:
        """A script that stands in the line."""
        if brings(words):
            self.found.ask(REMOTE)
        else:
            self.script(text, given, depth + 1, command)

    def _program(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """An interpreter of another language: what it is given to run is looked through."""
        args = [word.text for word in words[1:]]

        def look(text: str) -> None:
            if runs_commands(name, text):
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
            if changes_files(text):
                for inner in strings_of(text):
                    self.found.written(inner.lstrip("+<> "))

        if "-m" in args and args[args.index("-m") + 1 : args.index("-m") + 2] == ["hermes_trio"]:
            lifecycle(self.found, args[args.index("-m") + 2 :])
        if any(arg.startswith("-i") or re.match(r"-[pn]+i", arg) for arg in args) and name in (
            "perl",
            "ruby",
        ):
            for arg in operands_of(args):
                self.found.written(arg)
        if "awk" in name and "inplace" in args:
            for arg in operands_of(args):
                self.found.written(arg)
        if (code := code_of(name, words)) is not None:
            if brings(code[1:]):
                self.found.ask(REMOTE)
            look(" ".join(word.text for word in code))
            return
        operands = [word for word in words[1:] if word.text == "-" or not word.text.startswith("-")]
        if "awk" in name:
            look("\n".join(word.text for word in operands))
        elif operands:
            run_file(self.found, operands[:1], command, look)
        elif "-m" not in args and not {"-V", "-v", "--version", "-h", "--help"} & set(args):
            reads_code(self.found, command, look)

    def _find(self, words: list[Word], command: Command, depth: int) -> None:
        args = [word.text for word in words[1:]]
        roots = []
        for arg in args:
            if arg.startswith(("-", "(", "!")) and arg not in ("-H", "-L", "-P"):
                break
            roots += [arg] if not arg.startswith("-") else []
        before = set(self.found.kinds)
        if "-delete" in args:
            self.found.ask(FOUND)
        self.found.finds = "{}"
        for number, arg in enumerate(args):
            if arg in ("-fprint", "-fprint0", "-fprintf", "-fls"):
                self.found.written("".join(args[number + 1 : number + 2]))
            if arg in ("-exec", "-execdir", "-ok", "-okdir"):
                rest = words[number + 2 :]
                end = next((i for i, word in enumerate(rest) if word.text in (";", "+")), len(rest))
                self._call(rest[:end], command, depth + 1)
        self.found.finds = ""
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
        for number, arg in enumerate(rest):
            if (verb, arg) in _GIT_RUNS:
                self.script(" ".join(rest[number + 1 :]), {}, depth + 1)
        if verb == "config":
            git_config(self.found, rest)
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
