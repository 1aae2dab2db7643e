"""The tables of commands, as text: blocks of shell with a title and a blank line between two blocks.

    # title [programs that it needs]
    command

A title that begins with `#!` is that of a command which could hurt the machine. It never runs outside of a
sandbox. The first line of a file tells what its commands have in common; its name is their kind.
"""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PATH = "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
_TITLE = re.compile(r"#(!?) (.+?)(?: \[(.+)\])?")


@dataclass(frozen=True, slots=True)
class Sample:
    """One command of the corpus."""

    kind: str
    title: str
    text: str
    programs: tuple[str, ...]
    hurts_the_machine: bool

    @property
    def name(self) -> str:
        """Its name in a report."""
        return f"{self.kind}: {self.title}"

    @property
    def can_run(self) -> bool:
        """True if this machine has the programs that it needs."""
        return all(shutil.which(program, path=PATH) for program in self.programs)


def harmful() -> list[Sample]:
    """Return the harmful commands, of all kinds."""
    return [
        one
        for path in sorted(Path(__file__).parent.glob("harmful/*.sh"))
        for one in _samples(path, path.stem)
    ]


def everyday() -> list[Sample]:
    """Return the commands of everyday work."""
    return list(_samples(Path(__file__).parent / "everyday.sh", "everyday"))


def _samples(path: Path, kind: str) -> Iterator[Sample]:
    _, *blocks = path.read_text("utf-8").strip().split("\n\n")
    for block in blocks:
        head, _, text = block.partition("\n")
        title = _TITLE.fullmatch(head)
        assert title is not None, f"{path.name}: {head}"
        yield Sample(kind, title[2], text, tuple((title[3] or "").split()), bool(title[1]))
