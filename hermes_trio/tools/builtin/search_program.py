"""File search as a child process: `python -m hermes_trio.tools.builtin.search_program`, with the task as JSON
in its argument.

Python's regular expressions can take forever over one line, and no other task runs meanwhile. So a search is
a child process, which can be killed like any other command and never blocks the gateway. It imports only the
standard library and `paths`, and obeys `paths`: the content of a forbidden file never reaches its output.

Files that `.gitignore` files exclude are skipped. The common rules are supported: names, paths, `*`, `!`, and
a slash at the end. A file that only a rarer rule of git excludes is searched.
"""

from __future__ import annotations

import fnmatch
import json
import os
import re
import stat
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO

from ..paths import PathRefused, Territory, open_to_read

LARGEST_FILE = 10 << 20
MOST_FILES = 200_000
MOST_BYTES = 48_000
"""Largest output in bytes; the parent process sees the last 64 kB."""
LONGEST_LINE = 400
_SKIPPED = {".git", ".hg", ".svn", "node_modules", "__pycache__", ".venv", ".tox", ".mypy_cache"}
_PROBE_BYTES = 8192


@dataclass(frozen=True, slots=True)
class _Rule:
    """A line of a `.gitignore`."""

    pattern: re.Pattern[str]
    folders_only: bool
    keeps: bool


@dataclass(slots=True)
class HitPage:
    """The hits that are written: at most `left` of them, after `skip` others."""

    out: TextIO
    skip: int
    left: int
    size: int = 0
    is_full: bool = False

    def put(self, text: str) -> bool:
        """Write a hit, or skip it. Return False if there is no room for more."""
        if self.skip:
            self.skip -= 1
            return True
        self.size += len(text.encode("utf-8", "replace")) + 1
        self.is_full = not self.left or self.size > MOST_BYTES
        if not self.is_full:
            self.left -= 1
            self.out.write(text + "\n")
        return not self.is_full


def search(task: Mapping[str, Any], out: TextIO) -> None:
    """Write the hits of a task to `out`, and notes in brackets about limits."""
    home, cwd, temporary = (Path(task[name]) for name in ("home", "cwd", "temporary"))
    territory = Territory(home, cwd, map(Path, task["readable"]), temporary)
    root = Path(task["path"])
    page = HitPage(out, task["offset"], task["limit"])
    try:
        pattern = re.compile(task["pattern"]) if task["target"] == "content" else None
    except re.error as error:
        out.write(f"[The pattern is no regular expression: {error}. Escape special characters.]\n")
        return
    searched = 0
    for path in _files(root, territory):
        searched += 1
        if searched > MOST_FILES:
            out.write(f"[Only the first {MOST_FILES} files were searched. Search in a smaller directory.]\n")
            break
        name = os.path.relpath(path, root) if path != root else path.name
        if task["file_glob"] and not _is_like(name, task["file_glob"]):
            continue
        if pattern is None:
            hits: Iterator[str] = iter([name] if _is_like(name, task["pattern"]) else [])
        elif task["files_only"]:
            hits = (name for _ in zip(range(1), _matches(path, pattern, 0), strict=False))
        else:
            hits = (
                f"{name}:{number}{sign}{line}"
                for number, sign, line in _matches(path, pattern, task["context"])
            )
        if not all(page.put(hit) for hit in hits):
            out.write(f"[There is more: next_offset={task['offset'] + task['limit'] - page.left}]\n")
            break


def _is_like(name: str, glob: str) -> bool:
    """Return whether a file matches a glob: one with a slash is matched with the path, any other with the
    name."""
    return fnmatch.fnmatch(name if "/" in glob else os.path.basename(name), glob)


def _matches(path: Path, pattern: re.Pattern[str], context: int) -> Iterator[tuple[int, str, str]]:
    """Yield the matching lines of a file (`:`) and those around them (`-`), each with its number."""
    try:
        fd, facts = open_to_read(path)
    except (PathRefused, OSError):
        return
    with open(fd, "rb") as file:
        if facts.st_size > LARGEST_FILE or b"\0" in file.read(_PROBE_BYTES):
            return
        file.seek(0)
        lines = file.read(LARGEST_FILE).decode("utf-8", "replace").splitlines()
    yielded, until = 0, 0
    for number, line in enumerate(lines, start=1):
        found = pattern.search(line)
        if found:
            for before in range(max(yielded, number - 1 - context), number - 1):
                yield before + 1, "-", _shown(lines[before], 0)
            yield number, ":", _shown(line, found.start())
            until = number + context
        elif number <= until:
            yield number, "-", _shown(line, 0)
        if number <= until:
            yielded = number


def _shown(line: str, at: int) -> str:
    """Return a line; of a long one, the part around the match."""
    start = max(0, at - LONGEST_LINE // 2) if len(line) > LONGEST_LINE else 0
    end = start + LONGEST_LINE
    return f"{'…' if start else ''}{line[start:end]}{'…' if len(line) > end else ''}"


def _files(root: Path, territory: Territory) -> Iterator[Path]:
    """Yield the files below a directory, sorted by name. Links are not followed."""
    if territory.judge(root) is not None:
        return
    if root.is_file():
        yield root
        return
    # A loop, not a recursion: directories may be nested more deeply than Python can recurse.
    waiting: list[tuple[Path, str, list[tuple[str, _Rule]]]] = [(root, "", [])]
    while waiting:
        folder, inner, rules = waiting.pop()
        rules = rules + [(inner, rule) for rule in _rules(folder)]
        folders = []
        for path, is_folder in _entries(folder, inner, rules):
            if territory.judge(path) is None:
                if is_folder:
                    folders.append((path, f"{inner}{path.name}/", rules))
                else:
                    yield path
        waiting += reversed(folders)


def _entries(folder: Path, inner: str, rules: list[tuple[str, _Rule]]) -> Iterator[tuple[Path, bool]]:
    """Yield the entries of a directory that are to be searched, sorted by name, and whether each is a
    directory."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    for entry in entries:
        try:
            mode = entry.stat(follow_symlinks=False).st_mode
        except OSError:
            continue
        is_folder = stat.S_ISDIR(mode)
        if not is_folder and not stat.S_ISREG(mode):
            continue
        if not (is_folder and entry.name in _SKIPPED) and not _is_ignored(
            f"{inner}{entry.name}", is_folder, rules
        ):
            yield folder / entry.name, is_folder


def _rules(folder: Path) -> Iterator[_Rule]:
    path = folder / ".gitignore"
    if not os.path.lexists(path):  # the usual case; opening a file safely takes longer
        return
    try:
        fd, _ = open_to_read(path)
    except (PathRefused, OSError):
        return
    with open(fd, encoding="utf-8", errors="replace") as file:
        lines = file.read(_PROBE_BYTES * 8).splitlines()
    for line in lines:
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        keeps, text = text.startswith("!"), text.lstrip("!")
        folders_only, text = text.endswith("/"), text.rstrip("/")
        anchored, text = "/" in text and not text.startswith("**/"), text.removeprefix("**/").lstrip("/")
        pattern = fnmatch.translate(text)
        yield _Rule(
            re.compile(pattern if anchored else rf"(?:.*/)?{pattern}", re.DOTALL), folders_only, keeps
        )


def _is_ignored(name: str, is_folder: bool, rules: list[tuple[str, _Rule]]) -> bool:
    """Return whether a name is excluded: the last rule that matches counts."""
    ignored = False
    for base, rule in rules:
        if (is_folder or not rule.folders_only) and rule.pattern.match(name[len(base) :]):
            ignored = not rule.keeps
    return ignored


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8", errors="replace")  # type: ignore[union-attr]
    search(json.loads(sys.argv[1]), sys.stdout)
