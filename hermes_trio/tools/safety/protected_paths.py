"""The paths that are not changed without a person's yes: one list for the file tools and the judge of
commands.

Each entry is a name, or several names in a row, and includes everything below. An entry that starts with `/`
counts from the root only; every other one counts wherever it lies, because a login has more than one home.
Names are compared without regard to case and Unicode spelling, because on some systems .SSH is .ssh.

| level | for the file tools | for a command that writes there |
|---|---|---|
| `SECRET` | neither read nor written | a yes |
| `SYSTEM` | not written | a yes |
| `LATER` | written with a yes | a yes |

`LATER` is for files that a login, an editor, a build or a service runs or obeys, and for the gateway's
program.

This module imports only the standard library, because the search process starts with it.
"""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Iterator, Sequence
from enum import IntEnum
from fnmatch import fnmatchcase
from functools import cache
from importlib.util import find_spec

Parts = tuple[str, ...]
"""The names of a path; the first is empty for the root, or the drive."""


class Level(IntEnum):
    """How strictly a path is protected; a higher value is stricter."""

    LATER = 1
    SYSTEM = 2
    SECRET = 3


_PLACES: dict[Level, str] = {
    Level.SECRET: """
        /etc/ssh /etc/ssl/private /etc/sudoers /etc/sudoers.d /etc/shadow /etc/shadow- /etc/gshadow
        /etc/gshadow- /etc/krb5.keytab /var/spool/cron .ssh .gnupg .aws .azure .kube .docker/config.json
        .config/gh .config/gcloud .config/op .config/rclone .password-store .local/share/keyrings
        library/keychains .netrc _netrc .pgpass .my.cnf .npmrc .pypirc .git-credentials .vault-token
        .cargo/credentials .cargo/credentials.toml .gem/credentials .terraform.d id_rsa id_dsa id_ecdsa
        id_ed25519 .config/hub .config/glab-cli .config/doctl .config/heroku .config/netlify .config/vercel
        .config/fly .fly .oci .ibmcloud .boto .s3cfg .config/sops .config/age .config/containers/auth.json
        .config/helm .config/pulumi .pulumi/credentials.json .huggingface .cache/huggingface/token
        .config/github-copilot .codex/auth.json .claude/.credentials.json .config/anthropic .config/openai
        .hermes .openclaw .local/state/hermes-trio/locks
        .config/composer/auth.json .composer/auth.json .config/pypoetry/auth.toml
        .local/share/uv/credentials .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
        .nuget/nuget.config .kaggle .config/kaggle .databrickscfg .snowsql .config/dbeaver
        .mysql_history .psql_history .rediscli_history .mongo_history .dbshell
        .bash_history .zsh_history .sh_history .python_history .node_repl_history .lesshst .viminfo
        .local/share/fish .local/share/nvim/shada .local/state/nvim/shada .config/fish/fish_history
        .mozilla .thunderbird .config/google-chrome .config/google-chrome-beta .config/chromium
        .config/bravesoftware .config/microsoft-edge .config/vivaldi .config/opera .librewolf
        snap/firefox snap/chromium .var/app/org.mozilla.firefox .var/app/com.google.chrome
        .config/keepassxc .local/share/kwalletd .config/bitwarden
        .config/slack .config/discord .config/signal .config/element .purple .weechat .config/weechat
        .pg_service.conf .config/psql .local/share/keepassxc .config/matrix .config/himalaya .msmtprc
        .config/msmtp .mutt .muttrc .config/mutt .config/neomutt .fetchmailrc .offlineimaprc .mbsyncrc
        .bitcoin .ethereum .electrum .config/solana .gitcookies .subversion/auth .config/filezilla
        .config/remmina .vnc .xauthority .iceauthority .pki
    """,
    Level.SYSTEM: """
        /etc /boot /lib/systemd /usr/lib/systemd /library/launchdaemons /proc /sys
    """,
    Level.LATER: """
        /bin /sbin /lib /lib32 /lib64 /usr /system /library /run/systemd /run/user /var/spool/at
        /var/spool/anacron .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc
        .zprofile .zshenv .zlogin .zlogout .cshrc .tcshrc .login .logout .kshrc .mkshrc .shrc .inputrc
        .config/fish .config/environment.d .pam_environment .xinitrc .xprofile .xsession .xsessionrc
        .xserverrc .config/autostart .config/autostart-scripts .config/plasma-workspace .config/systemd
        .local/share/systemd .local/share/dbus-1 library/launchagents library/launchdaemons
        .config/upstart .gitconfig .config/git .git/hooks .git/config .git/config.worktree
        .git/info .git/modules .husky authorized_keys .rhosts .shosts .k5login .forward
        .procmailrc .mailcap .docker .terraformrc sitecustomize.py usercustomize.py pip.conf pip.ini .pip
        .config/pip .pythonrc .pythonrc.py .pythonstartup .pdbrc .ipython .jupyter .condarc .yarnrc
        .yarnrc.yml .pnpmfile.cjs .cargo/config .cargo/config.toml .cargo/env .gemrc .irbrc .bundle/config
        .rprofile .julia/config .gdbinit .config/gdb .lldbinit .psqlrc .sqliterc .wgetrc .curlrc
        .lessfilter .vimrc .gvimrc .exrc .vim .config/nvim .config/vim .emacs .emacs.el .emacs.d
        .config/emacs .spacemacs .doom.d .config/doom .nanorc .vscode .config/code/user
        .vscode-server/data/machine .idea .zed .cursor .claude .gemini .mcp.json .nvim.lua .nvimrc
        .devcontainer .devcontainer.json .mise.toml .config/mise .config/zed .config/helix .envrc
        .config/direnv .direnvrc .tmux.conf
        .config/tmux .screenrc .config/i3 .config/sway .config/hypr
    """,
}
_FREE = "/usr/local /usr/src"
"""Paths that are not protected although they lie below a protected one."""
_ENVIRONMENTS_TO_SHOW = (".env.example", ".env.sample", ".env.template", ".env.dist")
_PATTERN = re.compile(r"[*?\[]")
_BACKUP = re.compile(r"hermes-trio-\d{8}t\d{6}z(-\d+)?\.tar\.gz")
"""The name of a backup of a gateway's home, with the conversations of everybody."""
_PACKAGES = ("hermes_trio", "hermes_platforms")


def folded(path: str) -> Parts:
    """Return the names of an absolute path, without differences of case and Unicode spelling."""
    parts = unicodedata.normalize("NFC", path.replace(os.sep, "/")).casefold().rstrip("/").split("/")
    return tuple(parts[:1] + parts[2:] if parts[1:2] == ["private"] else parts)  # macOS has /etc there


def is_below(parts: Parts, top: Parts) -> bool:
    """Return whether a path is `top` or lies below it."""
    return parts[: len(top)] == top


def level_of(parts: Parts) -> Level | None:
    """Return how strictly a path is protected; None if it is not."""
    name = parts[-1] if parts else ""
    if (name == ".env" or name.startswith(".env.")) and name not in _ENVIRONMENTS_TO_SHOW:
        return Level.SECRET
    if _BACKUP.fullmatch(name):
        return Level.SECRET
    own = Level.LATER if any(is_below(parts, top) for top in own_program()) else None
    if any(is_below(parts, free) for free in _table(_FREE)):
        parts = ("usr-local", *parts[3:])
    # The directory of a bare repository, or of a submodule, has another name than `.git`.
    parts = tuple(".git" if part.endswith(".git") else part for part in parts)
    if found := max(_levels(parts), default=None):
        return found
    if name.endswith(".pth") and {"site-packages", "dist-packages"} & set(parts):
        return Level.LATER
    return own


def _levels(parts: Parts) -> Iterator[Level]:
    """Yield the level of each protected place that a path lies in. A search asks for every file, at any
    depth, so the places are looked up by their first name."""
    index = _places_by_first_name()
    for at, part in enumerate(parts):
        for place, level in index.get(part, ()):
            if parts[at : at + len(place)] == place and (at == 0 or place[0]):
                yield level
        if part[:1] == "." and _PATTERN.search(part):
            # A command may write a name with a leading dot as a pattern, which a shell expands.
            for first, places in index.items():
                if fnmatchcase(first, part):
                    yield from (
                        level for place, level in places if parts[at + 1 :][: len(place) - 1] == place[1:]
                    )


def holds_protected(parts: Parts) -> bool:
    """Return whether a path below a directory of this name is in the list, as with `.config` and `.git`:
    copying the whole directory may bring a protected file along."""
    places = (place for names in _PLACES.values() for place in _table(names))
    return any(len(place) > 1 and place[0] and parts[-1:] == place[:1] for place in places)


def gateway_home(login: str) -> str:
    """Return where a gateway of this login has its home, unless it was told otherwise."""
    return f"{login}/.hermes-trio"


def login_files(home: str) -> Iterator[str]:
    """Yield the paths in a user's home that are in the list, whether they exist or not."""
    places = (place for names in _PLACES.values() for place in _table(names))
    return (f"{home}/{'/'.join(place)}" for place in places if place[0].startswith("."))


def places_named(name: str) -> Sequence[tuple[Parts, Level]]:
    """Return the places that begin with this name and count wherever they lie. The name is one that
    `folded_name` returns."""
    if name.startswith((".env", "hermes-trio-")) and level_of((name,)) is Level.SECRET:
        return (((name,), Level.SECRET),)
    return _places_by_first_name().get(name, ())


def absolute_places(level: Level) -> Iterator[str]:
    """Yield the places of this level that count from the root."""
    return ("/".join(place) for place in _table(_PLACES[level]) if not place[0])


def folded_name(name: str) -> str:
    """Return one name of a path as the list has it."""
    name = unicodedata.normalize("NFC", name).casefold()
    return ".git" if name.endswith(".git") else name


@cache
def own_program() -> tuple[Parts, ...]:
    """Return the names of `own_program_directories`."""
    return tuple(map(folded, own_program_directories()))


@cache
def own_program_directories() -> tuple[str, ...]:
    """Return the directories that the gateway's program is loaded from: its packages, and its virtual
    environment or the directory in which packages are installed."""
    import sysconfig

    tops = [sys.prefix] if sys.prefix != sys.base_prefix else [sysconfig.get_path("purelib")]
    for package in _PACKAGES:
        spec = find_spec(package)
        tops += (spec.submodule_search_locations or []) if spec else []
    return tuple(os.path.realpath(top) for top in tops)


@cache
def _places_by_first_name() -> dict[str, list[tuple[Parts, Level]]]:
    index: dict[str, list[tuple[Parts, Level]]] = {}
    for level, names in _PLACES.items():
        for place in _table(names):
            index.setdefault(place[0], []).append((place, level))
    return index


@cache
def _table(names: str) -> tuple[Parts, ...]:
    return tuple(tuple(name.split("/")) for name in names.split())
