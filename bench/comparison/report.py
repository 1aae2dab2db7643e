"""One page of HTML of a run: the goals, the tables, the plots, and where and how it was measured.

python -m bench report bench-results page.html
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from statistics import median
from typing import Any

from .drawings import drawings
from .goals import OURS, PROMISES, Measured, counts, goals
from .results import read
from .stop import ENDS_WITHIN

BENCHMARKS = ("drain", "crash", "cancel", "traffic", "memory")
TITLE = "How gateways end"
STYLE = """
:root { color-scheme: light dark; --line: #8884; --soft: #8881; --bad: #c92a2a; --good: #2b8a3e; }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1.2rem; }
h1 { margin-bottom: .2rem; } h2 { margin-top: 2.6rem; } .scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: .92rem; }
td, th { border-bottom: 1px solid var(--line); padding: .35rem .7rem; }
td, th { text-align: right; vertical-align: top; }
td:first-child, th:first-child, .left td, .left th { text-align: left; }
.two :is(td, th):nth-child(2) { text-align: left; }
.goals td:first-child { min-width: 22rem; }
th { font-weight: 600; white-space: nowrap; }
tbody tr:hover { background: var(--soft); } svg { width: 100%; height: auto; margin: .8rem 0; }
small, li { color: #6e7781; } ul { padding-left: 1.2rem; font-size: .85rem; } .bad { color: var(--bad); }
.good { color: var(--good); } .ours { font-weight: 600; }
@media (prefers-color-scheme: dark) { body { background: #0d1117; color: #e6edf3; }
:root { --bad: #ff8787; --good: #69db7c; } small, li { color: #9da5ae; } }
"""
WORDS = {"cut_off": "cut off", "lost": "lost", "doubled": "twice", "wrong": "wrongly resumed", "left": "left"}


def main(arguments: Sequence[str]) -> int:
    """Write the page."""
    parser = argparse.ArgumentParser(prog="python -m bench report", description="Make a page of a run.")
    parser.add_argument("results", type=Path)
    parser.add_argument("page", type=Path)
    given = parser.parse_args(arguments)
    given.page.write_text(page(given.results), encoding="utf-8")
    print(given.page)
    return 0


def page(directory: Path) -> str:
    """Return the page of a directory of results."""
    runs, results = [], {}
    for name in BENCHMARKS:
        if (directory / f"{name}.jsonl").exists():
            of_these, results[name] = read(directory / f"{name}.jsonl")
            runs += of_these
    parts = [
        f"<h1>{TITLE}</h1>",
        *_where(runs),
        "<h2>Goals</h2>",
        *_goals(results),
        *_drain(runs, results.get("drain", [])),
        *_others(results),
        *_runs(runs),
    ]
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>{TITLE}</title>"
    view = "<meta name='viewport' content='width=device-width, initial-scale=1'>"
    return "\n".join([head, view, f"<style>{STYLE}</style>", *parts, "</html>", ""])


def _where(runs: Measured) -> Iterator[str]:
    run = runs[0]
    versions = {name: version for one in runs for name, version in one.get("versions", {}).items()}
    yield (
        f"<p>{escape(run['at'])} UTC, {run['processors']} processors and {run['memory_gb']} GB, "
        f"{escape(run['system'])}, Python {escape(run['python'])}, SQLite {escape(run['sqlite'])}.<br><small>"
        f"{escape(', '.join(f'{name} {version}' for name, version in versions.items()))}</small></p>"
    )


def _goals(results: Mapping[str, Measured]) -> Iterator[str]:
    yield "<div class='scroll'><table class='left goals'><tr><th>Goal<th>Found<th></tr>"
    for goal in goals(results):
        verdict = {None: "", True: "<span class='good'>met</span>", False: "<span class='bad'>missed</span>"}
        yield f"<tr><td>{escape(goal.text)}<td>{escape(goal.found)}<td>{verdict[goal.met]}</tr>"
    yield "</table></div>"


def _drain(runs: Measured, measured: Measured) -> Iterator[str]:
    if not measured:
        return
    names = list(dict.fromkeys(one["subject"] for one in measured))
    yield "<h2>Stops</h2><p>The time from the ideal end until the process is gone, in ms: median, and from "
    yield "least to most. The ideal end is the last answer of the model, or the end of the grace.</p>"
    yield "<div class='scroll'><table><tr><th>Stop"
    yield from (f"<th>{escape(name)}" for name in names)
    yield "</tr>"
    for case in counts(measured):
        cells = ([one for one in measured if (one["subject"], one["case"]) == (name, case)] for name in names)
        yield f"<tr><td>{escape(case)}{''.join(map(_cell, cells))}</tr>"
    yield "</table></div>"
    yield from _reasons(measured)
    yield from (svg for _, svg in drawings(measured))
    settings = {name: said for one in runs for name, said in one.get("settings", {}).items() if said}
    yield "<ul>"
    yield from (f"<li>{escape(name)}: {escape(said)}." for name, said in settings.items())
    yield "</ul>"


def _cell(rounds: Measured) -> str:
    if not rounds or rounds[0]["failed"]:
        why = rounds[0]["failed"] if rounds else "not measured"
        return f"<td title='{escape(why, quote=True)}'>&ndash;</td>"
    took = [one["overshoot_ms"] for one in rounds if one["overshoot_ms"] is not None]
    text = (
        f"{median(took):,.0f}"
        if len(took) == len(rounds)
        else f"<span class='bad'>over {ENDS_WITHIN:g} s</span>"
    )
    if len(took) == len(rounds) > 1:
        text += f"<br><small>{min(took):,.0f} to {max(took):,.0f}</small>"
    held = min(one["held"] for one in rounds)
    if held < rounds[0]["count"]:
        text += f"<br><span class='bad'>held {held}</span>"
    for key in PROMISES:
        if most := max(len(one[key]) for one in rounds):
            text += f"<br><span class='bad'>{most} {WORDS[key]}</span>"
    return f"<td{' class=ours' if rounds[0]['subject'] == OURS else ''}>{text}</td>"


def _reasons(measured: Measured) -> Iterator[str]:
    """Return what could not be measured, with the reasons."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for one in measured:
        if one["failed"] and one["case"] not in reasons.setdefault((one["subject"], one["failed"]), []):
            reasons[one["subject"], one["failed"]].append(one["case"])
    yield "<ul>"
    for (name, why), cases in reasons.items():
        said = f"{name}, {', '.join(cases)}: {why.splitlines()[0]}"
        yield f"<li>{escape(said)}."
    yield "</ul>"


def _others(results: Mapping[str, Measured]) -> Iterator[str]:
    tables = {
        "crash": (
            "Kills",
            "Seconds from the start of a process; a resumed turn from that of the next one. Medians.",
            {
                "started_s": "ready",
                "answered_s": "first answer",
                "again_s": "ready again",
                "resumed_s": "resumed",
            },
        ),
        "cancel": (
            "Stop of one turn",
            "Milliseconds from the request to stop. Medians.",
            {"closed_ms": "model closed", "dead_ms": "command dead", "next_ms": "next turn"},
        ),
        "traffic": (
            "Turns",
            "<i>Repeated</i> is the share of a prompt that is the same as in the one before it.",
            {
                "per_s": "turns/s",
                "cpu_ms": "CPU of one, ms",
                "prompt_kb": "prompt, KB",
                "repeated": "repeated",
            },
        ),
        "memory": (
            "Memory",
            "Its own memory, with its processes. An hour is 3,600 turns.",
            {
                "start_mb": "start, MB",
                "idle_kb": "idle session, KB",
                "running_kb": "running turn, KB",
                "turns": "turns",
                "end_mb": "end, MB",
                "growth_kb": "growth for 1,000 turns, KB",
            },
        ),
    }
    for name, (title, text, columns) in tables.items():
        if name in results:
            yield f"<h2>{title}</h2><p>{text}</p><div class='scroll'><table class='two'>"
            yield "<tr><th>Program<th>Case"
            yield "".join(f"<th>{column}" for column in columns.values()) + "</tr>"
            yield from _rows(results[name], list(columns))
            yield "</table></div>"
            yield from _reasons(results[name])


def _rows(measured: Measured, keys: Sequence[str]) -> Iterator[str]:
    for subject, case in dict.fromkeys((one["subject"], one["case"]) for one in measured):
        rounds = [one for one in measured if (one["subject"], one["case"]) == (subject, case)]
        broken = {key: max(len(one.get(key, ())) for one in rounds) for key in PROMISES}
        said = "".join(f" <span class='bad'>{n} {WORDS[key]}</span>" for key, n in broken.items() if n)
        name = " class=ours" if subject == OURS else ""
        cells = "".join(f"<td>{_shown([one[key] for one in rounds])}" for key in keys)
        yield f"<tr{name}><td>{escape(subject)}<td>{escape(case)}{said}{cells}</tr>"


def _shown(values: Sequence[Any]) -> str:
    """Return the median of values, or of lists of values in which None is what did not happen in time."""
    flat = [value for one in values for value in (one if isinstance(one, list) else [one])]
    if any(isinstance(one, list) and None in one for one in values):
        return "<span class='bad'>not in time</span>"
    found = [value for value in flat if value is not None]
    if not found:
        return "&ndash;"
    number = median(found)
    return f"{number:,.{max(0, 2 - int(math.log10(max(abs(number), 1))))}f}"


def _runs(runs: Measured) -> Iterator[str]:
    yield "<h2>Runs</h2><p>The parts were measured one after the other. In each round of a part every "
    yield "program is measured, so that noise of the machine affects all.</p>"
    yield "<div class='scroll'><table><tr><th>Benchmark<th>Begun<th>Rounds<th>Load before<th>after</tr>"
    for run in runs:
        yield (
            f"<tr><td>{run['bench']}<td>{run['at']}<td>{run['rounds']}<td>{run['load']:.1f}"
            f"<td>{run.get('load_after', math.nan):.1f}</tr>"
        )
    yield "</table></div>"
