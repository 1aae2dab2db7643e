"""`python -m bench NAME`: run a benchmark, and print a table.

`all` runs them one after the other, in about an hour; `all --quick` runs those that find a broken promise, in
about a minute. The options of both are those of `drain`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence

from . import core, hosts, sandbox_cost, start, storage, turn
from .stops import crash, drain, report
from .web import all_figures, sessions

COMPARISONS: dict[str, Callable[[Sequence[str]], int]] = {"crash": crash.main, "drain": drain.main}
"""Benchmarks that find broken promises, and take options."""
OTHERS: dict[str, Callable[[], int]] = {
    "core": core.main,
    "growth": sessions.main,
    "hosts": hosts.main,
    "sandbox": sandbox_cost.main,
    "start": start.main,
    "storage": storage.main,
    "turn": turn.main,
    "web": all_figures.main,
}


def main() -> int:
    """Run the benchmark that the command line names, and return the exit code."""
    name, *options = sys.argv[1:] or [""]
    if name in COMPARISONS:
        return COMPARISONS[name](options)
    if name in OTHERS:
        return OTHERS[name]()
    if name == "report":
        return report.main(options)
    if name == "all":
        return _run_all(options)
    names = "|".join(("all", *sorted({**COMPARISONS, **OTHERS}), "report"))
    print(f"usage: python -m bench {names}", file=sys.stderr)
    return 2


def _run_all(options: Sequence[str]) -> int:
    if "--quick" in options:
        print(f"Left out: {', '.join(OTHERS)}; they measure, and find no broken promise.")
    else:
        for run in OTHERS.values():
            run()
    return max(compare(options) for compare in COMPARISONS.values())


if __name__ == "__main__":  # a child process of a benchmark imports this module and must not start one
    raise SystemExit(main())
