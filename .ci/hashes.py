"""Print the packages that the gateway runs and is built with, each with its version and its files' hashes.

    python .ci/hashes.py > hashes.txt        # or `make hashes`

pip resolves them under `constraints.txt`, once for each platform and each version of Python below. The hashes
are those of the index that this pip is set to; its address is not printed.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from collections import defaultdict
from pathlib import Path

TOP = Path(__file__).resolve().parents[1]
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = {
    "Linux, x86-64": ("manylinux_2_28_x86_64", "manylinux_2_17_x86_64", "manylinux2014_x86_64"),
    "Linux, ARM": ("manylinux_2_28_aarch64", "manylinux_2_17_aarch64", "manylinux2014_aarch64"),
    "macOS, ARM": ("macosx_13_0_arm64", "macosx_13_0_universal2"),
}
HEAD = f"""\
# Made by `make hashes` from constraints.txt: what the gateway runs and is built with. Install it with
# `make verified`. The files are for {"; ".join(PLATFORMS)}; Python {PYTHONS[0]} to {PYTHONS[-1]}.
"""


def requirements() -> list[str]:
    """Return the direct requirements: of the gateway, of its extras for people, and of its build."""
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    # An editable installation needs one package more, which the build asks for by itself otherwise.
    build = [*project["build-system"]["requires"], "editables"]
    return [*project["project"]["dependencies"], *extras["telegram"], *extras["mcp"], *build]


def resolved(python: str, platforms: tuple[str, ...]) -> dict[str, tuple[str, str]]:
    """Return the version and the hash of each package on one platform."""
    with tempfile.TemporaryDirectory() as target:
        pip = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet"]
        how = [
            "--only-binary=:all:",
            "--implementation",
            "cp",
            "--python-version",
            python,
            "--target",
            target,
        ]
        how += [word for platform in platforms for word in ("--platform", platform)]
        report = ["--report", "-", "--constraint", str(TOP / "constraints.txt")]
        done = subprocess.run([*pip, *how, *report, *requirements()], stdout=subprocess.PIPE, check=True)  # noqa: S603
    return {
        one["metadata"]["name"]: (
            one["metadata"]["version"],
            one["download_info"]["archive_info"]["hashes"]["sha256"],
        )
        for one in json.loads(done.stdout)["install"]
    }


def main() -> None:
    """Print the file."""
    hashes: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for python in PYTHONS:
        for name, platforms in PLATFORMS.items():
            print(f"Python {python}, {name}", file=sys.stderr)
            for package, (version, found) in resolved(python, platforms).items():
                hashes[package.lower().replace("_", "-"), version].add(found)
    print(HEAD, end="")
    for (package, version), found in sorted(hashes.items()):
        print(" \\\n    ".join([f"{package}=={version}", *(f"--hash=sha256:{one}" for one in sorted(found))]))


if __name__ == "__main__":
    main()
