"""The environment of what the agent runs: a short list of our variables, and nothing else. Pure.

Commands, the program that searches files, and the programs of MCP servers get these. A list of what is let
through, because no list of names of secrets is complete: `DATABASE_URL` and `PGSERVICE` hold secrets too. Not
let through on purpose are sockets (`SSH_AUTH_SOCK`, `DOCKER_HOST`, `DBUS_SESSION_BUS_ADDRESS`, `DISPLAY`,
`XDG_RUNTIME_DIR`). The marker of a command's process group is added where the command is started.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from .secret_places import masked_places

_LET_THROUGH = """
    HOME USER LOGNAME USERNAME SHELL PWD HERMES_HOME
    TERM COLORTERM COLUMNS LINES NO_COLOR FORCE_COLOR CLICOLOR EDITOR VISUAL PAGER LESS
    LANG LANGUAGE TZ TZDIR CHARSET PYTHONUTF8 PYTHONIOENCODING
    PATH MANPATH INFOPATH TMPDIR TMP TEMP XDG_CONFIG_HOME XDG_DATA_HOME XDG_CACHE_HOME
    XDG_STATE_HOME XDG_CONFIG_DIRS XDG_DATA_DIRS LD_LIBRARY_PATH DYLD_LIBRARY_PATH
    DYLD_FALLBACK_LIBRARY_PATH PKG_CONFIG_PATH
    VIRTUAL_ENV VIRTUAL_ENV_PROMPT CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE PYTHONPATH PYTHONHOME
    PYTHONDONTWRITEBYTECODE PYENV_ROOT PIPX_HOME UV_CACHE_DIR PIP_CACHE_DIR NVM_DIR NVM_BIN
    NODE_PATH PNPM_HOME VOLTA_HOME BUN_INSTALL DENO_INSTALL GOPATH GOROOT GOBIN GOCACHE CARGO_HOME
    RUSTUP_HOME JAVA_HOME GRADLE_HOME MAVEN_HOME ANDROID_HOME GEM_HOME GEM_PATH RBENV_ROOT ASDF_DIR
    MISE_DATA_DIR DOTNET_ROOT SDKMAN_DIR HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY
    NIX_PATH NIX_PROFILES
    SSL_CERT_FILE SSL_CERT_DIR NIX_SSL_CERT_FILE REQUESTS_CA_BUNDLE CURL_CA_BUNDLE
    NODE_EXTRA_CA_CERTS PIP_CERT
    HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY http_proxy https_proxy ftp_proxy all_proxy
    no_proxy PIP_INDEX_URL PIP_EXTRA_INDEX_URL UV_INDEX_URL UV_DEFAULT_INDEX NPM_CONFIG_REGISTRY
    npm_config_registry GOPROXY
    ALLUSERSPROFILE APPDATA LOCALAPPDATA COMMONPROGRAMFILES COMPUTERNAME COMSPEC HOMEDRIVE HOMEPATH
    NUMBER_OF_PROCESSORS OS PATHEXT PROCESSOR_ARCHITECTURE PROGRAMDATA PROGRAMFILES
    PROGRAMFILES(X86) SYSTEMDRIVE SYSTEMROOT USERPROFILE WINDIR
"""
"""The person and the terminal, the locale, directories, language toolchains, certificates, addresses, and
what programs on Windows need."""
_NAMES = frozenset(_LET_THROUGH.split())
_LOCALE_NAME = re.compile(r"LC_[A-Z]+")


def command_environment(environ: Mapping[str, str], passed: Collection[str] = ()) -> dict[str, str]:
    """Return the variables that a command gets: those of the list, and those that the configuration passes
    on by name. A variable of the list whose value holds a credential, such as the address of a proxy with a
    password, is left out."""
    return {name: value for name, value in environ.items() if name in passed or _is_let_through(name, value)}


def _is_let_through(name: str, value: str) -> bool:
    is_listed = name in _NAMES or _LOCALE_NAME.fullmatch(name)
    return bool(is_listed) and masked_places(value) == value
