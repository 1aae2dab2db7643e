"""Judge every command of a script, and the commands that they run in turn. Pure.

Judged here are the commands that run others: wrappers such as `sudo` and `xargs`, shells, interpreters of
other languages, `find`, containers, `git`. For all others see `rules_by_command`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .argv import after_options, has_long, letters_of, operands_of, placeholder_of, takes_next
from .code_sources import JudgeText, judge_file, judge_input, judge_output
from .command_line import UNKNOWN, UNSET, ShellCommand, UnreadableCommand, Word
from .command_tables import (
    ALL,
    EVALUATES,
    LONG_WITH_VALUE,
    READ_COMMANDS,
    RUN_CONTAINERS,
    SQL_CLIENTS,
    WRAPPERS,
    command_name,
    is_fetched_or_decoded,
)
from .interpreters import PROGRAMS, changes_files, changes_tables, code_of, runs_commands, strings_of
from .judged_paths import Places
from .rules_by_command import git_config, judge_by_name, lifecycle
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
    UNSEEN,
    Assessment,
)

DEEPEST = 8

_SSH_WITH_VALUE = "bcDEeFIiJLlmOopQRSWw"
_GIT_RUNS = {("submodule", "foreach"), ("bisect", "run"), ("rebase", "-x"), ("rebase", "--exec")}


class ScriptJudge:
    """Judges the commands of a script, and the commands that they run."""

    def __init__(self, places: Places) -> None:
        self.assessment = Assessment(places, places.cwd)
        self._functions = set[str]()

    def judge(
        self,
        text: str,
        given: dict[str, str],
        depth: int,
        around: ShellCommand | None = None,
        *,
        known: int = 0,
    ) -> None:
        """Judge every command of a script that the command `around` runs, with the parameters `given`. The
        first `known` commands were judged before: they only set the state (directory, links, fresh files)."""
        if depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        for number, command in enumerate(
            commands_of(text, {**self.assessment.places.variables, **given}, depth=depth), start=1
        ):
            command = command.inside(around) if around else command
            for operator, target in command.redirects:
                if ">" in operator and not (operator == ">&" and re.fullmatch(r"\d+|-", target.text)):
                    self.assessment.note_write(target.text)
                if operator in (">&", "<&") and re.search(r"\$|`", target.text):
                    # A shell expands this target even if it is quoted.
                    self.assessment.ask(UNSEEN)
                if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
                    self.assessment.ask(REMOTE)
            if command.operator in ("(", "{") and len(command.words) == 1:
                self._functions.add(command.words[0].text)
            self._call(list(command.words), command, depth)
            if number == known:
                self.assessment.kinds.clear()

    def _call(self, words: list[Word], command: ShellCommand, depth: int) -> None:
        if depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        while words and re.match(r"[A-Za-z_]\w*\+?=", words[0].text):
            words = words[1:]
        if not words:
            return
        if words[0].may_be_none and len(words) > 1 and not words[1].text.startswith("-"):
            self._call(words[1:], command, depth + 1)
        raw, args = words[0].text, [word.text for word in words[1:]]
        name = command_name(raw)
        if self._is_unseen(raw, name, args):
            self.assessment.ask(UNSEEN)
        if raw in self._functions:  # the function may run its arguments
            self._call(words[1:], command, depth + 1)
        if "/" in raw and self.assessment.resolve(raw) in self.assessment.fresh:
            self.assessment.ask(FRESH)
        if name in WRAPPERS:
            self._wrapped(name, words, command, depth)
        elif name in READ_COMMANDS:
            self._shell(name, words, command, depth)
        elif PROGRAMS.fullmatch(name):
            self._program(name, words, command, depth)
        elif name == "find":
            self._find(words, command, depth)
        elif name in RUN_CONTAINERS:
            self._container(args, words, command, depth)
        elif name == "git":
            self._git(args, depth)
        else:
            judge_by_name(self.assessment, name, args, words, command)

    def _is_unseen(self, raw: str, name: str, args: Sequence[str]) -> bool:
        """Return whether only running the line would tell which command this name stands for."""
        placeholder = self.assessment.placeholder
        return bool(
            (not name and args)
            or re.match("-.", name)
            or re.search(rf"[{UNKNOWN}?*]|^\w+\[|\[.+\]", name)
            or (UNSET in name and letters_of(args) & set("rRf"))
            or (placeholder and placeholder in raw)
            or (name in EVALUATES and any(re.search(r"\[.*(?:\$\(|`)", arg) for arg in args))
            or (name == "hash" and "p" in letters_of(args))
        )

    def _wrapped(self, name: str, words: list[Word], command: ShellCommand, depth: int) -> None:
        """Judge a command that runs another one: `sudo`, `env`, `xargs` and the like."""
        with_value, skipped = WRAPPERS[name]
        if name == "sudo":
            options = words[
                1 : 1 + next((i for i, w in enumerate(words[1:]) if not w.text.startswith("-")), 99)
            ]
            texts = [word.text for word in options]
            if letters_of(texts) & set("SAsi") or has_long(texts, "stdin", "askpass", "shell", "login"):
                self.assessment.ask(SUDO)
        if name == "command" and len(words) > 1 and words[1].text in ("-v", "-V"):
            return
        at = 1
        while at < len(words):
            text = words[at].text
            if name == "env" and (split := re.match(r"-(?:[i0v]*S|-split-string=?)(.*)", text, re.S)):
                code = " ".join([split[1], *(word.text for word in words[at + 1 :])])
                self.judge(code, {}, depth + 1)
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
            self.judge(" ".join(word.text for word in rest[1:]), {}, depth + 1)
            return
        if (self.assessment.placeholder or name == "parallel") and (
            not rest or rest[0].text.startswith(":::")
        ):
            self.assessment.ask(UNSEEN)  # the items that are found are the command
            return
        if name == "systemd-run" and any(re.match(r"--(on-|timer|path)", word.text) for word in words[1:at]):
            self.assessment.ask(SCHEDULE)
        before = self.assessment.placeholder
        if name in ("xargs", "parallel"):
            self.assessment.placeholder = placeholder_of([word.text for word in words[1:at]])
        if name in ("parallel", "watch"):  # the command is handed to a shell
            self.judge(" ".join(word.text for word in rest), {}, depth + 1)
        else:
            self._call(rest, command, depth + 1)
        self.assessment.placeholder = before

    def _shell(self, name: str, words: list[Word], command: ShellCommand, depth: int) -> None:
        """Judge a command that takes commands as text: a shell, `eval`, `ssh`, `trap` and the like."""
        if words[1:2] == [Word("--")]:
            words = words[:1] + words[2:]
        args = [word.text for word in words[1:]]

        def judge_text(text: str) -> None:
            self.judge(text, {}, depth + 1, command)

        if name == "alias":
            for arg in args:
                judge_text(arg.partition("=")[2])
        elif name == "ssh":
            after_host = after_options(args, _SSH_WITH_VALUE)[1:]
            before, self.assessment.cwd = (
                self.assessment.cwd,
                self.assessment.places.user_home,
            )  # a login starts there
            judge_text(" ".join(after_options(after_host, _SSH_WITH_VALUE)))
            self.assessment.cwd = before
        elif name == "eval":
            text = " ".join(args)
            if text.strip() == UNKNOWN and any(word.inner for word in words):
                judge_output(self.assessment, words[1:], judge_text)
            else:
                self._reads_given(words[1:], text, {}, command, depth)
        elif name == "trap":
            self._reads_given(words[1:2], "".join(args[:1]), {}, command, depth)
        elif name in (".", "source"):
            judge_file(self.assessment, words[1:2], command, judge_text)
        elif name in ("at", "batch"):
            judge_by_name(self.assessment, name, args, words, command)
            judge_input(self.assessment, command, judge_text)
        else:
            self._interprets(name, words, command, judge_text, depth)

    def _interprets(
        self, name: str, words: list[Word], command: ShellCommand, judge_text: JudgeText, depth: int
    ) -> None:
        """Judge a shell, or a command that starts one."""
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
                judge_file(self.assessment, words[at : at + 1], command, judge_text)
            else:
                judge_input(self.assessment, command, judge_text)
            return
        if at >= len(words):
            if self.assessment.placeholder:
                self.assessment.ask(UNSEEN)
            return
        if words[at].may_be_none and at + 1 < len(words):
            self._reads_given(words[at + 1 : at + 2], words[at + 1].text, {}, command, depth)
        given = {str(number): word.text for number, word in enumerate(words[at + 1 :])}
        given |= dict.fromkeys("@*", " ".join(word.text for word in words[at + 2 :]))
        self._reads_given(words[at : at + 1], words[at].text, given, command, depth)

    def _reads_given(
        self, words: Sequence[Word], text: str, given: dict[str, str], command: ShellCommand, depth: int
    ) -> None:
        """Judge a script that stands in the command line."""
        if is_fetched_or_decoded(words):
            self.assessment.ask(REMOTE)
        else:
            self.judge(text, given, depth + 1, command)

    def _program(self, name: str, words: list[Word], command: ShellCommand, depth: int) -> None:
        """Judge an interpreter of another language by the program text that it is given."""
        args = [word.text for word in words[1:]]

        def judge_text(text: str) -> None:
            if runs_commands(name, text):
                self.assessment.ask(CODE)
                for inner in strings_of(text):
                    nested = ScriptJudge(self.assessment.places)
                    try:
                        nested.judge(inner, {}, depth + 1)
                    except UnreadableCommand:
                        continue
                    if nested.assessment.refused is not None:
                        self.assessment.refuse(nested.assessment.refused)
            if changes_tables(text):
                self.assessment.ask(SQL)
            if changes_files(text):
                for inner in strings_of(text):
                    self.assessment.note_write(inner.lstrip("+<> "))

        if "-m" in args and args[args.index("-m") + 1 : args.index("-m") + 2] == ["hermes_trio"]:
            lifecycle(self.assessment, args[args.index("-m") + 2 :])
        if any(arg.startswith("-i") or re.match(r"-[pn]+i", arg) for arg in args) and name in (
            "perl",
            "ruby",
        ):
            for arg in operands_of(args):
                self.assessment.note_write(arg)
        if "awk" in name and "inplace" in args:
            for arg in operands_of(args):
                self.assessment.note_write(arg)
        if (code := code_of(name, words)) is not None:
            if is_fetched_or_decoded(code[1:]):
                self.assessment.ask(REMOTE)
            judge_text(" ".join(word.text for word in code))
            return
        operands = [word for word in words[1:] if word.text == "-" or not word.text.startswith("-")]
        if "awk" in name:
            judge_text("\n".join(word.text for word in operands))
        elif operands:
            judge_file(self.assessment, operands[:1], command, judge_text)
        elif "-m" not in args and not {"-V", "-v", "--version", "-h", "--help"} & set(args):
            judge_input(self.assessment, command, judge_text)

    def _find(self, words: list[Word], command: ShellCommand, depth: int) -> None:
        args = [word.text for word in words[1:]]
        roots = []
        for arg in args:
            if arg.startswith(("-", "(", "!")) and arg not in ("-H", "-L", "-P"):
                break
            roots += [arg] if not arg.startswith("-") else []
        before = set(self.assessment.kinds)
        if "-delete" in args:
            self.assessment.ask(FOUND)
        self.assessment.placeholder = "{}"
        for number, arg in enumerate(args):
            if arg in ("-fprint", "-fprint0", "-fprintf", "-fls"):
                self.assessment.note_write("".join(args[number + 1 : number + 2]))
            if arg in ("-exec", "-execdir", "-ok", "-okdir"):
                rest = words[number + 2 :]
                end = next((i for i, word in enumerate(rest) if word.text in (";", "+")), len(rest))
                self._call(rest[:end], command, depth + 1)
        self.assessment.placeholder = ""
        if {FOUND, RECURSIVE} & (set(self.assessment.kinds) - before):
            for root in roots or ["."]:
                self.assessment.note_delete(root)

    def _container(self, args: Sequence[str], words: list[Word], command: ShellCommand, depth: int) -> None:
        operands = operands_of(args)
        verbs = set(operands[:4] if {"compose", "-f", "--file"} & set(args) else operands[:2])
        if verbs & {"exec", "run"}:
            for number, arg in enumerate(args):
                if number and command_name(arg) in ALL | SQL_CLIENTS:
                    self._call(words[number + 1 :], command, depth + 1)
                    return
        elif verbs & {"stop", "kill", "down", "rm", "rmi", "prune", "restart", "delete"}:
            self.assessment.ask(CONTAINERS)

    def _git(self, args: Sequence[str], depth: int) -> None:
        for number, arg in enumerate(args[:-1]):
            if arg == "-c" and "=!" in args[number + 1]:
                self.judge(args[number + 1].partition("=!")[2], {}, depth + 1)
        verb, *rest = after_options(args, "Cc") or [""]
        for number, arg in enumerate(rest):
            if (verb, arg) in _GIT_RUNS:
                self.judge(" ".join(rest[number + 1 :]), {}, depth + 1)
        if verb == "config":
            git_config(self.assessment, rest)
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
            self.assessment.ask(GIT)
