"""One page of HTML of a run: its tables, its plots, and where it was measured.

python -m bench report bench-results page.html
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from .results import read

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; } td, th { border: 1px solid #8884; padding: .3rem .6rem; }
td, th { text-align: right; } td:first-child, th:first-child { text-align: left; }
svg { width: 100%; height: auto; } .bad { color: #c92a2a; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; } .bad { color: #ff8787; } }
"""


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench report", description="Make a page of a run.")
    parser.add_argument("results", type=Path)
    parser.add_argument("page", type=Path)
    given = parser.parse_args(arguments)
    given.page.write_text(page(given.results), encoding="utf-8")
    print(given.page)
    return 0


def page(results: Path) -> str:
    """Return the page of a directory of results."""
    run, measured = read(results / "drain.jsonl")
    plots = (path.read_text("utf-8") for path in sorted(results.glob("*.svg")))
    parts = [
        "<h1>How gateways end</h1>",
        f"<p>{escape(run['at'])}: {run['rounds']} rounds on {run['processors']} processors with "
        f"{run['memory_gb']} GB, {escape(run['system'])}, Python {escape(run['python'])}, "
        f"load before {run['load']:.1f}.</p>",
        *_table(run, measured),
        *plots,
    ]
    head = "<!doctype html><html lang='en'><meta charset='utf-8'><title>How gateways end</title>"
    view = "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    return "\n".join([head, view, f"<style>{STYLE}</style>", *parts, "</html>", ""])


def _table(run: Mapping[str, Any], measured: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    names = list(run["versions"])
    yield "<table><tr><th>Overshoot in ms, median</th>"
    for name in names:
        yield f"<th>{escape(name)}<br><small>{escape(run['versions'][name])}</small></th>"
    yield "</tr>"
    for stop in dict.fromkeys(one["stop"] for one in measured):
        cells = ([one for one in measured if (one["subject"], one["stop"]) == (name, stop)] for name in names)
        yield f"<tr><td>{escape(stop)}</td>{''.join(map(_cell, cells))}</tr>"
    yield "</table>"
    for name, said in run["settings"].items():
        if said:
            yield f"<p>{escape(name)}: {escape(said)}.</p>"


def _cell(rounds: Sequence[Mapping[str, Any]]) -> str:
    if not rounds or rounds[0]["failed"]:
        return f"<td title='{escape(rounds[0]['failed'] if rounds else '')}'>-</td>"
    took = [one["overshoot_ms"] for one in rounds if one["overshoot_ms"] is not None]
    text = f"{median(took):,.0f}" if len(took) == len(rounds) else "<span class='bad'>killed</span>"
    held = min(one["held"] for one in rounds)
    if held < rounds[0]["count"]:
        text += f"<br><span class='bad'>held {held}</span>"
    for key, what in (("lost", "lost"), ("doubled", "twice"), ("wrong", "wrongly resumed"), ("left", "left")):
        if most := max(len(one[key]) for one in rounds):
            text += f"<br><span class='bad'>{most} {what}</span>"
    return f"<td>{text}</td>"
