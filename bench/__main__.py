"""`python -m bench NAME`: run a benchmark, and print a table.

`all` runs them one after the other, in less than an hour without the programs of others, and says what it
leaves out; `all --quick` runs those that find a broken promise, in some minutes. The options of both are
those of `drain`. `turn --host guest` measures what a host costs. `cluster` needs PostgreSQL.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Sequence

from . import core, hosts, sandbox_cost, start, storage, turn
from .comparison import cancel, crash, drain, memory, report, traffic
from .web import all_figures, sessions


def _cluster(options: Sequence[str] = ()) -> int:
    # Imported here, because it needs psycopg and the helpers of the tests, and child processes import this.
    from . import cluster

    return cluster.main(options)


COMPARISONS: dict[str, Callable[[Sequence[str]], int]] = {
    "drain": drain.main,
    "crash": crash.main,
    "cancel": cancel.main,
    "traffic": traffic.main,
    "memory": memory.main,
}
"""Benchmarks that compare programs, and take options."""
PROMISES = ("drain", "crash", "cancel")
"""Those of them that find broken promises."""
LONG = ("growth",)
"""Benchmarks that take too long to be one of all."""
ALL_ROUNDS = "3"
WITH_OPTIONS: dict[str, Callable[[Sequence[str]], int]] = {
    **COMPARISONS,
    "cluster": _cluster,
    "turn": turn.main,
}
OTHERS: dict[str, Callable[[], int]] = {
    "cluster": _cluster,
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
    # An interrupt, so that the blocks end what they have started.
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    name, *options = sys.argv[1:] or [""]
    if name in WITH_OPTIONS:
        return WITH_OPTIONS[name](options)
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
    chosen: Sequence[str] = PROMISES
    others: Sequence[str] = ()
    if "--quick" not in options:
        chosen, others = list(COMPARISONS), [name for name in OTHERS if name not in LONG]
        options = (*options, *(() if "--rounds" in options else ("--rounds", ALL_ROUNDS)))
    left_out = sorted({*COMPARISONS, *OTHERS} - {*chosen, *others, "cluster"})
    left_out += [] if "--peers" in options else ["the programs of others (--peers)"]
    print(f"Left out: {', '.join(left_out)}.")
    if "--quick" in options:
        _cluster(["--quick"])
    for name in others:
        OTHERS[name]()
    return max(COMPARISONS[name](options) for name in chosen)


if __name__ == "__main__":  # a child process of a benchmark imports this module and must not start one
    raise SystemExit(main())
