"""Tables of commands: those that run others, fetch, decode, speak SQL, or set up code that runs later."""

from __future__ import annotations

import re
from collections.abc import Sequence
from fnmatch import fnmatchcase

from .command_line import Word, named

WRAPPERS: dict[str, tuple[str, int]] = {
    "sudo": ("ugpCrtTRUDh", 0), "doas": ("uC", 0), "env": ("uCS", 0), "nice": ("n", 0), "exec": ("a", 0),
    "timeout": ("ks", 1), "gtimeout": ("ks", 1), "stdbuf": ("ioe", 0), "nohup": ("", 0), "setsid": ("", 0),
    "command": ("", 0), "builtin": ("", 0), "ionice": ("cnpPu", 0), "time": ("fo", 0), "chrt": ("", 1),
    "taskset": ("", 1), "xargs": ("nPILdasE", 0), "parallel": ("jNnI", 0), "watch": ("n", 0),
    "chroot": ("", 1), "strace": ("eopsuE", 0), "ltrace": ("eopsu", 0), "busybox": ("", 0), "toybox": ("", 0),
    "caffeinate": ("tw", 0), "gosu": ("", 1), "su-exec": ("", 1), "unbuffer": ("", 0), "flock": ("wE", 1),
    "unshare": ("", 0), "nsenter": ("t", 0), "systemd-run": ("pu", 0), "fakeroot": ("", 0), "pkexec": ("", 0),
    "runuser": ("ugGsT", 0), "npx": ("p", 0), "bunx": ("", 0),
}  # fmt: skip
"""Commands that run another one: the short options that take a value, and the number of words before the
command."""
LONG_WITH_VALUE = named(
    "user group host prompt chdir kill-after signal adjustment max-args max-procs delimiter arg-file "
    "max-lines unset timeout wait interval jobs property unit slice description working-directory"
)
SHELLS = named("sh bash dash zsh ksh mksh ash fish tcsh csh rbash")
READ_COMMANDS = SHELLS | named(". source eval su script trap alias ssh at batch")
"""Commands that take commands as text."""
FETCHERS = named("curl wget fetch aria2c http https nc ncat netcat socat ftp lynx w3m")
DECODERS = named("base64 base32 basenc xxd openssl uudecode rev tr gpg gunzip zcat")
RUN_CONTAINERS = named("docker podman nerdctl docker-compose podman-compose kubectl")
ALL = named("rm dd kill killall pkill shutdown reboot halt poweroff init chmod chown mkfs curl wget") | SHELLS
"""The names that a pattern in the place of a command name may match: `/bin/r?` is `rm`."""
SQL_CLIENTS = named("psql mysql mariadb sqlite3 sqlite sqlcmd sqlplus duckdb cockroach clickhouse-client")
SQL_TEXT = re.compile(
    r"\bdrop\s+(table|database|schema|view|index|user|role)\b|\btruncate\s+(table\s+)?\w|"
    r"\bdelete\s+from\s+[^\s;]+\s*(?:;|$|(?!.*\bwhere\b))",
    re.IGNORECASE,
)
SETS_UP = {
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


def command_name(name: str) -> str:
    """Return the name of a command without its directory; for a pattern, the name that it matches."""
    name = name.rpartition("/")[2].lower().removesuffix(".exe")
    if any(char in name for char in "?*["):
        return next((each for each in sorted(ALL) if fnmatchcase(each, name)), name)
    return name


STDIN = re.compile(r"-|/dev/stdin|(?:/dev|/proc/(?:self|\d+))/fd/\d+")
"""File names by which an interpreter is told to read its program from its input."""
EVALUATES = named("let declare typeset local export readonly unset read printf test [ [[ mapfile wait")
"""Commands that evaluate a subscript with the commands in it, even if it was quoted."""


def is_fetched_or_decoded(words: Sequence[Word]) -> bool:
    """Return whether a part of these words is fetched from the network, or decoded."""
    names = {command_name(command.texts[0]) for word in words for command in word.inner if command.words}
    return bool(names & (FETCHERS | DECODERS))
