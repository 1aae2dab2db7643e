"""The rules of the judge, by the name of a command: what it may do, and which paths it writes. Pure.

A pattern is searched in the arguments of a command, one in a line; `…` stands for any of them in between. A
row without a pattern is for every call of the command.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .command_line import named
from .verdict import (
    CODE,
    CONTAINERS,
    GATEWAY,
    GIT,
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
    SUDO,
    UNSEEN,
)

SHELLS = named("sh bash dash zsh ksh mksh ash fish tcsh csh rbash")
TAKE_COMMANDS = SHELLS | named(". source eval ssh at batch")
"""Commands that take commands as text."""
WRAPPERS = named(
    "sudo doas env nice exec timeout gtimeout stdbuf nohup setsid command builtin ionice time chrt taskset "
    "xargs parallel watch chroot strace ltrace busybox toybox caffeinate gosu su-exec unbuffer flock unshare "
    "nsenter systemd-run fakeroot pkexec runuser npx bunx set"
)
"""Commands that run another one, which stands after their options."""
_TEXT = r"^(?:-[a-z]*c|--command)\n(.*)"
SCRIPTS = {
    "env": r"^(?:-[i0v]*S|--split-string=?)\n?([\s\S]*)",
    "flock": r"^-c\n([\s\S]*)",
    "git": r"(?:submodule\nforeach|bisect\nrun|rebase\n(?:-.*\n)*?(?:-x|--exec))\n(.*)|=!(.*)",
    "alias": r"=(.*)",
    "trap": r"\A(?:--\n)?(.*)",
    "su": _TEXT,
    "script": _TEXT,
    "runuser": _TEXT,
}
"""Commands with a script among their arguments, one in a line, and where it stands."""
CONTAINER_COMMANDS = named("docker podman nerdctl docker-compose podman-compose kubectl")
FETCHERS = named("curl wget fetch aria2c http https nc ncat netcat socat ftp lynx w3m")
DECODERS = named("base64 base32 basenc xxd openssl uudecode rev tr gpg gunzip zcat")
PRINTERS = named("echo printf cat")
SQL_CLIENTS = named("psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus duckdb cockroach clickhouse-client")
EVALUATES = named("let declare typeset local export readonly unset read printf test [ [[ mapfile wait")
"""Commands that evaluate a subscript with the commands in it, even if it was quoted."""
PROGRAMS = re.compile(r"(python|pypy|perl|ruby|node|nodejs|php|lua|deno|bun|osascript|awk|gawk|mawk)[0-9.]*")

_SQL = (
    r"(?i)\bdrop\s+(table|database|schema|view|index|user|role)\b|\btruncate\s+(table\s+)?\w|"
    r"\bdelete\s+from\s+[^\s;]+\s*(?:;|$|(?!.*\bwhere\b))"
)
SQL_TEXT = re.compile(_SQL, re.M)
_STOPS = "stop|restart|try-restart|disable|mask|kill|bootout|unload|remove|kickstart|isolate"
_SERVICES = "systemctl service launchctl rc-service loginctl"
_OURS = "hermes-trio hermes_trio hermes"

Row = tuple[str, str, str]


def _rows(*rows: Row) -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """Return the rows by the name of their commands."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for text, names, pattern in rows:
        compiled = re.compile(pattern.replace("…", r"[\s\S]*?"), re.M)
        for name in names.split():
            table.setdefault(name, []).append((text, compiled))
    return table


REFUSED = _rows(
    ("it shuts the machine down", "shutdown reboot halt poweroff", r"\A(?!--(help|version)$)"),
    ("it shuts the machine down", "init telinit", r"^[06]$"),
    ("it shuts the machine down", _SERVICES, r"^(poweroff|reboot|halt|kexec)$"),
    ("it erases a disk", "mkfs", ""),
    ("it erases a disk", "wipefs blkdiscard mkswap mke2fs fdisk sfdisk sgdisk parted hdparm",
     r"\A(?!…^(-[lp]|--list|--help|--version))…^/dev/"),
    ("it deletes files that the system depends on", "rm", r"^--no-preserve-root$"),
    ("it kills every process of the machine", "kill", r"\n-1$|\A-1\Z"),
    (OURSELVES, "kill killall pkill skill", r"(?i)hermes"),
    (OURSELVES, _SERVICES, rf"(?i)^({_STOPS})….*hermes"),
    (OURSELVES, _OURS, r"\A(?!…(--help|-h)$)(?:.*\n)?(stop|restart|service|drain|run|update)$"),
)  # fmt: skip
"""Calls that never run: a reason, commands, a pattern."""

ASKED = _rows(
    (RECURSIVE, "rm srm trash", r"^-[^-\n]*[rR]|^--r"),
    (RECURSIVE, "rsync", r"^--del"),
    (KILLS, "killall pkill skill", ""),
    (KILLS, "kill", r"\b(pgrep|pidof|ps|lsof|fuser)\b"),
    (KILLS, "fuser", r"^-[^-\n]*k|^--kill"),
    (RAW, "dd", r"^of=(?!/dev/(null|stdout))"),
    (RAW, "shred", ""),
    (SERVICES, _SERVICES, rf"^({_STOPS})$"),
    (CONTAINERS, " ".join(CONTAINER_COMMANDS),
     r"\A(?!exec|run)(?:(?!exec$|run$).*\n){0,3}(stop|kill|down|rm|rmi|prune|restart|delete)$"),
    (GIT, "git", r"\Areset$…^--hard$"),
    (GIT, "git", r"\Apush$…^(-[^-\n]*f|--force|--mirror$|\+)"),
    (GIT, "git", r"\Aclean$(?!…^(-[^-\n]*n|--dry-run))…^(-[^-\n]*f|--force)"),
    (GIT, "git", r"\Abranch$…^-[^-\n]*D|\Abranch$(?=…^(-[^-\n]*d|--del))…^(-[^-\n]*f|--force)"),
    (SUDO, "sudo", r"\A(?:-.*\n)*(-[^-\n]*[SAsi]|--(stdin|askpass|shell|login)$)"),
    (RIGHTS, "chmod", r"^([0-7]{0,4}[2367]$|(.*,)?[ugoa]*[oa][ugoa]*[+=][rxXst]*w)"),
    (RIGHTS, "chown chgrp", r"^(-[^-\n]*R|--rec)…^(root|0)\b"),
    (PROTECTED, "chsh useradd usermod adduser passwd chpasswd visudo vipw gpasswd groupmod", ""),
    (PROTECTED, "git", r"\Aconfig$(?!…^(--get|--list|--show|-l$|get$|list$))…^(-e$|--edit|--system|"
     r"--worktree|edit$|rename-section|remove-section)"),
    (PROTECTED, "git", r"\Aconfig$(?!…^(--get|--list|get$|list$))…^--global$…^[^-].*$…^[^-]"),
    (PROTECTED, "git", r"(?i)\Aconfig$(?!…^(--get|--list|get$|list$))…^(core\.(hookspath|fsmonitor|"
     r"sshcommand|editor|pager|askpass|gitproxy|attributesfile|excludesfile|worktree)|(alias|filter|pager|url|"
     r"include|includeif|credential|gpg|hook|man|browser|protocol|uploadpack)\..*|sequence\.editor|init\.templatedir|"
     r"diff\.external|interactive\.difffilter|.*\.(cmd|command|driver|textconv|program|helper|update|"
     r"uploadpack|receivepack|vcs|proxy|clean|smudge))\n."),
    (GATEWAY, _OURS, r"\A(?:.*\n)?(pairing\n(approve|revoke)|setup|config\n(?!show|check|path|list)|"
     r"sessions\ndelete)"),
    (LATER, "systemctl", r"^(enable|reenable|link|edit|preset|add-wants|add-requires|set-property|"
     r"set-environment|import-environment|revert)$"),
    (LATER, "loginctl", r"^enable-linger$"),
    (LATER, "launchctl", r"^(load|bootstrap|submit|enable|setenv)$"),
    (LATER, "rc-update update-rc.d", r"^(add|enable|defaults)$"),
    (LATER, "pre-commit lefthook husky", r"\A(install|init|add|init-templatedir)$"),
    (LATER, "direnv", r"\A(allow|grant|permit|edit)$"),
    (LATER, "npm pnpm yarn pip pip3 conda", r"\A(config|c)$(?!…^(get|list|ls|debug)$)"),
    (LATER, "npm pnpm", r"\Aset$"),
    (LATER, "conda", r"\Ainit$"),
    (SCHEDULE, "crontab", r"\A(?!-l$)"),
    (SCHEDULE, "at batch", r"\A(?!-[lqcv])"),
    (SCHEDULE, "systemd-run", r"^--(on-|timer|path)"),
    (UNSEEN, "tmux screen", r"^(send-keys|send|stuff|paste-buffer|pasteb|paste)$"),
    (UNSEEN, "powershell pwsh", r"(?i)^-e(c|n[a-z]*)?$"),
    (UNSEEN, "coproc", ""),
    (UNSEEN, "hash", r"^-[^-\n]*p"),
    (REMOTE, "nc ncat netcat socat", r"(?i)^-[^-\n]*e|exec:"),
    (SQL, " ".join(SQL_CLIENTS), _SQL),
    (SQL, "dropdb", ""),
    (SQL, "mysqladmin", r"^drop$"),
)  # fmt: skip
"""Calls that need a yes: a kind of harm, commands, a pattern."""

WRITES = named(
    "tee truncate touch ed ex patch sponge vi vim nvim nano emacs rm srm unlink trash mv ln chmod chown "
    "chgrp shred sqlite3 sqlite duckdb"
)
"""Commands that write the files that they name."""
IN_PLACE = {
    "sed": r"^(-[nErsz]*i|--in-place)",
    "gsed": r"^(-[nErsz]*i|--in-place)",
    "perl": r"^-[pn]*i",
    "ruby": r"^-[pn]*i",
    "awk": r"^inplace$",
    "gawk": r"^inplace$",
}
"""Commands that write the files that they name if they are given such an argument."""
COPIES = named("cp mv ln install rsync scp ditto")
"""Commands whose last operand is a file that they write, or a directory for the other operands."""


def _option(letter: str, long: str) -> str:
    """Return a pattern for the value of an option."""
    return rf"^(?:--{long}[=\n]|-[a-zA-Z]*{letter}\n|-{letter})(.+)"


OUTPUT = {
    "curl": _option("o", "output"),
    "wget": _option("O", "output-document"),
    "sort": _option("o", "output"),
    "dd": "^of=(.+)",
    "find": r"^-(?:fprint0?|fprintf|fls)\n(.+)",
    "git": r"\Aconfig\n(?:.*\n)*?(?:-f|--file)[=\n](.+)",
}
"""Commands with an argument that names a file which they write."""
INTO = _option("t", "target-directory")
UNPACKS = {
    "tar": (r"\A-?\w*x|^-\w*x|^--(extract|get)$", _option("C", "directory")),
    "bsdtar": (r"\A-?\w*x|^-\w*x|^--(extract|get)$", _option("C", "directory")),
    "unzip": (r"\A(?!-[a-z]*[lptvz])", _option("d", "exdir")),
    "7z": (r"\A[xe]$", _option("o", "output")),
    "cpio": (r"^-\w*[ip]|^--(extract|pass)", _option("D", "directory")),
}
"""Commands that unpack files whose names are not known: when they do so, and into which directory."""

_RUNS = re.compile(
    r"rmtree|from\s+os\s+import|\|\s*&?\s*getline|(?<!\|)\|\s*\"|\bos\s*\.\s*(?:system|popen|remove|unlink|rmdir|"
    r"removedirs|kill|exec\w*)|subprocess|pty\.spawn|__import__|\bexec\b|\beval\s*\(|child_process|unlinkSync|"
    r"rmSync|rmdirSync|FileUtils|\bunlink\b|\bsystem\b|\bqx\b|\bpopen\b|shell_exec|passthru|do shell script|"
    r"socket|b64decode|urlopen|urllib|requests\s*\.|LWP"
)
_WRITES = re.compile(
    r"""['"](?:[awx][bt]?\+?|r[bt]?\+[bt]?|>>?)['"]|write|append|dump|copy|move|rename|replace|link|chmod|touch|"""
    r"""truncate|execute|>\s*['"]|['"]\s*\+?>""",
    re.IGNORECASE,
)
_STRINGS = re.compile(r"\"((?:[^\"\\\n]|\\.)+)\"|'((?:[^'\\\n]|\\.)+)'")
_TAKES_CODE = {
    "python": "c",
    "pypy": "c",
    "perl": "eE",
    "ruby": "e",
    "php": "r",
    "lua": "e",
    "osascript": "e",
}
"""The option letters that a program text follows; `e` and `p` for all others."""


def kinds_of_program(name: str, text: str) -> set[str]:
    """Return the kinds of harm that a program text for this interpreter may do."""
    kinds = set[str]()
    if _RUNS.search(text) or ("`" in text and name.startswith(("perl", "ruby", "php"))):
        kinds.add(CODE)
    if SQL_TEXT.search(text) and re.search(r"\bexecute|cursor|connect", text):
        kinds.add(SQL)
    return kinds


def strings_of(text: str) -> list[str]:
    """Return the quoted strings of a program text: each may be a command or a path."""
    return [found[1] or found[2] for found in _STRINGS.finditer(text)]


def may_write(text: str) -> bool:
    """Return whether a program text may write to the files that it names."""
    return _WRITES.search(text) is not None


def code_at(name: str, args: Sequence[str]) -> int | None:
    """Return the place of a program text among the arguments of an interpreter; None if there is none."""
    letters = set(_TAKES_CODE.get(name.rstrip("0123456789."), "ep"))
    for at, text in enumerate(args):
        if text in ("--eval", "--print", "eval") or (re.match(r"-[^-]", text) and set(text[1:]) & letters):
            return at + 1
    return None


def operands_of(args: Sequence[str]) -> list[str]:
    """Return the arguments that are no options."""
    if "--" in args:
        end = list(args).index("--")
        return [*operands_of(args[:end]), *args[end + 1 :]]
    return [arg for arg in args if not arg.startswith("-") or arg == "-"]


def found(pattern: str, args: Sequence[str]) -> list[str]:
    """Return the texts of the last groups of a pattern in the arguments, one in a line."""
    return [one[one.lastindex or 0] for one in re.finditer(pattern, "\n".join(args), re.M)]
