"""`python -m bench NAME`: run a benchmark; print a table for people and one line of JSON for programs."""

from __future__ import annotations

import sys

from . import core, sandbox_cost, start, storage, turn
from .stops import drain, report
from .web import all_figures, sessions

BENCHMARKS = {
    "core": core.main,
    "drain": lambda: drain.main(sys.argv[2:]),
    "growth": sessions.main,
    "report": lambda: report.main(sys.argv[2:]),
    "sandbox": sandbox_cost.main,
    "start": start.main,
    "storage": storage.main,
    "turn": turn.main,
    "web": all_figures.main,
}


def main() -> int:
    """Run the benchmark that the command line names, and return the exit code."""
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in BENCHMARKS:
        print(f"usage: python -m bench {'|'.join(BENCHMARKS)}", file=sys.stderr)
        return 2
    return BENCHMARKS[name]()


if __name__ == "__main__":  # a child process of a benchmark imports this module and must not start one
    raise SystemExit(main())
