"""What is known against commands by their names, for those that run no others."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .argv import has_long, letters_of, operands_of
from .command_line import UNKNOWN, UNSET, Command, Word, known_output, named
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
    Found,
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
"""Those that put files with names of their own into a directory, and the letter that names it."""
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
"""Commands that write what runs later, or what steers it, and the words that tell them to."""
_TYPES = named("send-keys send stuff paste-buffer pasteb paste")
"""What types into a terminal, where anything may read it."""
_LOOKS_ONLY = named("get list ls debug")
_ACCOUNTS = named("chsh usermod useradd adduser passwd chpasswd visudo vipw gpasswd groupmod")
_DECIDES = {"pairing": named("approve revoke"), "setup": None, "config": None, "sessions": named("delete")}
"""Our own commands that change whom we let in, or how we work; None for any word."""
_SHOWS = named("show check path list")
_GIT_RUNS_BY = re.compile(
    r"core\.(hookspath|fsmonitor|sshcommand|editor|pager|askpass|gitproxy|attributesfile|excludesfile|worktree)|"
    r"(alias|filter|pager|url|include|includeif|credential|gpg|hook|man|browser|protocol|uploadpack)\.|"
    r"(sequence\.editor|init\.templatedir|diff\.external|interactive\.difffilter)$|"
    r".*\.(cmd|command|driver|textconv|program|helper|update|uploadpack|receivepack|vcs|proxy|clean|smudge)$",
    re.IGNORECASE,
)
"""The settings of git that name a program, or what leads to one."""


def judge_by_name(found: Found, name: str, args: list[str], words: list[Word], command: Command) -> None:
    """Note what is known against a command of this name that runs no other one."""
    operands, letters = operands_of(args), letters_of(args)
    recursive = bool(letters & set("rR")) or has_long(args, "recursive")
    if name in ("cd", "pushd"):
        to = found.resolved(operands[0]) if operands else found.places.user_home
        found.cwd = None if UNKNOWN in to or UNSET in to or to.startswith("-") else to
    elif name in ("rm", "srm", "unlink", "trash"):
        _rm(found, args, operands, recursive=recursive)
    elif name in _ENDS_MACHINE:
        if not has_long(args, "help", "version") and (
            name not in ("init", "telinit") or {"0", "6"} & set(operands)
        ):
            found.refuse("it ends the machine")
    elif name.startswith("mkfs"):
        found.refuse("it makes a disk empty")
    elif name in _DISKS:
        _disks(found, args, operands, name)
    elif name == "dd":
        for arg in args:
            if arg.startswith("of=") and not arg.startswith(("of=/dev/null", "of=/dev/stdout")):
                found.ask(RAW)
                found.written(arg[3:])
    elif name in ("kill", "killall", "pkill", "skill"):
        _kill(found, name, args, words)
    elif name == "fuser" and ("k" in letters or has_long(args, "kill")):
        found.ask(KILLS)
    elif name in ("chmod", "chown", "chgrp"):
        _rights(found, name, args, operands, recursive=recursive)
    elif name in _COPIERS:
        _copied(found, name, args, operands)
    elif name in _WRITERS:
        for operand in operands:
            found.written(operand)
    elif name in _UNPACKERS:
        _unpacked(found, name, args, operands)
    elif name == "sort":
        for file in _values(args, "o", "output"):
            found.written(file)
    elif name in _ACCOUNTS:
        found.ask(PROTECTED)
    elif name in ("tmux", "screen") and _TYPES & set(operands):
        found.ask(UNSEEN)
    elif name in ("at", "batch") and not letters & set("lqcv"):
        found.ask(SCHEDULE)
    elif name in ("sed", "gsed"):
        edits = any(re.match(r"-[nErsz]*i", arg) for arg in args) or has_long(args, "in-place")
        for operand in operands if edits else ():
            found.written(operand)
    elif name in ("curl", "wget"):
        _fetched(found, name, args, operands)
    elif name in ("systemctl", "service", "launchctl", "rc-service", "loginctl"):
        _service(found, args, operands)
        _set_up(found, name, operands)
    elif name in _SETS_UP:
        _set_up(found, name, operands)
    elif name in ("hermes-trio", "hermes_trio", "hermes"):
        lifecycle(found, args)
    elif name == "crontab" and (
        letters & set("re") or [o for o in operands if o != "-"] or "-" in args or command.is_piped
    ):
        found.ask(SCHEDULE)
    elif name in ("powershell", "pwsh"):
        if any(
            arg.lower() == "-ec" or (len(arg) > 1 and "-encodedcommand".startswith(arg.lower()))
            for arg in args
        ):
            found.ask(UNSEEN)
    elif name in ("nc", "ncat", "netcat", "socat") and (
        "e" in letters or any("exec:" in arg.lower() for arg in args)
    ):
        found.ask(REMOTE)
    elif name in SQL_CLIENTS or name in ("dropdb", "mysqladmin"):
        for operand in operands[:1] if name in ("sqlite3", "sqlite", "duckdb") else ():
            found.written(operand)
        text = "\n".join([*args, command.text_in or "", known_output(command.source) or ""])
        if SQL_TEXT.search(text) or name == "dropdb" or (name == "mysqladmin" and "drop" in operands):
            found.ask(SQL)


def _rm(found: Found, args: Sequence[str], operands: Sequence[str], *, recursive: bool) -> None:
    if recursive:
        found.ask(RECURSIVE)
    if found.finds:
        found.ask(FOUND)
    if has_long(args, "no-preserve-root") and "--no-preserve-root" in args:
        found.refuse("it deletes what the system stands on")
    for operand in operands:
        if recursive:
            found.deleted(operand)
        found.written(operand)
        if found.places.is_ground(found.resolved(operand)):
            found.ask(PROTECTED)


def _disks(found: Found, args: Sequence[str], operands: Sequence[str], name: str) -> None:
    lists = has_long(args, "list", "help", "version") or letters_of(args) & set("lp")
    if not lists and (any(found.places.is_raw(operand) for operand in operands)):
        found.refuse("it makes a disk empty")
    elif name == "shred":
        found.ask(RAW)


def _kill(found: Found, name: str, args: Sequence[str], words: Sequence[Word]) -> None:
    inner = " ".join(text for word in words for command in word.inner for text in command.texts)
    if name != "kill":
        found.ask(KILLS)
        if any("hermes" in arg.lower() for arg in args):
            found.refuse(OURSELVES)
        return
    targets = list(args)
    if targets and re.match(r"-(\w+|-signal=?.*)$", targets[0]) and (targets[0] != "-1" or len(targets) > 1):
        targets = targets[1 + (targets[0] in ("-s", "-n", "--signal")) :]
    if "-1" in targets:
        found.refuse("it ends every process of the machine")
    if found.finds:
        found.ask(KILLS)
    if any(re.fullmatch(rf"[-+]?0*{found.places.pid}", target) for target in targets):
        found.refuse(OURSELVES)
    if "hermes" in inner.lower() or found.places.gateway_home in inner:
        found.refuse(OURSELVES)
    if re.search(r"\b(pgrep|pidof|ps|lsof|fuser)\b", inner):
        found.ask(KILLS)


def _rights(
    found: Found, name: str, args: Sequence[str], operands: Sequence[str], *, recursive: bool
) -> None:
    what, targets = (operands[0], operands[1:]) if operands else ("", [])
    if name == "chmod":
        mode = next((arg for arg in args if re.fullmatch(r"[0-7]{3,5}|[-+=ugoarwxXst,]{2,}", arg) and not
                     re.fullmatch(r"-[Rcfv]+", arg)), what)  # fmt: skip
        opens = int(mode[-1]) & 2 if mode.isdigit() else _FOR_ALL.search(mode)
        if opens or (found.finds and recursive):
            found.ask(RIGHTS)
        if re.search(r"\+[rwst]*x", mode) or (mode.isdigit() and int(mode.zfill(3)[-3]) & 1):
            found.fresh |= {found.resolved(target) for target in targets}
    elif recursive and re.match(r"(root|0)\b", what):
        found.ask(RIGHTS)
    for target in targets:
        place = found.resolved(target)
        if found.places.is_protected(place) or (recursive and found.places.is_ground(place)):
            found.ask(PROTECTED)


def _copied(found: Found, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
    into = [arg.partition("=")[2] for arg in args if arg.startswith("--target-directory=")]
    into += [args[number + 1] for number, arg in enumerate(args[:-1]) if arg == "-t"]
    if name == "rsync" and any(arg.startswith("--del") for arg in args):
        found.ask(RECURSIVE)
        found.deleted("".join(operands[-1:]))
    sources = operands if into else operands[:-1]
    is_whole = bool(letters_of(args) & set("rRa")) or has_long(args, "recursive", "archive") or name == "mv"
    for target in into or operands[-1:]:
        if not sources and name != "ln":
            continue
        found.written(target)
        is_folder = bool(into) or len(sources) > 1 or target.endswith(("/", ".", "~"))
        is_folder = is_folder or found.places.holds_protected(found.resolved(target))
        for source in sources:
            last = source.rstrip("/").rpartition("/")[2]
            if last in (".", "") or "*" in last or (name == "rsync" and source.endswith("/")):
                found.filled(target)
            elif is_whole and found.places.holds_protected(found.resolved(source)):
                found.ask(PROTECTED)  # the directory itself is put there, or taken away
            elif is_folder or not found.places.is_protected(found.resolved(source)):
                found.written(f"{target}/{last}")
    _linked(found, name, args, sources, operands)
    for target in operands[:-1] if name == "mv" else ():
        if found.places.is_ground(found.resolved(target)):
            found.ask(PROTECTED)
        found.written(target)


def _linked(
    found: Found, name: str, args: Sequence[str], sources: Sequence[str], operands: Sequence[str]
) -> None:
    """Links: what is written under the new name is written to the file that they lead to."""
    letters = letters_of(args)
    is_symbolic = "s" in letters or has_long(args, "symbolic", "symbolic-link")
    if name != "ln" and not (name == "cp" and (is_symbolic or "l" in letters or has_long(args, "link"))):
        return
    target = operands[-1] if len(operands) > 1 else "."
    for source in sources or operands[:1]:
        found.linked(source, target)
        found.linked(source, f"{target}/{source.rstrip('/').rpartition('/')[2]}")
        if not is_symbolic:
            found.written(source)  # a second name, which nobody can tell from the first


def _unpacked(found: Found, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
    letters = letters_of(args) | set(args[0] if name == "tar" and args and args[0].isalpha() else "")
    if name == "tar" and not ("x" in letters or has_long(args, "extract", "get")):
        return
    if name in ("unzip", "cpio", "7z") and letters & set("ltpvo") and "d" not in letters:
        return
    for target in _values(args, _UNPACKERS[name], "directory") or ["."]:
        found.filled(target)


def _values(args: Sequence[str], letter: str, long: str) -> list[str]:
    """The values of an option that is given by this letter, or by this name."""
    values = [arg.partition("=")[2] for arg in args if arg.startswith(f"--{long}=")]
    for number, arg in enumerate(args):
        if arg == f"--{long}" or re.fullmatch(rf"-[a-zA-Z]*{letter}", arg):
            values += args[number + 1 : number + 2]
        elif re.match(rf"-{letter}.", arg):
            values.append(arg[2:])
    return values


def _set_up(found: Found, name: str, operands: Sequence[str]) -> None:
    if set(operands[:2]) & _SETS_UP.get(name, frozenset()) and not set(operands[:3]) & _LOOKS_ONLY:
        found.ask(LATER)


def git_config(found: Found, args: Sequence[str]) -> None:
    """What `git config` with these words writes, if it does not only look."""
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
        found.written(file)
    if has_long(args, "global", "system", "worktree") or is_edit or any(map(_GIT_RUNS_BY.match, operands)):
        found.ask(PROTECTED)


def _ours(found: Found, operands: Sequence[str]) -> None:
    """Our own command line, which can change whom we let in."""
    if operands[:1] and operands[0] in _DECIDES:
        words = _DECIDES[operands[0]]
        if (set(operands[1:2]) & words) if words else not set(operands[1:2]) & _SHOWS:
            found.ask(GATEWAY)


def _fetched(found: Found, name: str, args: Sequence[str], operands: Sequence[str]) -> None:
    named = "o" if name == "curl" else "O"
    files = [args[n + 1] for n, arg in enumerate(args[:-1]) if re.fullmatch(rf"-[a-zA-Z]*{named}", arg)]
    files += [arg.partition("=")[2] for arg in args if arg.startswith(("--output=", "--output-document="))]
    files += [args[n + 1] for n, arg in enumerate(args[:-1]) if arg in ("--output", "--output-document")]
    if not files and (name == "wget" or "O" in letters_of(args)):
        files = [operand.rpartition("/")[2] for operand in operands]
    for file in files:
        if file != "-":
            found.written(file)
            found.fresh.add(found.resolved(file))


def _service(found: Found, args: Sequence[str], operands: Sequence[str]) -> None:
    verbs = set(operands[:2]) | {arg for arg in args if arg in _STOPPING}
    if verbs & {"poweroff", "reboot", "halt", "kexec"}:
        found.refuse("it ends the machine")
    if verbs & (_STOPPING | {"bootout", "unload", "remove", "kickstart", "isolate"}):
        if any("hermes" in arg.lower() for arg in args):
            found.refuse(OURSELVES)
        found.ask(SERVICES)


def lifecycle(found: Found, args: Sequence[str]) -> None:
    operands = operands_of(args)
    if {"--help", "-h"} & set(args):
        return
    if set(operands[:2]) & _LIFECYCLE:
        found.refuse(OURSELVES)
    _ours(found, operands)
