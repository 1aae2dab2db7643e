"""The optional packages of hermes-trio, by the name of their extra in `pyproject.toml`."""

from __future__ import annotations

import re
import shlex
import sys
from importlib.metadata import requires

_OF_EXTRA = re.compile(r"(?P<package>[^;]+);\s*extra\s*==\s*['\"](?P<extra>[\w-]+)['\"]\s*")


def install_command(extra: str) -> str:
    """Return the command that installs the packages of an extra for the Python that runs now. It names the
    packages, not the extra, because hermes-trio may come from a directory and not from a package index."""
    found = (_OF_EXTRA.fullmatch(text) for text in requires("hermes-trio") or [])
    packages = [one["package"].strip() for one in found if one and one["extra"] == extra]
    if not packages:
        raise LookupError(f"hermes-trio has no extra {extra!r}")
    return shlex.join([sys.executable, "-m", "pip", "install", *packages])
