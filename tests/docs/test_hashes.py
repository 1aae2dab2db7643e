"""The hashes of the packages: the file holds what the gateway requires, in the versions that were tested."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

TOP = Path(__file__).parents[2]
HASHES = (TOP / "hashes.txt").read_text("utf-8")
LINE = re.compile(r"#.*|[a-z0-9.-]+==[\w.]+ \\|    --hash=sha256:[0-9a-f]{64}(?: \\)?")


def packages(text: str) -> dict[str, str]:
    """Return the version of each package in a list of pinned ones."""
    found = re.findall(r"^([\w.-]+)==([\w.]+)", text, re.MULTILINE)
    return {plain(name): version for name, version in found}


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_each_line_is_a_package_or_a_hash_and_none_names_an_index() -> None:
    assert [line for line in HASHES.splitlines() if not LINE.fullmatch(line)] == []


def test_the_versions_are_those_that_were_tested() -> None:
    tested = packages((TOP / "constraints.txt").read_text("utf-8"))
    hashed = packages(HASHES)
    assert {name: version for name, version in hashed.items() if tested.get(name, version) != version} == {}


def test_everything_that_the_gateway_requires_has_hashes() -> None:
    project = tomllib.loads((TOP / "pyproject.toml").read_text("utf-8"))
    extras = project["project"]["optional-dependencies"]
    required = project["project"]["dependencies"] + extras["telegram"] + extras["mcp"]
    names = {plain(re.split(r"[<>=;\[ ]", one)[0]) for one in required + project["build-system"]["requires"]}
    assert names - set(packages(HASHES)) == set()
    parts = re.split(r"^(?=[a-z0-9])", HASHES, flags=re.MULTILINE)[1:]
    assert [part for part in parts if "--hash=sha256:" not in part] == []
