"""Rules for commands by their name, for commands that run no other command. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from .argv import has_long, letters_of, operands_of
from .command_line import UNKNOWN, UNSET, ShellCommand, Word, known_output, named
from .command_tables import SETS_UP, SQL_CLIENTS, SQL_TEXT
from .verdict import (
    FOUND,
    GATEWAY,
    KILLS,
    LATER,
    OURSELVES,
    PROTECTED,
    RAW,
    RECURSIVE,
    REMOTE,
    RIGHTS,
    SCHEDULE,
    SERVICES,
    SQL,
    UNSEEN,
    Assessment,
)

_FOR_ALL = re.compile(r"(^|,)[ugoa]*[oa][ugoa]*[+=][rxXst]*w")
_LIFECYCLE = named("stop restart service drain run update")
_STOPPING = named("stop restart try-restart disable mask kill")
_UNPACKERS = {"tar": "C", "bsdtar": "C", "unzip": "d", "7z": "o", "cpio": "D"}
"""Commands that unpack files into a directory, and the option letter that names the directory."""
_TYPES = named("send-keys send stuff paste-buffer pasteb paste")
"""Commands of tmux and screen that type into a terminal, where any program may read the text."""
_LOOKS_ONLY = named("get list ls debug")
_DECIDES = {"pairing": named("approve revoke"), "setup": None, "config": None, "sessions": named("delete")}
"""Our own commands that change access or configuration, and their words; None stands for any word."""
_SHOWS = named("show check path list")
_GIT_RUNS_BY = re.compile(
    r"core\.(hookspath|fsmonitor|sshcommand|editor|pager|askpass|gitproxy|attributesfile|excludesfile|worktree)|"
    r"(alias|filter|pager|url|include|includeif|credential|gpg|hook|man|browser|protocol|uploadpack)\.|"
    r"(sequence\.editor|init\.templatedir|diff\.external|interactive\.difffilter)$|"
    r".*\.(cmd|command|driver|textconv|program|helper|update|uploadpack|receivepack|vcs|proxy|clean|smudge)$",
    re.IGNORECASE,
)
"""The settings of git that name a program, or a file that names one."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A command as a rule sees it."""

    name: str
    args: Sequence[str]
    operands: Sequence[str]
    letters: set[str]
    """The letters of the short options."""
    words: Sequence[Word]
    command: ShellCommand

    @property
    def recursive(self) -> bool:
        return bool(self.letters & set("rR")) or self.has_long("recursive")

    def has_long(self, *names: str) -> bool:
        return has_long(self.args, *names)


def judge_by_name(
    assessment: Assessment, name: str, args: Sequence[str], words: Sequence[Word], command: ShellCommand
) -> None:
    """Note the kinds of harm that a command of this name may do, if it runs no other command."""
    rule = _make_file_system if name.startswith("mkfs") else _RULES.get(name)
    if rule is not None:
        rule(assessment, _Call(name, args, operands_of(args), letters_of(args), words, command))


def _change_directory(assessment: Assessment, call: _Call) -> None:
    to = assessment.resolve(call.operands[0]) if call.operands else assessment.places.user_home
    assessment.cwd = None if UNKNOWN in to or UNSET in to or to.startswith("-") else to


def _end_machine(assessment: Assessment, call: _Call) -> None:
    ends = call.name not in ("init", "telinit") or {"0", "6"} & set(call.operands)
    if ends and not call.has_long("help", "version"):
        assessment.refuse("it shuts the machine down")


def _make_file_system(assessment: Assessment, call: _Call) -> None:
    assessment.refuse("it erases a disk")


def _dd(assessment: Assessment, call: _Call) -> None:
    for arg in call.args:
        if arg.startswith("of=") and not arg.startswith(("of=/dev/null", "of=/dev/stdout")):
            assessment.ask(RAW)
            assessment.note_write(arg[3:])


def _fuser(assessment: Assessment, call: _Call) -> None:
    if "k" in call.letters or call.has_long("kill"):
        assessment.ask(KILLS)


def _write(assessment: Assessment, call: _Call) -> None:
    for operand in call.operands:
        assessment.note_write(operand)


def _sort(assessment: Assessment, call: _Call) -> None:
    for file in _values(call.args, "o", "output"):
        assessment.note_write(file)


def _sed(assessment: Assessment, call: _Call) -> None:
    if any(re.match(r"-[nErsz]*i", arg) for arg in call.args) or call.has_long("in-place"):
        _write(assessment, call)


def _accounts(assessment: Assessment, call: _Call) -> None:
    assessment.ask(PROTECTED)


def _terminal_multiplexer(assessment: Assessment, call: _Call) -> None:
    if _TYPES & set(call.operands):
        assessment.ask(UNSEEN)


def _at(assessment: Assessment, call: _Call) -> None:
    if not call.letters & set("lqcv"):
        assessment.ask(SCHEDULE)


def _crontab(assessment: Assessment, call: _Call) -> None:
    files = [operand for operand in call.operands if operand != "-"]
    if call.letters & set("re") or files or "-" in call.args or call.command.is_piped:
        assessment.ask(SCHEDULE)


def _powershell(assessment: Assessment, call: _Call) -> None:
    lower = [arg.lower() for arg in call.args]
    if any(arg == "-ec" or (len(arg) > 1 and "-encodedcommand".startswith(arg)) for arg in lower):
        assessment.ask(UNSEEN)


def _netcat(assessment: Assessment, call: _Call) -> None:
    if "e" in call.letters or any("exec:" in arg.lower() for arg in call.args):
        assessment.ask(REMOTE)


def _database(assessment: Assessment, call: _Call) -> None:
    for operand in call.operands[:1] if call.name in ("sqlite3", "sqlite", "duckdb") else ():
        assessment.note_write(operand)
    text = "\n".join([*call.args, call.command.text_in or "", known_output(call.command.source) or ""])
    drops = call.name == "dropdb" or (call.name == "mysqladmin" and "drop" in call.operands)
    if drops or SQL_TEXT.search(text):
        assessment.ask(SQL)


def _rm(assessment: Assessment, call: _Call) -> None:
    if call.recursive:
        assessment.ask(RECURSIVE)
    if assessment.placeholder:
        assessment.ask(FOUND)
    if "--no-preserve-root" in call.args:
        assessment.refuse("it deletes files that the system depends on")
    for operand in call.operands:
        if call.recursive:
            assessment.note_delete(operand)
        assessment.note_write(operand)
        if assessment.places.is_essential(assessment.resolve(operand)):
            assessment.ask(PROTECTED)


def _disks(assessment: Assessment, call: _Call) -> None:
    lists = call.has_long("list", "help", "version") or call.letters & set("lp")
    if not lists and any(assessment.places.is_raw(operand) for operand in call.operands):
        assessment.refuse("it erases a disk")
    elif call.name == "shred":
        assessment.ask(RAW)


def _kill_by_name(assessment: Assessment, call: _Call) -> None:
    assessment.ask(KILLS)
    if any("hermes" in arg.lower() for arg in call.args):
        assessment.refuse(OURSELVES)


def _kill(assessment: Assessment, call: _Call) -> None:
    inner = " ".join(text for word in call.words for command in word.inner for text in command.texts)
    targets = list(call.args)
    if targets and re.match(r"-(\w+|-signal=?.*)$", targets[0]) and (targets[0] != "-1" or len(targets) > 1):
        targets = targets[1 + (targets[0] in ("-s", "-n", "--signal")) :]
    if "-1" in targets:
        assessment.refuse("it kills every process of the machine")
    if assessment.placeholder:
        assessment.ask(KILLS)
    if any(re.fullmatch(rf"[-+]?0*{assessment.places.pid}", target) for target in targets):
        assessment.refuse(OURSELVES)
    if "hermes" in inner.lower() or assessment.places.gateway_home in inner:
        assessment.refuse(OURSELVES)
    if re.search(r"\b(pgrep|pidof|ps|lsof|fuser)\b", inner):
        assessment.ask(KILLS)


def _rights(assessment: Assessment, call: _Call) -> None:
    mode_or_owner, targets = (call.operands[0], call.operands[1:]) if call.operands else ("", [])
    if call.name == "chmod":
        mode = next((arg for arg in call.args if re.fullmatch(r"[0-7]{3,5}|[-+=ugoarwxXst,]{2,}", arg) and not
                     re.fullmatch(r"-[Rcfv]+", arg)), mode_or_owner)  # fmt: skip
        opens = int(mode[-1]) & 2 if mode.isdigit() else _FOR_ALL.search(mode)
        if opens or (assessment.placeholder and call.recursive):
            assessment.ask(RIGHTS)
        if re.search(r"\+[rwst]*x", mode) or (mode.isdigit() and int(mode.zfill(3)[-3]) & 1):
            assessment.fresh |= {assessment.resolve(target) for target in targets}
    elif call.recursive and re.match(r"(root|0)\b", mode_or_owner):
        assessment.ask(RIGHTS)
    for target in targets:
        place = assessment.resolve(target)
        if assessment.places.is_protected(place) or (
            call.recursive and assessment.places.is_essential(place)
        ):
            assessment.ask(PROTECTED)


def _copy(assessment: Assessment, call: _Call) -> None:
    name, args, operands = call.name, call.args, call.operands
    into = [arg.partition("=")[2] for arg in args if arg.startswith("--target-directory=")]
    into += [args[number + 1] for number, arg in enumerate(args[:-1]) if arg == "-t"]
    if name == "rsync" and any(arg.startswith("--del") for arg in args):
        assessment.ask(RECURSIVE)
        assessment.note_delete("".join(operands[-1:]))
    sources = operands if into else operands[:-1]
    is_whole = bool(call.letters & set("rRa")) or call.has_long("recursive", "archive") or name == "mv"
    for target in into or operands[-1:]:
        if not sources and name != "ln":
            continue
        assessment.note_write(target)
        is_folder = bool(into) or len(sources) > 1 or target.endswith(("/", ".", "~"))
        is_folder = is_folder or assessment.places.holds_protected(assessment.resolve(target))
        for source in sources:
            last = source.rstrip("/").rpartition("/")[2]
            if last in (".", "") or "*" in last or (name == "rsync" and source.endswith("/")):
                assessment.note_files_into(target)
            elif is_whole and assessment.places.holds_protected(assessment.resolve(source)):
                assessment.ask(PROTECTED)  # the directory itself is copied, or moved away
            elif is_folder or not assessment.places.is_protected(assessment.resolve(source)):
                assessment.note_write(f"{target}/{last}")
    _link(assessment, call, sources)
    for target in operands[:-1] if name == "mv" else ():
        if assessment.places.is_essential(assessment.resolve(target)):
            assessment.ask(PROTECTED)
        assessment.note_write(target)


def _link(assessment: Assessment, call: _Call, sources: Sequence[str]) -> None:
    """Note links: a write to the new name changes the file that it leads to."""
    is_symbolic = "s" in call.letters or call.has_long("symbolic", "symbolic-link")
    links = is_symbolic or "l" in call.letters or call.has_long("link")
    if call.name != "ln" and not (call.name == "cp" and links):
        return
    target = call.operands[-1] if len(call.operands) > 1 else "."
    for source in sources or call.operands[:1]:
        assessment.note_link(source, target)
        assessment.note_link(source, f"{target}/{source.rstrip('/').rpartition('/')[2]}")
        if not is_symbolic:
            assessment.note_write(source)  # a hard link: nothing tells the second name from the first


def _unpack(assessment: Assessment, call: _Call) -> None:
    name, args = call.name, call.args
    letters = call.letters | set(args[0] if name == "tar" and args and args[0].isalpha() else "")
    if name == "tar" and not ("x" in letters or call.has_long("extract", "get")):
        return
    if name in ("unzip", "cpio", "7z") and letters & set("ltpvo") and "d" not in letters:
        return
    for target in _values(args, _UNPACKERS[name], "directory") or ["."]:
        assessment.note_files_into(target)


def _values(args: Sequence[str], letter: str, long: str) -> list[str]:
    """Return the values of the option with this letter or this long name."""
    values = [arg.partition("=")[2] for arg in args if arg.startswith(f"--{long}=")]
    for number, arg in enumerate(args):
        if arg == f"--{long}" or re.fullmatch(rf"-[a-zA-Z]*{letter}", arg):
            values += args[number + 1 : number + 2]
        elif re.match(rf"-{letter}.", arg):
            values.append(arg[2:])
    return values


def _set_up(assessment: Assessment, call: _Call) -> None:
    words = SETS_UP.get(call.name, frozenset())
    if set(call.operands[:2]) & words and not set(call.operands[:3]) & _LOOKS_ONLY:
        assessment.ask(LATER)


def git_config(assessment: Assessment, args: Sequence[str]) -> None:
    """Note the settings and files that `git config` changes with these arguments."""
    operands, reads = (
        operands_of(args),
        [arg for arg in args if re.match(r"--(get|list|show|name-only|type)", arg)],
    )
    if operands[:1] and operands[0] in ("set", "unset", "edit", "rename-section", "remove-section"):
        is_edit, operands = operands[0] == "edit", operands[1:]
    elif (operands[:1] and operands[0] in ("get", "list")) or (reads and not has_long(args, "add", "unset")):
        return
    else:
        is_edit = "e" in letters_of(args) or has_long(args, "edit")
        if len(operands) < 2 and not is_edit and not has_long(args, "unset", "unset-all", "remove-section"):
            return
    files = _values(args, "f", "file")
    for file in files:
        assessment.note_write(file)
    if has_long(args, "global", "system", "worktree") or is_edit or any(map(_GIT_RUNS_BY.match, operands)):
        assessment.ask(PROTECTED)


def _fetch(assessment: Assessment, call: _Call) -> None:
    args, letter = call.args, "o" if call.name == "curl" else "O"
    files = [args[n + 1] for n, arg in enumerate(args[:-1]) if re.fullmatch(rf"-[a-zA-Z]*{letter}", arg)]
    files += [arg.partition("=")[2] for arg in args if arg.startswith(("--output=", "--output-document="))]
    files += [args[n + 1] for n, arg in enumerate(args[:-1]) if arg in ("--output", "--output-document")]
    if not files and (call.name == "wget" or "O" in call.letters):
        files = [operand.rpartition("/")[2] for operand in call.operands]
    for file in files:
        if file != "-":
            assessment.note_write(file)
            assessment.fresh.add(assessment.resolve(file))


def _service(assessment: Assessment, call: _Call) -> None:
    verbs = set(call.operands[:2]) | {arg for arg in call.args if arg in _STOPPING}
    if verbs & {"poweroff", "reboot", "halt", "kexec"}:
        assessment.refuse("it shuts the machine down")
    if verbs & (_STOPPING | {"bootout", "unload", "remove", "kickstart", "isolate"}):
        if any("hermes" in arg.lower() for arg in call.args):
            assessment.refuse(OURSELVES)
        assessment.ask(SERVICES)
    _set_up(assessment, call)


def _our_command(assessment: Assessment, call: _Call) -> None:
    lifecycle(assessment, call.args)


def lifecycle(assessment: Assessment, args: Sequence[str]) -> None:
    """Forbid our own commands that stop, restart or replace the gateway; note those that change access."""
    operands = operands_of(args)
    if {"--help", "-h"} & set(args):
        return
    if set(operands[:2]) & _LIFECYCLE:
        assessment.refuse(OURSELVES)
    if operands[:1] and operands[0] in _DECIDES:
        words = _DECIDES[operands[0]]
        if (set(operands[1:2]) & words) if words else not set(operands[1:2]) & _SHOWS:
            assessment.ask(GATEWAY)


_Rule = Callable[[Assessment, _Call], None]
_RULES: Mapping[str, _Rule] = {
    name: rule
    for rule, names in (
        (_change_directory, named("cd pushd")),
        (_rm, named("rm srm unlink trash")),
        (_end_machine, named("shutdown reboot halt poweroff init telinit")),
        (_disks, named("mke2fs wipefs blkdiscard mkswap shred fdisk sfdisk sgdisk parted hdparm")),
        (_dd, named("dd")),
        (_kill, named("kill")),
        (_kill_by_name, named("killall pkill skill")),
        (_fuser, named("fuser")),
        (_rights, named("chmod chown chgrp")),
        (_copy, named("cp mv ln install rsync scp ditto")),
        (_write, named("tee truncate touch ed ex patch sponge vi vim nvim nano emacs")),
        (_unpack, frozenset(_UNPACKERS)),
        (_sort, named("sort")),
        (_accounts, named("chsh usermod useradd adduser passwd chpasswd visudo vipw gpasswd groupmod")),
        (_terminal_multiplexer, named("tmux screen")),
        (_at, named("at batch")),
        (_sed, named("sed gsed")),
        (_fetch, named("curl wget")),
        (_set_up, frozenset(SETS_UP)),
        (_service, named("systemctl service launchctl rc-service loginctl")),  # replaces `_set_up` for some
        (_our_command, named("hermes-trio hermes_trio hermes")),
        (_crontab, named("crontab")),
        (_powershell, named("powershell pwsh")),
        (_netcat, named("nc ncat netcat socat")),
        (_database, SQL_CLIENTS | named("dropdb mysqladmin")),
    )
    for name in names
}
