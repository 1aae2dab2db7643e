"""Judge every command of a script, and the commands that they run in turn. Pure.

Judged here are the commands that run others: wrappers such as `sudo` and `xargs`, shells, interpreters of
other languages, `find`, containers, `git`. For all others see `rules`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from . import rules
from .command_line import NO_INPUT, UNKNOWN, UNSET, Input, UnreadableCommand, Word
from .judged_paths import Places
from .shell import commands_of
from .verdict import CODE, FOUND, FRESH, GATEWAY, KILLS, OURSELVES, PROTECTED, RECURSIVE, REMOTE, UNSEEN

DEEPEST = 8
NONE: Mapping[str, str] = MappingProxyType({})

_STDIN = re.compile(r"-|/dev/stdin|(?:/dev|/proc/(?:self|\d+))/fd/\d+")
"""File names by which an interpreter is told to read its program from its input."""
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*\+?=")
_SSH_OPTION = re.compile(r"-\w*[bcDEeFIiJLlmOopQRSWw]")
_SHELL_OPTION = re.compile(r"[-+][oO]|--rcfile|--init-file")
_TAKES_TEXT = re.compile(r"-[a-zA-Z]*c[a-z]*|--command")
_NO_NAME = re.compile(rf"[{UNKNOWN}?*\s]|^\w+\[|\[.+\]|^-.")
"""Text in the place of a command name which only running the line would replace by the name."""
_KNOWN = (
    rules.TAKE_COMMANDS | rules.WRAPPERS | rules.WRITES | rules.COPIES | rules.CONTAINER_COMMANDS
    | rules.SQL_CLIENTS | rules.FETCHERS | set(rules.ASKED) | set(rules.REFUSED) | {"find"}
)  # fmt: skip


class ScriptJudge:
    """Judges the commands of a script, and the commands that they run."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.cwd: str | None = places.cwd
        """The directory of the next command; None if only running the line would tell."""
        self.refused: str | None = None
        self.kinds = dict[str, None]()
        self._item = ""
        """The text that stands for an item found by `find` or `xargs` in the current command."""
        self._functions = set[str]()
        self._fetched = set[str]()
        """Files that earlier commands of the line fetched."""

    def judge(
        self,
        text: str,
        depth: int = 0,
        given: Input = NO_INPUT,
        parameters: Mapping[str, str] = NONE,
        *,
        known: int = 0,
    ) -> None:
        """Judge every command of a script that is `given` this input and these parameters. The first `known`
        commands were judged before: they only set the directory."""
        if depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        commands = commands_of(text, {**self.places.variables, **parameters}, given=given, depth=depth)
        for number, command in enumerate(commands, start=1):
            for operator, target in command.input.redirects:
                self._redirect(operator, target.text)
            if command.texts[:1] == ["function"]:
                self._functions |= set(command.texts[1:])
            self._call(command.words, command.input, depth)
            if number == known:
                self.kinds.clear()

    def ask(self, *kinds: str) -> None:
        """Note that a person has to allow these kinds of harm."""
        self.kinds |= dict.fromkeys(kinds)

    def refuse(self, why: str) -> None:
        """Forbid the command line. The first reason is kept."""
        self.refused = self.refused or why

    def _redirect(self, operator: str, target: str) -> None:
        if ">" in operator and not (operator == ">&" and re.fullmatch(r"\d+|-", target)):
            self._write(target)
        if operator in (">&", "<&") and re.search(r"\$|`", target):
            self.ask(UNSEEN)  # a shell expands this target even if it is quoted
        if target.startswith(("/dev/tcp/", "/dev/udp/")):
            self.ask(REMOTE)

    # --- commands ---

    def _call(self, words: Sequence[Word], given: Input, depth: int) -> None:
        if depth > DEEPEST:
            raise UnreadableCommand("it is too deep")
        while words and _ASSIGNMENT.match(words[0].text):
            words = words[1:]
        if not words:
            return
        raw, texts = words[0].text, [word.text for word in words]
        name, args = _name(raw), texts[1:]
        if "/" in raw and self._resolve(raw) in self._fetched:
            self.ask(FRESH)
        if self._is_unseen(raw, name, args, depth):
            self.ask(UNSEEN)
        if raw in self._functions or (words[0].may_be_none and args and _is_known(args[0])):
            # A function may run its arguments, and the value of a variable may be empty.
            self._call(words[1:], given, depth + 1)
        inner = [text for word in words for one in word.inner for text in one.texts] if name == "kill" else []
        args = _after_options(args, re.compile("-[Cc]")) if name == "git" else args
        self._by_rules(name, [*args, *inner], given)
        self._writes(name, args)
        scripts = rules.found(rules.SCRIPTS[name], texts[1:]) if name in rules.SCRIPTS else []
        if any(scripts):
            for script in scripts:
                self.judge(script.replace("\n", " "), depth + 1, given)
        elif name in rules.WRAPPERS:
            self._wrapped(name, words, given, depth)
        elif name in rules.TAKE_COMMANDS:
            self._shell(name, words, given, depth)
        elif rules.PROGRAMS.fullmatch(name):
            self._program(name, words, given, depth)
        elif name == "find":
            self._find(words, given, depth)
        elif name in rules.CONTAINER_COMMANDS and {"exec", "run"} & set(args):
            at = min(texts.index(verb) for verb in ("exec", "run") if verb in args)
            self._call(words[_first(texts, at + 1, any_word=True) :], given, depth + 1)

    def _is_unseen(self, raw: str, name: str, args: Sequence[str], depth: int) -> bool:
        """Return whether only running the line would tell which command this name stands for."""
        return bool(
            (not name and args)
            or _NO_NAME.search(name)
            or (UNSET in name and (depth or re.search(r"^-\w*[rRf]", "\n".join(args), re.M)))
            or (self._item and self._item in raw)
            or (name in rules.EVALUATES and any(re.search(r"\[[^]]*(?:\$\(|`)", arg) for arg in args))
        )

    def _by_rules(self, name: str, args: Sequence[str], given: Input) -> None:
        text = "\n".join(arg.replace("\n", " ") for arg in args)
        if name in rules.SQL_CLIENTS:
            source = " ".join(given.source.texts) if given.source else ""
            text = f"{text}\n{given.text or ''}\n{source}"
        for why, pattern in rules.REFUSED.get("mkfs" if name.startswith("mkfs.") else name, ()):
            if pattern.search(text):
                self.refuse(why)
        self.ask(*(kind for kind, pattern in rules.ASKED.get(name, ()) if pattern.search(text)))
        own = rf"^[-+]?0*{self.places.pid}$|{re.escape(self.places.gateway_home)}"
        if name == "kill" and re.search(own, text, re.M):
            self.refuse(OURSELVES)
        if self._item and name in ("rm", "kill"):
            self.ask(FOUND if name == "rm" else KILLS)
        if name in ("cd", "pushd"):
            to = self._resolve("".join(rules.operands_of(args)[:1]) or self.places.user_home)
            self.cwd = None if UNKNOWN in to or UNSET in to or to.startswith("-") else to

    def _wrapped(self, name: str, words: Sequence[Word], given: Input, depth: int) -> None:
        """Judge a command that runs another one: `sudo`, `env`, `xargs` and the like."""
        texts = [word.text for word in words]
        if name == "command" and texts[1:2] in (["-v"], ["-V"]):
            return
        at, before = _first(texts, 1), self._item
        if name in ("xargs", "parallel"):
            option = re.search(r"^(?:-I\n?|--replace=)(.+)", "\n".join(texts[1:]), re.M)
            self._item = option[1] if option else "{}"
        if self._item and (at == len(words) or texts[at].startswith(":::")):
            self.ask(UNSEEN)  # the items that are found are the command
        elif name in ("parallel", "watch"):  # the command is handed to a shell
            self.judge(" ".join(texts[at:]), depth + 1, given)
        else:
            self._call(words[at:], given, depth + 1)
        self._item = before

    def _find(self, words: Sequence[Word], given: Input, depth: int) -> None:
        texts = [word.text for word in words]
        before, self._item = set(self.kinds), "{}"
        if "-delete" in texts:
            self.ask(FOUND)
        for at, text in enumerate(texts):
            if text in ("-exec", "-execdir", "-ok", "-okdir"):
                end = next((i for i in range(at, len(texts)) if texts[i] in (";", "+")), len(texts))
                self._call(words[at + 1 : end], given, depth + 1)
        self._item = ""
        if {FOUND, RECURSIVE} & (set(self.kinds) - before):
            text = "\n".join(text for text in texts[1:] if text not in ("-H", "-L", "-P"))
            for root in re.split(r"(?:\A|\n)[-(!]", text)[0].split("\n"):
                self._delete(root or ".")

    # --- commands as text ---

    def _shell(self, name: str, words: Sequence[Word], given: Input, depth: int) -> None:
        """Judge a command that takes commands as text: a shell, `eval`, `ssh`, `source` and the like."""
        words = [word for word in words if word.text != "--"]
        texts = [word.text for word in words]
        at = next((at for at, text in enumerate(texts) if at and _TAKES_TEXT.fullmatch(text)), 0)
        rest = words[len(words) - len(_after_options(texts[at or 1 :], _SHELL_OPTION)) :]
        if name == "ssh":
            before, self.cwd = self.cwd, self.places.user_home  # a login starts there
            after = _after_options(_after_options(texts[1:], _SSH_OPTION)[1:], _SSH_OPTION)
            self.judge(" ".join(after), depth + 1, given)
            self.cwd = before
        elif name == "eval":
            self._text(words[1:], given, depth, {})
        elif name in (".", "source"):
            self._file(words[1:2], given, "", depth)
        elif at:
            if self._item and self._item in (rest[0].text.split() if rest else [self._item])[:1]:
                self.ask(UNSEEN)
            given_texts = [word.text for word in rest[1:]]
            parameters = {str(number): text for number, text in enumerate(given_texts)}
            parameters |= dict.fromkeys("@*", " ".join(given_texts[1:]))
            self._text(rest[:1], given, depth, parameters)
            if rest and rest[0].may_be_none:
                self._text(rest[1:2], given, depth, {})
        elif name not in rules.SHELLS or not rest or re.match(r"-[a-z]*s", "".join(texts[1:2])):
            self._input(given, "", depth)
        else:
            self._file(rest[:1], given, "", depth)

    def _program(self, name: str, words: Sequence[Word], given: Input, depth: int) -> None:
        """Judge an interpreter of another language by the program text that it is given."""
        args = [word.text for word in words[1:]]
        operands = [word for word in words[1:] if word.text == "-" or not word.text.startswith("-")]
        if "-m" in args and args[args.index("-m") + 1 :][:1] == ["hermes_trio"]:
            self._by_rules("hermes-trio", args[args.index("-m") + 2 :], given)
        if (at := rules.code_at(name, args)) is not None:
            self._output(words[at + 1 : at + 2])
            self._judge_program(name, " ".join(args[at - 1 : at + 1]), depth)
        elif "awk" in name:
            self._judge_program(name, "\n".join(word.text for word in operands), depth)
        elif operands:
            self._file(operands[:1], given, name, depth)
        elif "-m" not in args and not {"-V", "-v", "--version", "-h", "--help"} & set(args):
            self._input(given, name, depth)

    def _judge_program(self, name: str, text: str, depth: int) -> None:
        kinds = rules.kinds_of_program(name, text)
        self.ask(*kinds)
        for inner in rules.strings_of(text):
            if rules.may_write(text):
                self._write(inner.lstrip("+<> "))
            if CODE in kinds:
                nested = ScriptJudge(self.places)
                try:
                    nested.judge(inner, depth + 1)
                except UnreadableCommand:
                    continue
                self.refused = self.refused or nested.refused

    def _text(self, words: Sequence[Word], given: Input, depth: int, parameters: Mapping[str, str]) -> None:
        """Judge a script that stands in the command line."""
        text = " ".join(word.text for word in words)
        if not self._output(words) or text.strip() != UNKNOWN or parameters:
            self.judge(text, depth + 1, given, parameters)

    def _input(self, given: Input, program: str, depth: int) -> None:
        """Judge the code that a command reads from its input, if it stands in the command line."""
        if given.text is not None and program:
            self._judge_program(program, given.text, depth)
        elif given.text is not None:
            self.judge(given.text, depth + 1)
        elif given.is_piped:
            self.ask(REMOTE)
            self._output([Word("", (given.source,))] if given.source else [])
        else:
            self._output([word for operator, word in given.redirects if "<" in operator])

    def _file(self, words: Sequence[Word], given: Input, program: str, depth: int) -> None:
        """Judge the run of the file with this name, which may stand for the command's input."""
        self._output(words)
        if self._fetched & {self._resolve(word.text) for word in words}:
            self.ask(FRESH)
        if any(_STDIN.fullmatch(word.text) for word in words):
            self._input(given, program, depth)

    def _output(self, words: Sequence[Word]) -> bool:
        """Judge the code in these words, where it is the output of other commands. Return whether it is."""
        names = {_name(one.texts[0]) for word in words for one in word.inner if one.words}
        if names & (rules.FETCHERS | rules.DECODERS):
            self.ask(REMOTE)
        elif names & rules.PRINTERS:
            self.ask(UNSEEN)
        return bool(names)

    # --- paths ---

    def _writes(self, name: str, args: Sequence[str]) -> None:
        """Note the paths that a command writes or deletes."""
        operands, text = rules.operands_of(args), "\n".join(args)
        in_place = name in rules.IN_PLACE and re.search(rules.IN_PLACE[name], text, re.M)
        written = operands if name in rules.WRITES or in_place else []
        outputs = rules.found(rules.OUTPUT[name], args) if name in rules.OUTPUT else []
        for path in [*written, *outputs]:
            self._write(path)
        if name in rules.FETCHERS:
            names = [operand.rpartition("/")[2] for operand in operands]
            self._fetched |= {self._resolve(path) for path in [*outputs, *names]}
        deletes = name == "rm" and re.search(r"^-[^-\n]*[rR]|^--r", text, re.M)
        for path in operands if deletes else operands[-1:] if name == "rsync" and "\n--del" in text else []:
            self._delete(path)
        when, option = rules.UNPACKS.get(name, (r"\Z\A.", ""))
        for path in (rules.found(option, args) or ["."]) if re.search(when, text, re.M) else []:
            self._files_into(path)
        if name in rules.COPIES:
            self._copies(name, args, operands)

    def _copies(self, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
        into = rules.found(rules.INTO, args) if name != "rsync" else []
        sources, text = operands if into else operands[:-1], "\n".join(args)
        is_whole = name == "mv" or re.search(r"^-\w*[rRa]|^--(recursive|archive)", text, re.M)
        is_linked = name == "ln" or (name == "cp" and re.search(r"^-\w*l|^--link", text, re.M))
        for target in into or operands[-1:]:
            is_folder = into or len(sources) > 1 or target.endswith(("/", ".", "~")) or self._holds(target)
            if sources:
                self._write(target)
            for source in sources:
                last = source.rstrip("/").rpartition("/")[2]
                if last in (".", "") or "*" in last or (name == "rsync" and source.endswith("/")):
                    self._files_into(target)
                elif is_folder:
                    self._write(f"{target}/{last}")
        for source in sources if is_whole or is_linked else []:
            # A link is a second name under which a file can be written; a directory takes its files along.
            if self._holds(source):
                self.ask(PROTECTED)
            if is_linked:
                self._write(source)

    def _resolve(self, target: str) -> str:
        return self.places.resolve(target, self.cwd)

    def _holds(self, target: str) -> bool:
        return any(map(self.places.holds_protected, self._names(target)))

    def _names(self, target: str) -> set[str]:
        """Return the names of the file at a path: as written, and as the kernel finds it."""
        path = self.places.absolute(target, self.cwd)
        is_known = path.startswith("/") and not set(path) & {UNKNOWN, UNSET}
        return {self._resolve(target)} | ({self.places.real(path)} if is_known else set())

    def _write(self, target: str) -> None:
        """Note that the file at this path is written."""
        for path in self._names(target):
            if self.places.is_raw(path):
                self.refuse("it overwrites a disk")
            elif self.places.is_protected(path):
                self.ask(PROTECTED, *([GATEWAY] if self.places.is_gateways(path) else []))

    def _files_into(self, target: str) -> None:
        """Note that files with unknown names are put into this directory."""
        self._write(target)
        if self._holds(target):
            self.ask(PROTECTED)

    def _delete(self, target: str) -> None:
        """Note that everything below this path is deleted."""
        if self.places.is_essential(self._resolve(target)):
            self.refuse("it deletes files that the system, the login or the gateway depends on")


def _name(text: str) -> str:
    """Return the name of a command without its directory."""
    return text.rpartition("/")[2].lower().removesuffix(".exe")


def _first(texts: Sequence[str], at: int, *, any_word: bool = False) -> int:
    """Return the place of the command after the options of another. A word after an option may be its value:
    the first known command counts, else the first word. With `any_word` it may stand after any word."""
    first = len(texts)
    for place, text in enumerate(texts[at:], start=at):
        sets = text.startswith("=") or _ASSIGNMENT.match(text)
        if text.startswith("-") or (sets and texts[0] in ("env", "sudo")):
            continue
        if _is_known(text) or UNKNOWN in text or UNSET in text:
            return place
        first = min(first, place)
        is_value = texts[place - 1].startswith("-") or re.fullmatch(r"[\d.]+\w?|.*/.*", text)
        if text.startswith(":::") or not (any_word or is_value):
            break
    return first


def _is_known(text: str) -> bool:
    return _name(text) in _KNOWN or rules.PROGRAMS.fullmatch(_name(text)) is not None


def _after_options(args: Sequence[str], with_value: re.Pattern[str]) -> list[str]:
    """Return the first operand and every argument after it."""
    at = 0
    while at < len(args) and re.match(r"[-+].", args[at]):
        at += 2 if with_value.fullmatch(args[at]) else 1
    return list(args[at:])
