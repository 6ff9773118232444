"""A small chart as SVG that needs nothing around it: no script, and colours that show on white and on black."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unalike.report.page.markup import Html, tag
from unalike.report.page.numbers import thin
from unalike.runs.scales import Spread

COLOURS = ("#1f83c4", "#d55e00", "#009e73", "#c56a9c", "#b87d00", "#3a94cf", "#808080", "#8a5fc4")
"""The report's colours, each of which stands out from a light page and from a dark one."""
DASHES = (None, "6 3", "2 2", "8 2 2 2", "10 3", "4 4", "1 3", "12 2 2 2")
"""One for each colour, so that colour is never the only sign."""
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _EDGE = 520.0, 190.0, 46.0, 34.0, 8.0


@dataclass(frozen=True)
class Trace:
    """A line of the chart: by round, the mean over seeds and its deviation."""

    points: Sequence[tuple[int, Spread]]


def chart(traces: Sequence[Trace], named: str) -> Html:
    """The lines over the rounds, with a band of one standard deviation where there are several seeds."""
    points = [point for trace in traces for point in trace.points]
    last = max(number for number, _ in points)
    first = min(1, *(number for number, _ in points))
    ticks = steps(min(one.mean - one.std for _, one in points), max(one.mean + one.std for _, one in points))
    low, high = ticks[0], ticks[-1]

    def across(number: float) -> float:
        return _LEFT + (_WIDTH - _EDGE - _LEFT) * (number - first) / max(1, last - first)

    def up(value: float) -> float:
        return _EDGE + (_HEIGHT - _BOTTOM - _EDGE) * (high - value) / (high - low)

    drawn = [_tick(up(value), f"{value:g}") for value in ticks]
    for number in _rounds(first, last):
        drawn.append(_words(number, across(number), _HEIGHT - _BOTTOM + 15, "middle"))
    drawn.append(_words("round", _WIDTH - _EDGE, _HEIGHT - 4, "end"))
    for place, trace in enumerate(traces):
        kept = [trace.points[index] for index in thin(len(trace.points))]
        if not kept:  # nothing of it can be drawn, and its colour stays its own
            continue
        colour = COLOURS[place % len(COLOURS)]
        if any(one.std for _, one in kept):
            upper = [(across(number), up(one.mean + one.std)) for number, one in kept]
            lower = [(across(number), up(one.mean - one.std)) for number, one in reversed(kept)]
            drawn.append(tag("polygon", points=_path([*upper, *lower]), fill=colour, fill_opacity=0.18))
        line = [(across(number), up(one.mean)) for number, one in kept]
        drawn.append(_line(place, _path(line)))
        drawn.append(tag("circle", cx=f"{line[-1][0]:.1f}", cy=f"{line[-1][1]:.1f}", r=3, fill=colour))
    return tag(
        "svg",
        *drawn,
        viewBox=f"0 0 {_WIDTH:g} {_HEIGHT:g}",
        width=f"{_WIDTH:g}",
        style="max-width:100%;height:auto;display:block",
        role="img",
        aria_label=named,
        font_size=11,
        font_family="system-ui, sans-serif",
    )


def sample(place: int) -> Html:
    """A short piece of the line at that place, to stand before its name in a table."""
    drawn = _line(place, "0,5 26,5")
    return tag(
        "svg", drawn, viewBox="0 0 26 10", width=26, height=10, aria_hidden="true", style="margin-right:.5em"
    )


def steps(low: float, high: float, most: int = 5) -> list[float]:
    """Round numbers, evenly spread, from at most ``low`` to at least ``high``."""
    if high <= low:  # a flat line lies in the middle
        reach = abs(low) * 0.1 or 1.0
        low, high = low - reach, high + reach
    rough = (high - low) / (most - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= rough * (1 - 1e-9))
    begin, end = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{number * step:.12g}") for number in range(begin, end + 1)]


def _rounds(first: int, last: int) -> list[int]:
    """Whole rounds below the axis; the last is always among them."""
    step = max(1, round(steps(0, max(1, last - first), 6)[1]))
    inner = [number for number in range(step, last, step) if number > first and last - number > step / 2]
    return list(dict.fromkeys([first, *inner, last]))


def _tick(height: float, said: str) -> Html:
    line = tag(
        *("line",),
        x1=_LEFT,
        x2=_WIDTH - _EDGE,
        y1=f"{height:.1f}",
        y2=f"{height:.1f}",
        stroke="currentColor",
        stroke_opacity=0.18,
    )
    return Html(line + _words(said, _LEFT - 7, height + 4, "end"))


def _words(said: object, x: float, y: float, anchor: str) -> Html:
    place = {"x": f"{x:.1f}", "y": f"{y:.1f}", "text_anchor": anchor}
    return tag("text", said, **place, fill="currentColor", fill_opacity=0.75)


def _line(place: int, points: str) -> Html:
    return tag(
        "polyline",
        points=points,
        fill="none",
        stroke=COLOURS[place % len(COLOURS)],
        stroke_width=2,
        stroke_dasharray=DASHES[place % len(DASHES)],
        stroke_linejoin="round",
    )


def _path(points: Sequence[tuple[float, float]]) -> str:
    return " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
