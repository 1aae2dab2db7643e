"""Plots as SVG: lines on two logarithmic scales, the spread of single measurements, and bars of phases."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape

COLOURS = {
    "floor": "#8a8f98",
    "hermes-trio": "#1668dc",
    "embedded-trio": "#5aa9f8",
    "embedded-asyncio": "#13a8a8",
    "hermes-agent": "#e8590c",
    "nanobot": "#2f9e44",
    "openclaw": "#ae3ec9",
}
"""The colour of each program; others are black."""
PHASES = ("#1668dc", "#5aa9f8", "#13a8a8", "#f2b134", "#e8590c", "#ae3ec9", "#8a8f98")
WIDTH, HEIGHT = 860, 380
LEFT, RIGHT, TOP, BOTTOM = 64, 160, 48, 44
LANE, GAP, NAMES = 7, 11, 190
_STYLE = (
    "<style>text{font:12px system-ui,sans-serif;fill:#57606a}.t{font-size:16px;font-weight:600;fill:#24292f}"
    ".n{fill:#24292f}.g{stroke:#8a8f98;stroke-opacity:.22}.b{fill:#8a8f98;fill-opacity:.07}"
    "@media(prefers-color-scheme:dark){text{fill:#9da5ae}.t,.n{fill:#e6edf3}}</style>"
)

Series = Mapping[str, Sequence[tuple[float, float]]]
Place = Callable[[float], float]


def lines(title: str, below: str, series: Series, killed: Series | None = None, limit: float = 0.0) -> str:
    """Return a plot with one line for each name, both axes logarithmic. What was `killed` stands as a cross
    at the upper edge, which is at the `limit`."""
    points = [point for line in series.values() for point in line]
    crosses = [point for line in (killed or {}).values() for point in line]
    if not points:
        return _page(title, HEIGHT, ["<text x='64' y='80'>no measurement</text>"])
    xs = _scale([x for x, _ in (*points, *crosses)])
    ys = _scale([y for _, y in points] + [limit] * bool(crosses))
    place_x, place_y = _placer(xs, LEFT + 10, WIDTH - RIGHT - 10), _placer(ys, HEIGHT - BOTTOM, TOP)
    parts = [*_rulers(ys, place_y), f"<text x='{LEFT}' y='{HEIGHT - 6}'>{escape(below)}</text>"]
    parts += [
        f"<text x='{place_x(x):.0f}' y='{HEIGHT - 24}' text-anchor='middle'>{x:,g}</text>"
        for x in sorted({x for x, _ in (*points, *crosses)})
    ]
    for name, line in series.items():
        parts += _line(_colour(name), [(place_x(x), place_y(y)) for x, y in line])
    for name, line in (killed or {}).items():
        parts += [_cross(place_x(x), place_y(limit), _colour(name)) for x, _ in line]
    return _page(
        title, HEIGHT, [*parts, *_legend({name: _colour(name) for name in {**series, **(killed or {})}})]
    )


def spread(title: str, groups: Mapping[str, Mapping[str, Sequence[float]]]) -> str:
    """Return a plot with a band for each group, a lane in it for each name, and a dot for each value; a line
    connects the least and the most."""
    values = [value for group in groups.values() for row in group.values() for value in row]
    names = list(dict.fromkeys(name for group in groups.values() for name in group))
    bands = {group: [name for name in names if named.get(name)] for group, named in groups.items()}
    height = TOP + sum(len(lanes) * LANE + GAP for lanes in bands.values()) + BOTTOM
    if not values:
        return _page(title, HEIGHT, ["<text x='64' y='80'>no measurement</text>"])
    scale = _scale(values)
    place = _placer(scale, NAMES, WIDTH - RIGHT)
    parts = [*_columns(scale, place, height)]
    y = float(TOP)
    for number, (group, lanes) in enumerate(bands.items()):
        tall = len(lanes) * LANE + GAP
        if number % 2:
            parts.append(f"<rect class='b' x='8' y='{y:.0f}' width='{WIDTH - RIGHT}' height='{tall}'/>")
        parts.append(f"<text class='n' x='14' y='{y + tall / 2 + 4:.0f}'>{escape(group)}</text>")
        for lane, name in enumerate(lanes):
            parts += _dots(
                [place(v) for v in groups[group][name]], y + GAP / 2 + (lane + 0.5) * LANE, _colour(name)
            )
        y += tall
    return _page(title, height, [*parts, *_legend({name: _colour(name) for name in names})])


def bars(title: str, below: str, rows: Mapping[str, Mapping[str, float]]) -> str:
    """Return a plot with a bar for each row, made of its phases; each phase is given with its end."""
    phases = list(dict.fromkeys(phase for row in rows.values() for phase in row))
    most = max((max(row.values()) for row in rows.values() if row), default=1.0)
    height = TOP + len(rows) * 30 + BOTTOM
    step = 10 ** math.floor(math.log10(most))
    step = step / 2 if most / step < 3 else step
    parts = []
    for number in range(math.floor(most / step) + 1):
        x = NAMES + number * step / most * (WIDTH - RIGHT - NAMES)
        parts.append(f"<path class='g' d='M{x:.1f} {TOP}V{height - BOTTOM}'/>")
        parts.append(f"<text x='{x:.0f}' y='{height - 26}' text-anchor='middle'>{number * step:,g}</text>")
    for number, (name, row) in enumerate(rows.items()):
        y, begin = TOP + number * 30 + 6, 0.0
        parts.append(f"<text class='n' x='14' y='{y + 13}'>{escape(name)}</text>")
        for phase, end in row.items():
            x, x_end = (NAMES + at / most * (WIDTH - RIGHT - NAMES) for at in (begin, max(begin, end)))
            colour = PHASES[phases.index(phase) % len(PHASES)]
            parts.append(
                f"<rect x='{x:.1f}' y='{y}' width='{max(0.6, x_end - x):.1f}' height='18' fill='{colour}'>"
                f"<title>{escape(phase)}: {end - begin:,.1f} ms</title></rect>"
            )
            begin = max(begin, end)
    parts.append(f"<text x='{NAMES}' y='{height - 8}'>{escape(below)}</text>")
    return _page(title, height, [*parts, *_legend(dict(zip(phases, PHASES, strict=False)))])


def _page(title: str, height: float, parts: Sequence[str]) -> str:
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {height:.0f}' role='img'>"
    return "\n".join(
        [head, _STYLE, f"<text class='t' x='8' y='24'>{escape(title)}</text>", *parts, "</svg>", ""]
    )


def _colour(name: str) -> str:
    return COLOURS.get(name, "#000")


def _line(colour: str, places: Sequence[tuple[float, float]]) -> Iterator[str]:
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in places)
    yield f"<polyline points='{path}' fill='none' stroke='{colour}' stroke-width='2.2'/>"
    for x, y in places:
        yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.6' fill='{colour}'/>"


def _cross(x: float, y: float, colour: str) -> str:
    path = f"M{x - 5:.1f} {y - 5:.1f}l10 10m-10 0l10 -10"
    return f"<path d='{path}' stroke='{colour}' stroke-width='2.4'><title>killed</title></path>"


def _dots(places: Sequence[float], y: float, colour: str) -> Iterator[str]:
    yield f"<path d='M{min(places):.1f} {y:.1f}H{max(places):.1f}' stroke='{colour}' stroke-opacity='.5'/>"
    for x in places:
        yield f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3' fill='{colour}' fill-opacity='.75'/>"


def _scale(values: Sequence[float]) -> tuple[float, float]:
    """Return the ends of a scale for these values, of which those below one count as one."""
    least, most = max(1.0, min(values)), max(1.0, *values)
    low = 10 ** math.floor(math.log10(least))
    return low, max(low * 10, most * 1.15)


def _placer(scale: tuple[float, float], first: float, last: float) -> Place:
    low, high = (math.log10(end) for end in scale)
    return lambda value: first + (math.log10(max(value, scale[0])) - low) / (high - low) * (last - first)


def _ticks(scale: tuple[float, float]) -> Iterator[float]:
    tick = scale[0]
    while tick <= scale[1]:
        yield tick
        tick *= 10


def _rulers(scale: tuple[float, float], place: Place) -> Iterator[str]:
    for tick in _ticks(scale):
        y = place(tick)
        yield f"<path class='g' d='M{LEFT} {y:.1f}H{WIDTH - RIGHT}'/>"
        yield f"<text x='{LEFT - 8}' y='{y + 4:.0f}' text-anchor='end'>{tick:,g}</text>"


def _columns(scale: tuple[float, float], place: Place, height: float) -> Iterator[str]:
    for tick in _ticks(scale):
        x = place(tick)
        yield f"<path class='g' d='M{x:.1f} {TOP}V{height - BOTTOM}'/>"
        yield f"<text x='{x:.0f}' y='{height - 24}' text-anchor='middle'>{tick:,g}</text>"


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    for number, (name, colour) in enumerate(colours.items()):
        y = TOP + 10 + 20 * number
        yield f"<circle cx='{WIDTH - RIGHT + 22}' cy='{y - 4}' r='4.5' fill='{colour}'/>"
        yield f"<text class='n' x='{WIDTH - RIGHT + 34}' y='{y}'>{escape(name)}</text>"
