"""The picture of a measurement: how far each party is from all others, and the distributions that make it so.

It shows what in a real federation no single place sees: the curves of all parties together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.measure import Kept, Measurement
from unalike.measure.degree import METRIC, SHORT
from unalike.measure.degree import shown as shown_degrees
from unalike.report.distribution_panels import (
    MOST_DIMENSIONS,
    MOST_PARTIES,
    PALE,
    feature_charts,
    label_charts,
    room_for_names,
)
from unalike.report.figures import INK, MOST_NUMBERED, PALETTE, drawing, name_ticks, new_figure, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 11.0  # inches, as the other pictures
_HEAD, _FOOT, _LEGEND = 1.22, 0.5, 0.66
_LEFT, _RIGHT = 0.435, 0.985  # of the charts of distributions
_QUIET = "#666666"
_NAMES = {"tv": "total variation", "cdf": "Kolmogorov-Smirnov"}
_MARKS = {
    "area": ("area", PALETTE[4].colour, "s"),
    "cramer_von_mises": ("Cramér-von Mises", PALETTE[1].colour, "D"),
    "total_variation": ("total variation", PALETTE[2].colour, "o"),
}
"""How the degrees that do not stand first are marked."""


def measure_picture(found: Measurement, data: str, recipe: str) -> Figure:
    """The degrees of all parties on the left; on the right distributions, by party (labels) or feature."""
    labels = found.policy.of == "labels"
    cells = min(len(found.kept), MOST_PARTIES) if labels else min(found.policy.dimensions, MOST_DIMENSIONS)
    columns = 3 if cells in (5, 6) else min(cells, 4)
    lines = -(-cells // columns)
    below = room_for_names(found.policy.labels)
    ordered = labels and found.headline == "cdf"  # shares above, and their CDF below
    height = lines * (2.15 if ordered else 1.5) + below
    height = max(height, 2.4, min(0.24 * len(found.kept), 5.2))
    whole = height + _HEAD + _FOOT + _LEGEND
    top, bottom = 1 - _HEAD / whole, (_FOOT + _LEGEND) / whole
    with drawing(9.5):
        figure = new_figure(_WIDTH, whole)
        _texts(figure, found, data, recipe, whole)
        overview = figure.add_subplot()
        left = _room_for_parties(found)
        overview.set_position((left, bottom, 0.37 - left, top - bottom))
        _key(figure, degree_bars(overview, found), 0.008, 3)
        overview.set_title("Degree (0: like all others)", loc="left", fontsize=10, fontweight="bold", pad=20)
        place = {"left": _LEFT, "right": _RIGHT, "top": top, "bottom": bottom + below / whole}
        grid = figure.add_gridspec(lines, columns, wspace=0.18, hspace=0.22 if ordered else 0.5, **place)
        handles = (label_charts if labels else feature_charts)(figure, grid, found)
        _key(figure, handles, _LEFT - 0.005, 4)
    return figure


def degree_bars(axes: Axes, found: Measurement) -> list[Any]:
    """A bar for the degree of each party that stands first, marks for the others, a tick for a random split's.

    Beyond ``MOST_NUMBERED`` parties they are in order of distance, and not named. Gives the handles of a legend.
    """
    shown: Sequence[Kept] = found.kept
    first = found.headline
    named = len(shown) <= MOST_NUMBERED
    if not named:
        shown = sorted(shown, key=lambda one: -one.degrees.mean.at(first))
    middles = np.arange(len(shown)) + 0.5
    values = np.array([one.degrees.mean.at(first) for one in shown])
    bars = axes.barh(middles, values, height=0.62 if named else 1.0, color=PALE, linewidth=0, zorder=2)
    bars.set_label(_NAMES[first])
    handles: list[Any] = [bars]
    greatest = values.max()
    for metric in shown_degrees(found.policy.of, first).values():
        if metric == METRIC[first]:
            continue
        name, colour, marker = _MARKS[metric]
        places = np.array([getattr(one.degrees.mean, metric) for one in shown])
        greatest = max(greatest, places.max())
        size = 20 if named else 5
        handles.append(
            axes.scatter(places, middles, s=size, color=colour, marker=marker, linewidth=0, label=name, zorder=4)
        )
    chance = np.array([one.degrees.expected.at(first) for one in shown])
    half = 0.36 if named else 0.5
    handles.append(axes.vlines(chance, middles - half, middles + half, color=INK, linewidth=1.4, zorder=3))
    handles[-1].set_label(f"random split, {SHORT[first]}")
    axes.set_xlim(0, next((end for end in (0.25, 0.5) if greatest <= 0.97 * end), 1.0))
    axes.set_ylim(len(shown), 0)
    quiet(axes)
    axes.grid(axis="y", visible=False)
    axes.grid(axis="x", color="#e6e6e6", linewidth=0.8)
    axes.spines["left"].set_visible(False)
    if named:
        name_ticks(axes.set_yticks, [one.party for one in shown])
    else:
        axes.set_yticks([])
        axes.set_ylabel(f"{len(shown):,} parties in order of distance", color=_QUIET)
    return handles


def footnote(found: Measurement) -> str:
    """The federation's figures in a line."""
    mean, first = found.federation.mean, found.headline
    named = [
        f"{name} {getattr(mean, metric):.2f}" for name, metric in shown_degrees(found.policy.of, first).items()
    ]
    named[0] += f" (random split: {found.federation.expected.at(first):.2f})"
    worst = max(one.degrees.mean.at(first) for one in found.kept)
    lines = "bars" if first == "tv" else "curve"
    seen = f"a party sees only its own {lines} and the grey line" if found.protect != "none" else "all is seen"
    return (
        f"Mean over rows: {', '.join(named)}; worst party: {SHORT[first]} {worst:.2f}. "
        f"Protection {found.protect}: {seen}."
    )


def _texts(figure: Figure, found: Measurement, data: str, recipe: str, whole: float) -> None:
    title = f"{data}: how unlike are the {found.policy.of} of {len(found.kept):,} parties?"
    figure.text(0.012, 1 - 0.14 / whole, title, fontsize=13, fontweight="bold", color=INK, va="top")
    figure.text(0.012, 1 - 0.44 / whole, recipe, fontsize=10, color=_QUIET, va="top")
    figure.text(0.012, 0.14 / whole, footnote(found), fontsize=9, color=_QUIET, va="bottom")


def _key(figure: Figure, handles: list[Any], left: float, columns: int) -> None:
    """A legend below the charts, from ``left`` on."""
    place = (_FOOT + _LEGEND - 0.3) / figure.get_figheight()
    figure.legend(
        handles=handles, ncols=columns, loc="upper left", bbox_to_anchor=(left, place), borderaxespad=0,
        frameon=False, fontsize=8.2, handlelength=1.8, handletextpad=0.45, columnspacing=1.1, labelspacing=0.35,
    )  # fmt: skip


def _room_for_parties(found: Measurement) -> float:
    """Room for the parties' names, as a part of the width."""
    if len(found.kept) > MOST_NUMBERED:
        return 0.04
    return min(0.03 + 0.0068 * max(len(one.party) for one in found.kept), 0.17)
