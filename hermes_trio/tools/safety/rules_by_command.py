"""Rules for commands by their name, for commands that run no other command. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .argv import has_long, letters_of, operands_of
from .command_line import UNKNOWN, UNSET, ShellCommand, Word, known_output, named
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

SQL_CLIENTS = named("psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus duckdb cockroach clickhouse-client")
SQL_TEXT = re.compile(
    r"\bdrop\s+(table|database|schema|view|index|user|role)\b|\btruncate\s+(table\s+)?\w|"
    r"\bdelete\s+from\s+[^\s;]+\s*(?:;|$|(?!.*\bwhere\b))",
    re.IGNORECASE,
)
_FOR_ALL = re.compile(r"(^|,)[ugoa]*[oa][ugoa]*[+=][rxXst]*w")
_LIFECYCLE = named("stop restart service drain run update")
_STOPPING = named("stop restart try-restart disable mask kill")
_ENDS_MACHINE = named("shutdown reboot halt poweroff init telinit")
_DISKS = named("mke2fs wipefs blkdiscard mkswap shred fdisk sfdisk sgdisk parted hdparm")
_WRITERS = named("tee truncate touch ed ex patch sponge vi vim nvim nano emacs")
_COPIERS = named("cp mv ln install rsync scp ditto")
_UNPACKERS = {"tar": "C", "bsdtar": "C", "unzip": "d", "7z": "o", "cpio": "D"}
"""Commands that unpack files into a directory, and the option letter that names the directory."""
_SETS_UP = {
    "systemctl": named(
        "enable reenable link edit preset add-wants add-requires set-property set-environment "
        "import-environment revert"
    ),
    "loginctl": named("enable-linger"),
    "launchctl": named("load bootstrap submit enable setenv"),
    "rc-update": named("add"),
    "update-rc.d": named("enable defaults"),
    "pre-commit": named("install init-templatedir"),
    "lefthook": named("install"),
    "husky": named("install init add"),
    "direnv": named("allow grant permit edit"),
    "npm": named("config c set"),
    "pnpm": named("config c set"),
    "yarn": named("config"),
    "pip": named("config"),
    "pip3": named("config"),
    "conda": named("init config"),
}
"""Commands that set up code that runs later, or its configuration, and the words that make them do so."""
_TYPES = named("send-keys send stuff paste-buffer pasteb paste")
"""Commands of tmux and screen that type into a terminal, where any program may read the text."""
_LOOKS_ONLY = named("get list ls debug")
_ACCOUNTS = named("chsh usermod useradd adduser passwd chpasswd visudo vipw gpasswd groupmod")
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


def judge_by_name(
    assessment: Assessment, name: str, args: list[str], words: list[Word], command: ShellCommand
) -> None:
    """Note the kinds of harm that a command of this name may do, if it runs no other command."""
    operands, letters = operands_of(args), letters_of(args)
    recursive = bool(letters & set("rR")) or has_long(args, "recursive")
    if name in ("cd", "pushd"):
        to = assessment.resolve(operands[0]) if operands else assessment.places.user_home
        assessment.cwd = None if UNKNOWN in to or UNSET in to or to.startswith("-") else to
    elif name in ("rm", "srm", "unlink", "trash"):
        _rm(assessment, args, operands, recursive=recursive)
    elif name in _ENDS_MACHINE:
        if not has_long(args, "help", "version") and (
            name not in ("init", "telinit") or {"0", "6"} & set(operands)
        ):
            assessment.refuse("it shuts the machine down")
    elif name.startswith("mkfs"):
        assessment.refuse("it erases a disk")
    elif name in _DISKS:
        _disks(assessment, args, operands, name)
    elif name == "dd":
        for arg in args:
            if arg.startswith("of=") and not arg.startswith(("of=/dev/null", "of=/dev/stdout")):
                assessment.ask(RAW)
                assessment.note_write(arg[3:])
    elif name in ("kill", "killall", "pkill", "skill"):
        _kill(assessment, name, args, words)
    elif name == "fuser" and ("k" in letters or has_long(args, "kill")):
        assessment.ask(KILLS)
    elif name in ("chmod", "chown", "chgrp"):
        _rights(assessment, name, args, operands, recursive=recursive)
    elif name in _COPIERS:
        _copied(assessment, name, args, operands)
    elif name in _WRITERS:
        for operand in operands:
            assessment.note_write(operand)
    elif name in _UNPACKERS:
        _unpacked(assessment, name, args, operands)
    elif name == "sort":
        for file in _values(args, "o", "output"):
            assessment.note_write(file)
    elif name in _ACCOUNTS:
        assessment.ask(PROTECTED)
    elif name in ("tmux", "screen") and _TYPES & set(operands):
        assessment.ask(UNSEEN)
    elif name in ("at", "batch") and not letters & set("lqcv"):
        assessment.ask(SCHEDULE)
    elif name in ("sed", "gsed"):
        edits = any(re.match(r"-[nErsz]*i", arg) for arg in args) or has_long(args, "in-place")
        for operand in operands if edits else ():
            assessment.note_write(operand)
    elif name in ("curl", "wget"):
        _fetched(assessment, name, args, operands)
    elif name in ("systemctl", "service", "launchctl", "rc-service", "loginctl"):
        _service(assessment, args, operands)
        _set_up(assessment, name, operands)
    elif name in _SETS_UP:
        _set_up(assessment, name, operands)
    elif name in ("hermes-trio", "hermes_trio", "hermes"):
        lifecycle(assessment, args)
    elif name == "crontab" and (
        letters & set("re") or [o for o in operands if o != "-"] or "-" in args or command.is_piped
    ):
        assessment.ask(SCHEDULE)
    elif name in ("powershell", "pwsh"):
        if any(
            arg.lower() == "-ec" or (len(arg) > 1 and "-encodedcommand".startswith(arg.lower()))
            for arg in args
        ):
            assessment.ask(UNSEEN)
    elif name in ("nc", "ncat", "netcat", "socat") and (
        "e" in letters or any("exec:" in arg.lower() for arg in args)
    ):
        assessment.ask(REMOTE)
    elif name in SQL_CLIENTS or name in ("dropdb", "mysqladmin"):
        for operand in operands[:1] if name in ("sqlite3", "sqlite", "duckdb") else ():
            assessment.note_write(operand)
        text = "\n".join([*args, command.text_in or "", known_output(command.source) or ""])
        if SQL_TEXT.search(text) or name == "dropdb" or (name == "mysqladmin" and "drop" in operands):
            assessment.ask(SQL)


def _rm(assessment: Assessment, args: Sequence[str], operands: Sequence[str], *, recursive: bool) -> None:
    if recursive:
        assessment.ask(RECURSIVE)
    if assessment.placeholder:
        assessment.ask(FOUND)
    if has_long(args, "no-preserve-root") and "--no-preserve-root" in args:
        assessment.refuse("it deletes files that the system depends on")
    for operand in operands:
        if recursive:
            assessment.note_delete(operand)
        assessment.note_write(operand)
        if assessment.places.is_essential(assessment.resolve(operand)):
            assessment.ask(PROTECTED)


def _disks(assessment: Assessment, args: Sequence[str], operands: Sequence[str], name: str) -> None:
    lists = has_long(args, "list", "help", "version") or letters_of(args) & set("lp")
    if not lists and (any(assessment.places.is_raw(operand) for operand in operands)):
        assessment.refuse("it erases a disk")
    elif name == "shred":
        assessment.ask(RAW)


def _kill(assessment: Assessment, name: str, args: Sequence[str], words: Sequence[Word]) -> None:
    inner = " ".join(text for word in words for command in word.inner for text in command.texts)
    if name != "kill":
        assessment.ask(KILLS)
        if any("hermes" in arg.lower() for arg in args):
            assessment.refuse(OURSELVES)
        return
    targets = list(args)
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


def _rights(
    assessment: Assessment, name: str, args: Sequence[str], operands: Sequence[str], *, recursive: bool
) -> None:
    mode_or_owner, targets = (operands[0], operands[1:]) if operands else ("", [])
    if name == "chmod":
        mode = next((arg for arg in args if re.fullmatch(r"[0-7]{3,5}|[-+=ugoarwxXst,]{2,}", arg) and not
                     re.fullmatch(r"-[Rcfv]+", arg)), mode_or_owner)  # fmt: skip
        opens = int(mode[-1]) & 2 if mode.isdigit() else _FOR_ALL.search(mode)
        if opens or (assessment.placeholder and recursive):
            assessment.ask(RIGHTS)
        if re.search(r"\+[rwst]*x", mode) or (mode.isdigit() and int(mode.zfill(3)[-3]) & 1):
            assessment.fresh |= {assessment.resolve(target) for target in targets}
    elif recursive and re.match(r"(root|0)\b", mode_or_owner):
        assessment.ask(RIGHTS)
    for target in targets:
        place = assessment.resolve(target)
        if assessment.places.is_protected(place) or (recursive and assessment.places.is_essential(place)):
            assessment.ask(PROTECTED)


def _copied(assessment: Assessment, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
    into = [arg.partition("=")[2] for arg in args if arg.startswith("--target-directory=")]
    into += [args[number + 1] for number, arg in enumerate(args[:-1]) if arg == "-t"]
    if name == "rsync" and any(arg.startswith("--del") for arg in args):
        assessment.ask(RECURSIVE)
        assessment.note_delete("".join(operands[-1:]))
    sources = operands if into else operands[:-1]
    is_whole = bool(letters_of(args) & set("rRa")) or has_long(args, "recursive", "archive") or name == "mv"
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
    _linked(assessment, name, args, sources, operands)
    for target in operands[:-1] if name == "mv" else ():
        if assessment.places.is_essential(assessment.resolve(target)):
            assessment.ask(PROTECTED)
        assessment.note_write(target)


def _linked(
    assessment: Assessment, name: str, args: Sequence[str], sources: Sequence[str], operands: Sequence[str]
) -> None:
    """Note links: a write to the new name changes the file that it leads to."""
    letters = letters_of(args)
    is_symbolic = "s" in letters or has_long(args, "symbolic", "symbolic-link")
    if name != "ln" and not (name == "cp" and (is_symbolic or "l" in letters or has_long(args, "link"))):
        return
    target = operands[-1] if len(operands) > 1 else "."
    for source in sources or operands[:1]:
        assessment.note_link(source, target)
        assessment.note_link(source, f"{target}/{source.rstrip('/').rpartition('/')[2]}")
        if not is_symbolic:
            assessment.note_write(source)  # a hard link: nothing tells the second name from the first


def _unpacked(assessment: Assessment, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
    letters = letters_of(args) | set(args[0] if name == "tar" and args and args[0].isalpha() else "")
    if name == "tar" and not ("x" in letters or has_long(args, "extract", "get")):
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


def _set_up(assessment: Assessment, name: str, operands: Sequence[str]) -> None:
    if set(operands[:2]) & _SETS_UP.get(name, frozenset()) and not set(operands[:3]) & _LOOKS_ONLY:
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


def _ours(assessment: Assessment, operands: Sequence[str]) -> None:
    """Note the use of our own command line, which can change access."""
    if operands[:1] and operands[0] in _DECIDES:
        words = _DECIDES[operands[0]]
        if (set(operands[1:2]) & words) if words else not set(operands[1:2]) & _SHOWS:
            assessment.ask(GATEWAY)


def _fetched(assessment: Assessment, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
    named = "o" if name == "curl" else "O"
    files = [args[n + 1] for n, arg in enumerate(args[:-1]) if re.fullmatch(rf"-[a-zA-Z]*{named}", arg)]
    files += [arg.partition("=")[2] for arg in args if arg.startswith(("--output=", "--output-document="))]
    files += [args[n + 1] for n, arg in enumerate(args[:-1]) if arg in ("--output", "--output-document")]
    if not files and (name == "wget" or "O" in letters_of(args)):
        files = [operand.rpartition("/")[2] for operand in operands]
    for file in files:
        if file != "-":
            assessment.note_write(file)
            assessment.fresh.add(assessment.resolve(file))


def _service(assessment: Assessment, args: Sequence[str], operands: Sequence[str]) -> None:
    verbs = set(operands[:2]) | {arg for arg in args if arg in _STOPPING}
    if verbs & {"poweroff", "reboot", "halt", "kexec"}:
        assessment.refuse("it shuts the machine down")
    if verbs & (_STOPPING | {"bootout", "unload", "remove", "kickstart", "isolate"}):
        if any("hermes" in arg.lower() for arg in args):
            assessment.refuse(OURSELVES)
        assessment.ask(SERVICES)


def lifecycle(assessment: Assessment, args: Sequence[str]) -> None:
    """Forbid our own commands that stop, restart or replace the gateway; note those that change access."""
    operands = operands_of(args)
    if {"--help", "-h"} & set(args):
        return
    if set(operands[:2]) & _LIFECYCLE:
        assessment.refuse(OURSELVES)
    _ours(assessment, operands)
