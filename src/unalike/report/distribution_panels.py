"""Charts of parties' distributions over that of all parties (Yan et al. 2023, figures 6 to 8)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.data.dataset import Array
from unalike.measure import Kept, Measurement
from unalike.measure.degree import SHORT
from unalike.report.figures import INK, PALETTE, quiet

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_PARTIES = 8
"""Parties that have a chart of their own; of more, some from the most to the least unlike."""
MOST_DIMENSIONS = 12
"""Features that have a chart; of more, those in which the parties differ most."""
PALE = "#8db8da"
_ALL, _OWN = "#4d4d4d", "#0072B2"
_QUIET = "#666666"
_MOST_NAMES = 12  # labels up to which each is named below a small chart
_MOST_LETTERS = 14


def label_charts(figure: Figure, grid: Any, found: Measurement) -> list[Any]:
    """For each party shown, its shares of labels over those of all parties. Gives the handles of a legend.

    What it has more than all parties is dark: these parts together are its total variation. Where labels are in
    order, their CDFs are below instead, with K-S.
    """
    shown, first = chosen_parties(found), found.headline
    highest = max(float(cdf.pdf.max()) for cdf in (found.everyone, *(one.cdf for one in shown)))
    for place, kept in enumerate(shown):
        cell = grid[divmod(place, grid.ncols)]
        parts = cell.subgridspec(2, 1, hspace=0.1) if first == "cdf" else [cell]
        axes = [figure.add_subplot(part) for part in parts]
        _pdf(axes[0], kept.cdf.pdf[0], found.everyone.pdf[0], highest, dark=first == "tv")
        if first == "cdf":
            _cdf(axes[1], kept.cdf.values[0], found.everyone.values[0])
        _label_ticks(axes, found.policy.labels, place % grid.ncols == 0, place + grid.ncols >= len(shown))
        _titles(axes[0], kept.party, kept.degrees.mean.at(first))
        if place == 0:
            some = len(shown) < len(found.kept)
            which = f"{len(shown)} of {len(found.kept):,} parties" if some else "each party"
            _heading(axes[0], f"Shares of labels{' and their CDF' if first == 'cdf' else ''}: {which}")
    remark = (None, f"number: its {SHORT[first]} degree")
    if first == "tv":
        return _handles((_ALL, "all parties"), (PALE, "the party"), (_OWN, "more than all: adds up to TV"), remark)
    return _handles((_OWN, "the party"), (_ALL, "all parties"), remark)


def feature_charts(figure: Figure, grid: Any, found: Measurement) -> list[Any]:
    """For each feature shown: the CDFs of the parties over that of all of them. Gives the handles of a legend."""
    few = len(found.kept) <= len(PALETTE)
    shown = chosen_dimensions(found)
    lines: list[Any] = []
    for place, dimension in enumerate(shown):
        axes = figure.add_subplot(grid[divmod(place, grid.ncols)])
        lines = _curves(axes, found, dimension, few)
        _feature_ticks(axes, place % grid.ncols == 0)
        _titles(axes, found.names[dimension], _mean_degree(found, dimension))
        if place == 0:
            some = len(shown) < found.policy.dimensions
            which = f"the {len(shown)} of {found.policy.dimensions} that differ most" if some else "all of them"
            _heading(axes, f"CDFs of features: {which}")
    remark = (None, "number: mean K-S degree")
    return lines + _handles(remark) if few else _handles((_OWN, "a party"), (_ALL, "all parties"), remark)


def chosen_parties(found: Measurement) -> list[Kept]:
    """The parties that get a chart: all, or some evenly spaced from the most to the least unlike."""
    if len(found.kept) <= MOST_PARTIES:
        return list(found.kept)
    order = np.argsort([-one.degrees.mean.at(found.headline) for one in found.kept], kind="stable")
    places = np.linspace(0, len(order) - 1, MOST_PARTIES).round().astype(int)
    return [found.kept[place] for place in order[places]]


def chosen_dimensions(found: Measurement) -> list[int]:
    """The features that get a chart: all, or those in which the parties differ most, in their own order."""
    order = sorted(range(found.policy.dimensions), key=lambda dimension: -_mean_degree(found, dimension))
    return sorted(order[:MOST_DIMENSIONS])


def room_for_names(labels: Sequence[str]) -> float:
    """Inches that the names of labels need below the charts, where they stand upright because they are long."""
    longest = max(map(len, labels), default=0)
    return 0.068 * min(longest, _MOST_LETTERS) if longest > 2 else 0.0


def short(name: str) -> str:
    """A name that fits above a small chart."""
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


def _pdf(axes: Axes, own: Array, everyone: Array, highest: float, *, dark: bool) -> None:
    edges, places = np.arange(len(own) + 1) - 0.5, np.arange(len(own))
    look: dict[str, Any] = {"width": 0.8 if len(own) <= 40 else 1.0, "linewidth": 0, "zorder": 2}
    axes.bar(places, own, color=PALE, **look)
    if dark:
        axes.bar(places, np.maximum(own - everyone, 0), bottom=np.minimum(own, everyone), color=_OWN, **look)
    axes.stairs(everyone, edges, color=_ALL, linewidth=1.1, baseline=None, zorder=3)
    axes.set_ylim(0, 1.05 * highest)
    axes.set_xlim(edges[0], edges[-1])


def _cdf(axes: Axes, own: Array, everyone: Array) -> None:
    edges = np.arange(len(own) + 1) - 0.5
    axes.stairs(everyone, edges, color=_ALL, linewidth=1.1, baseline=None, zorder=3)
    axes.stairs(own, edges, color=_OWN, linewidth=1.5, baseline=None, zorder=4)
    between = np.repeat(edges, 2)[1:-1], np.repeat(own, 2), np.repeat(everyone, 2)
    axes.fill_between(*between, color=_OWN, alpha=0.14, linewidth=0)
    axes.set_ylim(0, 1.04)
    axes.set_xlim(edges[0], edges[-1])


def _curves(axes: Axes, found: Measurement, dimension: int, few: bool) -> list[Any]:
    """The lines of the parties, each with a look of its own if they are few, and of all of them."""
    edges = found.policy.edges(dimension)
    lines: list[Any] = []
    for number, kept in enumerate(found.kept):
        style = PALETTE[number % len(PALETTE)]
        look: dict[str, Any] = {"color": style.colour, "linestyle": style.line, "linewidth": 1.3}
        if not few:
            look = {"color": _OWN, "linewidth": 0.7, "alpha": max(0.12, min(0.6, 6 / len(found.kept)))}
        lines += axes.plot(edges, np.append(0.0, kept.cdf.values[dimension]), label=short(kept.party), **look)
    whole = np.append(0.0, found.everyone.values[dimension])
    lines += axes.plot(edges, whole, color=_ALL, linewidth=1.5, label="all parties", zorder=5)
    axes.set_ylim(0, 1.02)
    axes.set_xlim(edges[0], edges[-1] if edges[-1] > edges[0] else edges[0] + 1)
    return lines


def _label_ticks(parts: Sequence[Axes], labels: tuple[str, ...], first: bool, last: bool) -> None:
    """Ticks of a party's charts: shares, and below them a CDF if there is one."""
    for axes in parts:
        quiet(axes)
        axes.tick_params(labelsize=7.5, labelleft=first)
        axes.set_xticks([])
    parts[0].locator_params(axis="y", nbins=3)
    parts[0].yaxis.set_major_formatter(lambda value, _: f"{value:.0%}")
    for axes in parts[1:]:
        axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])
    if last:
        places = list(range(0, len(labels), 1 if len(labels) <= _MOST_NAMES else -(-len(labels) // 5)))
        upright = room_for_names(labels) > 0
        parts[-1].set_xticks(places, [short(labels[place]) for place in places], rotation=90 if upright else 0)


def _feature_ticks(axes: Axes, first: bool) -> None:
    from matplotlib.ticker import MaxNLocator

    quiet(axes)
    axes.tick_params(labelsize=7.5, pad=2, labelleft=first)
    axes.xaxis.set_major_locator(MaxNLocator(4, prune="both"))
    axes.set_yticks([0, 0.5, 1], ["0", "0.5", "1"])


def _mean_degree(found: Measurement, dimension: int) -> float:
    shares = np.array([one.degrees.share for one in found.kept])
    values = [one.degrees.dimensions[dimension].at(found.headline) for one in found.kept]
    return float(shares @ values / shares.sum())


def _handles(*meanings: tuple[str | None, str]) -> list[Any]:
    """A line for each colour; None for a remark."""
    from matplotlib.lines import Line2D

    return [Line2D([], [], color=colour or "none", linewidth=1.5, label=text) for colour, text in meanings]


def _titles(axes: Axes, name: str, degree: float) -> None:
    axes.set_title(short(name), loc="left", fontsize=8.5, pad=3)
    axes.set_title(f"{degree:.2f}", loc="right", fontsize=8.5, pad=3, color=_QUIET)


def _heading(axes: Axes, text: str) -> None:
    """A title above the title of the first of several charts."""
    look: dict[str, Any] = {"fontsize": 10, "fontweight": "bold", "color": INK, "annotation_clip": False}
    axes.annotate(text, (0, 1), (0, 20), xycoords="axes fraction", textcoords="offset points", **look)
