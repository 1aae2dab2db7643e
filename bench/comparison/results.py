"""The results of a run: one line of JSON for each measurement, after a line that says where and how."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TextIO


@dataclass(frozen=True, slots=True)
class Results:
    """The file with the results of one benchmark."""

    file: TextIO

    def add(self, **record: object) -> None:
        """Write a line."""
        self.file.write(json.dumps(record) + "\n")
        self.file.flush()


@contextmanager
def results(directory: Path, name: str, *, add: bool = False, **settings: object) -> Iterator[Results]:
    """Open the file for the results of a benchmark, and note the machine and its load before and after. With
    `add` the results that are there stay."""
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / f"{name}.jsonl").open("a" if add else "w", encoding="utf-8") as file:
        one = Results(file)
        one.add(kind="run", bench=name, at=time.strftime("%Y-%m-%d %H:%M"), **machine(), **settings)
        yield one
        one.add(kind="end", load=os.getloadavg()[0])


def machine() -> dict[str, object]:
    """Return what a reader has to know of the machine."""
    with open("/proc/meminfo", encoding="ascii") as file:
        memory = int(file.readline().split()[1]) >> 20
    return {
        "system": f"{platform.system()} {platform.release()}",
        "processors": os.cpu_count(),
        "memory_gb": memory,
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "load": os.getloadavg()[0],
    }


def read(path: Path) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the runs whose results are in a file, and all their measurements."""
    runs: list[dict[str, Any]] = []
    measured: list[dict[str, Any]] = []
    for line in map(json.loads, path.read_text("utf-8").splitlines()):
        match line["kind"]:
            case "run":
                runs.append(line)
            case "measurement":
                measured.append(line)
            case "end":
                runs[-1]["load_after"] = line["load"]
    return runs, measured
