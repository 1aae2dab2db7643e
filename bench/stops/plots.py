"""Plots as SVG: lines on two logarithmic scales, and strips of single measurements."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

COLOURS = ("#8a8f98", "#1668dc", "#d9480f", "#2b8a3e", "#862e9c", "#e67700")
WIDTH, HEIGHT = 720, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 150, 40, 44
ROW, GAP = 14, 12
_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#57606a}.t{font-size:15px;fill:#24292f}"
    "@media(prefers-color-scheme:dark){text{fill:#9da5ae}.t{fill:#e6edf3}}</style>"
)
_GRID = "stroke='#8a8f98' stroke-opacity='0.25'"


def lines(title: str, below: str, series: Mapping[str, Sequence[tuple[float, float]]]) -> str:
    """Return a plot with one line for each name, both axes logarithmic."""
    points = [point for line in series.values() for point in line]
    if not points:
        return _page(title, HEIGHT, ["<text x='64' y='80'>no measurement</text>"])
    xs, ys = _scale([x for x, _ in points]), _scale([y for _, y in points])
    place_x = _placer(xs, LEFT, WIDTH - RIGHT)
    place_y = _placer(ys, HEIGHT - BOTTOM, TOP)
    parts = [*_rulers(ys, place_y), f"<text x='{LEFT}' y='{HEIGHT - 8}'>{escape(below)}</text>"]
    parts += [
        f"<text x='{place_x(x):.0f}' y='{HEIGHT - 26}' text-anchor='middle'>{x:g}</text>"
        for x in sorted({x for x, _ in points})
    ]
    for colour, line in zip(COLOURS, series.values(), strict=False):
        places = [(place_x(x), place_y(y)) for x, y in line]
        if places:
            path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
            parts.append(f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2'/>")
            parts += [f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}'/>" for x, y in places]
    return _page(title, HEIGHT, [*parts, *_legend(series)])


def strips(title: str, groups: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return a plot with a row for each name in each group, and a dot for each of its values."""
    values = [value for group in groups.values() for row in group.values() for value in row]
    rows = sum(1 for group in groups.values() for _ in group)
    height = TOP + rows * ROW + len(groups) * GAP + BOTTOM
    if not values:
        return _page(title, height, ["<text x='64' y='80'>no measurement</text>"])
    scale = _scale(values)
    place = _placer(scale, LEFT + 80, WIDTH - RIGHT)
    parts = []
    for tick in _ticks(scale):
        x = place(tick)
        parts.append(f"<path d='M{x:.1f} {TOP}V{height - BOTTOM}' {_GRID}/>")
        parts.append(f"<text x='{x:.0f}' y='{height - 24}' text-anchor='middle'>{tick:,g}</text>")
    y = float(TOP)
    for group, named in groups.items():
        y += GAP
        parts.append(f"<text x='8' y='{y + ROW / 2 + 4:.0f}'>{escape(group)}</text>")
        for colour, row in zip(COLOURS, named.values(), strict=False):
            y += ROW
            parts += [
                f"<circle cx='{place(max(value, scale[0])):.1f}' cy='{y - ROW / 2:.1f}' r='3.5' "
                f"fill='{colour}' fill-opacity='0.7'/>"
                for value in row
            ]
    return _page(title, height, [*parts, *_legend(next(iter(groups.values())))])


def _page(title: str, height: float, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}' role='img'>"
    return "\n".join(
        [head, _STYLE, f"<text class='t' x='8' y='22'>{escape(title)}</text>", *parts, "</svg>", ""]
    )


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """Return the powers of ten around the values; values below one count as one."""
    least, most = max(1.0, min(values)), max(1.0, *values)
    low = 10 ** math.floor(math.log10(least))
    return low, max(low * 10, 10 ** math.ceil(math.log10(most)))


def _placer(scale: tuple[float, float], first: float, last: float) -> Callable[[float], float]:
    low, high = (math.log10(end) for end in scale)
    return lambda value: first + (math.log10(max(value, scale[0])) - low) / (high - low) * (last - first)


def _ticks(scale: tuple[float, float]) -> Iterator[float]:
    tick = scale[0]
    while tick <= scale[1]:
        yield tick
        tick *= 10


def _rulers(scale: tuple[float, float], place: Callable[[float], float]) -> Iterator[str]:
    for tick in _ticks(scale):
        y = place(tick)
        yield f"<path d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}' {_GRID}/>"
        yield f"<text x='{LEFT - 8}' y='{y + 4:.0f}' text-anchor='end'>{tick:,g}</text>"


def _legend(names: Mapping[str, object]) -> Iterator[str]:
    for number, (colour, name) in enumerate(zip(COLOURS, names, strict=False)):
        y = TOP + 10 + 18 * number
        yield f"<circle cx='{WIDTH - RIGHT + 16}' cy='{y - 4}' r='4' fill='{colour}'/>"
        yield f"<text x='{WIDTH - RIGHT + 26}' y='{y}'>{escape(name)}</text>"
