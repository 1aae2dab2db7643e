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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from .places import Places
from .shell import UNKNOWN, UNSET, Command, Unreadable, Word, commands_of, known_output, named, normalised

DEEPEST = 8

RECURSIVE = "deletes recursively"
FOUND = "deletes or changes whatever is found"
RIGHTS = "gives rights to everybody, or takes files over"
PROTECTED = "changes files of the system, of a login, or secrets"
RAW = "writes whole disks or images"
SQL = "drops or empties tables"
SERVICES = "stops services"
KILLS = "ends processes by name"
REMOTE = "runs what comes from elsewhere"
UNSEEN = "runs what only running it would tell"
CODE = "runs a program text that deletes, or that runs commands"
CONTAINERS = "stops or removes containers"
GIT = "throws away work in git"
SUDO = "becomes another user with a password or a shell"
FRESH = "runs what it has just made executable or fetched"
SCHEDULE = "changes what runs by the clock"
UNREADABLE = "cannot be read as a shell would read it"


@dataclass(frozen=True, slots=True)
class Free:
    """Nothing is known against it."""


@dataclass(frozen=True, slots=True)
class NeedsYes:
    """Somebody has to allow it."""

    kinds: tuple[str, ...]
    """What it does, each in words that a person reads and that an allowance is kept under."""


@dataclass(frozen=True, slots=True)
class Refused:
    """It is never run."""

    why: str


Verdict = Free | NeedsYes | Refused

_WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("ugpCrtTRUDh", 0), "doas": ("uC", 0), "env": ("uCS", 0), "nice": ("n", 0), "exec": ("a", 0),
    "timeout": ("ks", 1), "gtimeout": ("ks", 1), "stdbuf": ("ioe", 0), "nohup": ("", 0), "setsid": ("", 0),
    "command": ("", 0), "builtin": ("", 0), "ionice": ("cnpPu", 0), "time": ("fo", 0), "chrt": ("", 1),
    "taskset": ("", 1), "xargs": ("nPILdasE", 0), "parallel": ("jNnI", 0), "watch": ("n", 0),
    "chroot": ("", 1), "strace": ("eopsuE", 0), "ltrace": ("eopsu", 0), "busybox": ("", 0), "toybox": ("", 0),
    "caffeinate": ("tw", 0), "gosu": ("", 1), "su-exec": ("", 1), "unbuffer": ("", 0), "flock": ("wE", 1),
    "unshare": ("", 0), "nsenter": ("t", 0), "systemd-run": ("pu", 0), "fakeroot": ("", 0),
}  # fmt: skip
"""Commands that run another one: their letters that take a value, and the words before the command."""
_LONG_WITH_VALUE = named(
    "user group host prompt chdir kill-after signal adjustment max-args max-procs delimiter arg-file "
    "max-lines unset timeout wait interval jobs property"
)
_SHELLS = named("sh bash dash zsh ksh mksh ash fish tcsh csh rbash")
_PROGRAMS = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|deno|bun|osascript|awk|gawk|mawk)[0-9.]*")
_FETCHERS = named("curl wget fetch aria2c http https nc ncat netcat socat ftp lynx w3m")
_DECODERS = named("base64 base32 basenc xxd openssl uudecode rev tr gpg gunzip zcat")
_SQL_CLIENTS = named("psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus duckdb cockroach clickhouse-client")
_SQL = re.compile(
    r"\bdrop\s+(table|database|schema|view|index|user|role)\b|\btruncate\s+(table\s+)?\w|"
    r"\bdelete\s+from\s+[^\s;]+\s*(?:;|$|(?!.*\bwhere\b))",
    re.IGNORECASE,
)
_RUNS = re.compile(
    r"rmtree|\bos\s*\.\s*(?:system|popen|remove|unlink|rmdir|removedirs|kill|exec\w*)|subprocess|pty\.spawn|__import__|"
    r"\bexec\s*\(|\beval\s*\(|child_process|unlinkSync|rmSync|rmdirSync|FileUtils|\bunlink\b|\bsystem\b|\bqx\b|"
    r"\bpopen\b|shell_exec|passthru|do shell script|socket|b64decode|urlopen|urllib|requests\s*\.|LWP"
)
_STRINGS = re.compile(r"\"((?:[^\"\\\n]|\\.)+)\"|'((?:[^'\\\n]|\\.)+)'")
_FORK_BOMB = re.compile(r"(?<![\w:.])([\w:.]{1,64})\(\)\{[^{}]{0,200}\1\|\1&")
_FOR_ALL = re.compile(r"(^|,)[ugoa]*[oa][ugoa]*[+=][rxXst]*w")
_LIFECYCLE = named("stop restart service drain run update")
_CONTAINERS = named("docker podman nerdctl docker-compose podman-compose")
_STOPPING = named("stop restart try-restart disable mask kill")
_ENDS_MACHINE = named("shutdown reboot halt poweroff init telinit")
_DISKS = named("mke2fs wipefs blkdiscard mkswap shred fdisk sfdisk sgdisk parted hdparm")
_WRITERS = named("tee truncate touch ed ex patch")
_COPIERS = named("cp mv ln install rsync scp ditto")
_ALL = (
    named("rm dd kill killall pkill shutdown reboot halt poweroff init chmod chown mkfs curl wget") | _SHELLS
)
"""What a pattern in the place of a name is compared with: `/bin/r?` is `rm`."""

OURSELVES = (
    "it stops, restarts or replaces the gateway that runs you. Ask the person to use /restart, or to do "
    "it outside"
)


def judge(command: str, places: Places) -> Verdict:
    """What is known against a command."""
    judging = _Judging(places)
    try:
        text = normalised(command)
        if _FORK_BOMB.search(re.sub(r"\s+", "", text)):
            judging.refuse("it starts processes without end")
        judging.script(text, {}, 0)
    except Unreadable:
        judging.ask(UNREADABLE)
    if judging.refused is not None:
        return Refused(judging.refused)
    return NeedsYes(tuple(judging.kinds)) if judging.kinds else Free()


def _base(name: str) -> str:
    """The name of a command without its directory, and what a pattern in its place would find."""
    name = name.rpartition("/")[2].lower().removesuffix(".exe")
    if any(char in name for char in "?*["):
        return next((each for each in sorted(_ALL) if fnmatchcase(each, name)), name)
    return name


def _operands(args: Sequence[str]) -> list[str]:
    if "--" in args:
        end = list(args).index("--")
        return [*_operands(args[:end]), *args[end + 1 :]]
    return [arg for arg in args if not arg.startswith("-") or arg == "-"]


def _letters(args: Sequence[str]) -> set[str]:
    return {char for arg in args if re.match(r"-[^-]", arg) for char in arg[1:]}


def _has_long(args: Sequence[str], *names: str) -> bool:
    """Whether one of these is among the long options, as short as people may write it."""
    given = [arg[2:].partition("=")[0] for arg in args if re.match(r"--\w", arg)]
    return any(name.startswith(each) for each in given for name in names)


class _Judging:
    """What has been found so far."""

    def __init__(self, places: Places) -> None:
        self.places = places
        self.cwd: str | None = places.cwd
        self.refused: str | None = None
        self.kinds: dict[str, None] = {}
        self._fresh: set[str] = set()
        self._finds = False

    def refuse(self, why: str) -> None:
        self.refused = self.refused or why

    def ask(self, kind: str) -> None:
        self.kinds[kind] = None

    def script(self, text: str, given: dict[str, str], depth: int) -> None:
        """Judge every command of a script."""
        if depth > DEEPEST:
            raise Unreadable("it is too deep")
        for command in commands_of(text, {**self.places.variables, **given}, depth=depth):
            for operator, target in command.redirects:
                if ">" in operator and not (operator == ">&" and re.fullmatch(r"\d+|-", target.text)):
                    self._written(target.text)
                if target.text.startswith(("/dev/tcp/", "/dev/udp/")):
                    self.ask(REMOTE)
            self._call(list(command.words), command, depth)

    # --- one command ---

    def _call(self, words: list[Word], command: Command, depth: int) -> None:
        while words and re.match(r"[A-Za-z_]\w*\+?=", words[0].text):
            words = words[1:]
        if not words:
            return
        raw, args = words[0].text, [word.text for word in words[1:]]
        name = _base(raw)
        is_computed = UNKNOWN in name or (self._finds and "{}" in name)
        if is_computed or (UNSET in name and _letters(args) & set("rRf")):
            self.ask(UNSEEN)
        if "/" in raw and self.places.resolved(raw, self.cwd) in self._fresh:
            self.ask(FRESH)
        if name in _WRAPPERS:
            self._wrapped(name, words, command, depth)
        elif name in _SHELLS or name in (
            ".",
            "source",
            "eval",
            "su",
            "runuser",
            "script",
            "trap",
            "alias",
            "ssh",
        ):
            self._shell(name, words, command, depth)
        elif _PROGRAMS.fullmatch(name):
            self._program(name, words, command, depth)
        elif name == "find":
            self._find(words, command, depth)
        else:
            self._rules(name, args, words, command, depth)

    def _wrapped(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """A command that runs another."""
        with_value, skipped = _WRAPPERS[name]
        if name == "sudo":
            options = words[
                1 : 1 + next((i for i, w in enumerate(words[1:]) if not w.text.startswith("-")), 99)
            ]
            texts = [word.text for word in options]
            if _letters(texts) & set("SAsi") or _has_long(texts, "stdin", "askpass", "shell", "login"):
                self.ask(SUDO)
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
                at += 1 + (text[2:] in _LONG_WITH_VALUE)
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
        before, self._finds = self._finds, self._finds or name in ("xargs", "parallel")
        self._call(words[at:], command, depth + 1)
        self._finds = before

    def _shell(self, name: str, words: list[Word], command: Command, depth: int) -> None:
        """Something that reads commands."""
        args = [word.text for word in words[1:]]
        if name == "alias":
            for arg in args:
                self.script(arg.partition("=")[2], {}, depth + 1)
            return
        if name == "ssh":
            rest = _after_options(args, "bcDEeFIiJLlmOopQRSWw")[1:]
            self.script(" ".join(rest), {}, depth + 1)
            return
        if name in ("eval", "trap"):
            code = words[1:] if name == "eval" else words[1:2]
            if self._brings(code):
                self.ask(REMOTE)
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
            if self._brings(code):
                self.ask(REMOTE)
            elif self._finds and code and code[0].text.strip() == "{}":
                self.ask(UNSEEN)
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
            if _RUNS.search(text):
                self.ask(CODE)
                for found in _STRINGS.finditer(text):
                    nested = _Judging(self.places)
                    try:
                        nested.script(found[1] or found[2], {}, depth + 1)
                    except Unreadable:
                        continue
                    if nested.refused is not None:
                        self.refuse(nested.refused)
            if _SQL.search(text) and re.search(r"\bexecute|cursor|connect", text):
                self.ask(SQL)

        if "-m" in args and args[args.index("-m") + 1 : args.index("-m") + 2] == ["hermes_trio"]:
            self._lifecycle(args[args.index("-m") + 2 :])
        if any(arg.startswith("-i") or re.match(r"-[pn]+i", arg) for arg in args) and name in (
            "perl",
            "ruby",
        ):
            for arg in _operands(args):
                self._written(arg)
        takes = {
            "python": "c",
            "pypy": "c",
            "perl": "eE",
            "ruby": "e",
            "php": "r",
            "lua": "e",
            "osascript": "e",
        }
        letters = takes.get(name.rstrip("0123456789."), "ep")
        for number, arg in enumerate(args):
            if (re.match(r"-[^-]", arg) and set(arg[1:]) & set(letters)) or arg in (
                "--eval",
                "--print",
                "eval",
            ):
                code = words[number + 2 : number + 3]
                if self._brings(code):
                    self.ask(REMOTE)
                look(arg + " " + " ".join(word.text for word in code))
                return
        operands = [word for word in words[1:] if word.text == "-" or not word.text.startswith("-")]
        if "awk" in name:
            look(operands[0].text if operands else "")
        elif operands and operands[0].text not in ("-", "/dev/stdin"):
            self._run_file(operands[:1])
        elif "-m" not in args and not {"-V", "-v", "--version", "-h", "--help"} & set(args):
            self._reads_code(command, look)

    def _reads_code(self, command: Command, look: object) -> None:
        """Something runs what it reads: that is looked through, if it stands in the line."""
        assert callable(look)  # noqa: S101
        source = known_output(command.source)
        if command.text_in is not None:
            look(command.text_in)
        elif command.is_piped and source is not None and UNKNOWN not in source:
            look(source)
        elif command.is_piped or any(self._brings([word]) for _, word in command.redirects):
            self.ask(REMOTE)

    def _run_file(self, words: Sequence[Word]) -> None:
        if self._brings(words):
            self.ask(REMOTE)
        for word in words:
            if self.places.resolved(word.text, self.cwd) in self._fresh:
                self.ask(FRESH)

    def _brings(self, words: Sequence[Word]) -> bool:
        """Whether a part of these words comes from the net, or was made unreadable."""
        names = {_base(command.texts[0]) for word in words for command in word.inner if command.words}
        return bool(names & (_FETCHERS | _DECODERS))

    def _find(self, words: list[Word], command: Command, depth: int) -> None:
        args = [word.text for word in words[1:]]
        roots = []
        for arg in args:
            if arg.startswith(("-", "(", "!")):
                break
            roots.append(arg)
        before = set(self.kinds)
        if "-delete" in args:
            self.ask(FOUND)
        self._finds = True
        for number, arg in enumerate(args):
            if arg in ("-exec", "-execdir", "-ok", "-okdir"):
                rest = words[number + 2 :]
                end = next((i for i, word in enumerate(rest) if word.text in (";", "+")), len(rest))
                self._call(rest[:end], command, depth + 1)
        self._finds = False
        if {FOUND, RECURSIVE} & (set(self.kinds) - before):
            for root in roots or ["."]:
                self._deleted(root)

    # --- files ---

    def _written(self, target: str) -> None:
        if self.places.is_raw(self.places.resolved(target, self.cwd)):
            self.refuse("it writes over a disk")
        elif self.places.is_protected(self.places.resolved(target, self.cwd)):
            self.ask(PROTECTED)

    def _deleted(self, target: str) -> None:
        if self.places.is_ground(self.places.resolved(target, self.cwd)):
            self.refuse("it deletes what the system, the login or the gateway stands on")

    # --- by name ---

    def _rules(self, name: str, args: list[str], words: list[Word], command: Command, depth: int) -> None:
        operands, letters = _operands(args), _letters(args)
        recursive = bool(letters & set("rR")) or _has_long(args, "recursive")
        if name in ("cd", "pushd"):
            to = self.places.resolved(operands[0], self.cwd) if operands else self.places.user_home
            self.cwd = None if UNKNOWN in to or UNSET in to or to.startswith("-") else to
        elif name in ("rm", "srm", "unlink", "trash"):
            self._rm(name, args, operands, recursive=recursive)
        elif name in _ENDS_MACHINE:
            if not _has_long(args, "help", "version") and (
                name not in ("init", "telinit") or {"0", "6"} & set(operands)
            ):
                self.refuse("it ends the machine")
        elif name.startswith("mkfs"):
            self.refuse("it makes a disk empty")
        elif name in _DISKS:
            self._disks(args, operands, name)
        elif name == "dd":
            for arg in args:
                if arg.startswith("of=") and not arg.startswith(("of=/dev/null", "of=/dev/stdout")):
                    self.ask(RAW)
                    self._written(arg[3:])
        elif name in ("kill", "killall", "pkill", "skill"):
            self._kill(name, args, operands, words)
        elif name in ("chmod", "chown", "chgrp"):
            self._rights(name, args, operands, recursive=recursive)
        elif name in _COPIERS:
            self._copied(name, args, operands)
        elif name in _WRITERS:
            for operand in operands:
                self._written(operand)
        elif name in ("sed", "gsed"):
            edits = any(re.match(r"-[nErsz]*i", arg) for arg in args) or _has_long(args, "in-place")
            for operand in operands if edits else ():
                self._written(operand)
        elif name in ("curl", "wget"):
            self._fetched(name, args, operands)
        elif name in ("systemctl", "service", "launchctl", "rc-service", "loginctl"):
            self._service(args, operands)
        elif name in ("hermes-trio", "hermes_trio", "hermes"):
            self._lifecycle(args)
        elif name in _CONTAINERS or name == "kubectl":
            self._containers(operands, args, words, command, depth)
        elif name == "git":
            self._git(args, depth)
        elif name == "crontab" and (
            "r" in letters or [o for o in operands if o != "-"] or "-" in args or command.is_piped
        ):
            self.ask(SCHEDULE)
        elif name in ("powershell", "pwsh"):
            if any(
                arg.lower() == "-ec" or (len(arg) > 1 and "-encodedcommand".startswith(arg.lower()))
                for arg in args
            ):
                self.ask(UNSEEN)
        elif name in ("nc", "ncat", "netcat", "socat") and (
            "e" in letters or any("exec:" in arg.lower() for arg in args)
        ):
            self.ask(REMOTE)
        elif name in _SQL_CLIENTS or name in ("dropdb", "mysqladmin"):
            text = "\n".join([*args, command.text_in or "", known_output(command.source) or ""])
            if _SQL.search(text) or name == "dropdb" or (name == "mysqladmin" and "drop" in operands):
                self.ask(SQL)

    def _rm(self, name: str, args: Sequence[str], operands: Sequence[str], *, recursive: bool) -> None:
        if recursive:
            self.ask(RECURSIVE)
        if self._finds:
            self.ask(FOUND)
        if _has_long(args, "no-preserve-root") and "--no-preserve-root" in args:
            self.refuse("it deletes what the system stands on")
        for operand in operands:
            if recursive:
                self._deleted(operand)
            self._written(operand)
            if self.places.is_ground(self.places.resolved(operand, self.cwd)):
                self.ask(PROTECTED)

    def _disks(self, args: Sequence[str], operands: Sequence[str], name: str) -> None:
        lists = _has_long(args, "list", "help", "version") or _letters(args) & set("lp")
        if not lists and (any(self.places.is_raw(operand) for operand in operands)):
            self.refuse("it makes a disk empty")
        elif name == "shred":
            self.ask(RAW)

    def _kill(self, name: str, args: Sequence[str], operands: Sequence[str], words: Sequence[Word]) -> None:
        inner = " ".join(text for word in words for command in word.inner for text in command.texts)
        if name != "kill":
            self.ask(KILLS)
            if any("hermes" in arg.lower() for arg in args):
                self.refuse(OURSELVES)
            return
        targets = list(args)
        if (
            targets
            and re.match(r"-(\w+|-signal=?.*)$", targets[0])
            and (targets[0] != "-1" or len(targets) > 1)
        ):
            targets = targets[1 + (targets[0] in ("-s", "-n", "--signal")) :]
        if "-1" in targets:
            self.refuse("it ends every process of the machine")
        if any(target.lstrip("-") == str(self.places.pid) for target in targets):
            self.refuse(OURSELVES)
        if "hermes" in inner.lower() or self.places.gateway_home in inner:
            self.refuse(OURSELVES)
        if "pgrep" in inner or "pidof" in inner:
            self.ask(KILLS)

    def _rights(self, name: str, args: Sequence[str], operands: Sequence[str], *, recursive: bool) -> None:
        what, targets = (operands[0], operands[1:]) if operands else ("", [])
        if name == "chmod":
            mode = next((arg for arg in args if re.fullmatch(r"[0-7]{3,5}|[-+=ugoarwxXst,]{2,}", arg) and not
                         re.fullmatch(r"-[Rcfv]+", arg)), what)  # fmt: skip
            opens = int(mode[-1]) & 2 if mode.isdigit() else _FOR_ALL.search(mode)
            if opens or (self._finds and recursive):
                self.ask(RIGHTS)
            if re.search(r"\+[rwst]*x", mode) or (mode.isdigit() and int(mode[-3]) & 1):
                self._fresh |= {self.places.resolved(target, self.cwd) for target in targets}
        elif recursive and re.match(r"(root|0)\b", what):
            self.ask(RIGHTS)
        for target in targets:
            place = self.places.resolved(target, self.cwd)
            if self.places.is_protected(place) or (recursive and self.places.is_ground(place)):
                self.ask(PROTECTED)

    def _copied(self, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
        into = [arg.partition("=")[2] for arg in args if arg.startswith("--target-directory=")]
        into += [args[number + 1] for number, arg in enumerate(args[:-1]) if arg == "-t"]
        for target in into or operands[-1:]:
            if target == operands[-1:] and len(operands) < 2 and name != "ln":
                continue
            self._written(target)
        for target in operands[:-1] if name == "mv" else ():
            if self.places.is_ground(self.places.resolved(target, self.cwd)):
                self.ask(PROTECTED)
            self._written(target)

    def _fetched(self, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
        named = "o" if name == "curl" else "O"
        files = [args[n + 1] for n, arg in enumerate(args[:-1]) if re.fullmatch(rf"-[a-zA-Z]*{named}", arg)]
        files += [
            arg.partition("=")[2] for arg in args if arg.startswith(("--output=", "--output-document="))
        ]
        files += [args[n + 1] for n, arg in enumerate(args[:-1]) if arg in ("--output", "--output-document")]
        if not files and (name == "wget" or "O" in _letters(args)):
            files = [operand.rpartition("/")[2] for operand in operands]
        for file in files:
            if file != "-":
                self._written(file)
                self._fresh.add(self.places.resolved(file, self.cwd))

    def _service(self, args: Sequence[str], operands: Sequence[str]) -> None:
        verbs = set(operands[:2]) | {arg for arg in args if arg in _STOPPING}
        if verbs & {"poweroff", "reboot", "halt", "kexec"}:
            self.refuse("it ends the machine")
        if verbs & (_STOPPING | {"bootout", "unload", "remove", "kickstart", "isolate"}):
            if any("hermes" in arg.lower() for arg in args):
                self.refuse(OURSELVES)
            self.ask(SERVICES)

    def _lifecycle(self, args: Sequence[str]) -> None:
        operands = _operands(args)
        if set(operands[:2]) & _LIFECYCLE and not {"--help", "-h"} & set(args):
            self.refuse(OURSELVES)

    def _containers(
        self, operands: Sequence[str], args: Sequence[str], words: list[Word], command: Command, depth: int
    ) -> None:
        verbs = set(operands[:4] if {"compose", "-f", "--file"} & set(args) else operands[:2])
        if verbs & {"exec", "run"}:
            for number, arg in enumerate(args):
                if number and _base(arg) in _ALL | _SQL_CLIENTS:
                    self._call(words[number + 1 :], command, depth + 1)
                    return
        elif verbs & {"stop", "kill", "down", "rm", "rmi", "prune", "restart", "delete"}:
            self.ask(CONTAINERS)

    def _git(self, args: Sequence[str], depth: int) -> None:
        for number, arg in enumerate(args[:-1]):
            if arg == "-c" and "=!" in args[number + 1]:
                self.script(args[number + 1].partition("=!")[2], {}, depth + 1)
        verb, *rest = _after_options(args, "Cc") or [""]
        letters = _letters(rest)
        forced = "f" in letters or _has_long(rest, "force", "force-with-lease")
        throws = {
            "reset": "--hard" in rest,
            "push": forced
            or any(operand.startswith("+") for operand in _operands(rest))
            or "--mirror" in rest,
            "clean": forced and not ("n" in letters or "--dry-run" in rest),
            "branch": "D" in letters or (forced and ("d" in letters or _has_long(rest, "delete"))),
        }
        if throws.get(verb, False):
            self.ask(GIT)


def _after_options(args: Sequence[str], with_value: str) -> list[str]:
    """The first word that is no option, and all behind it."""
    rest: Iterator[str] = iter(args)
    for arg in rest:
        if not arg.startswith("-"):
            return [arg, *rest]
        if len(arg) == 2 and arg[1] in with_value:
            next(rest, None)
    return []
