"""Panels that show how the features of a table differ between parties."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.data.gaps import indicated
from unalike.partition import Partition, seen_by
from unalike.partition.distorted import changes_features
from unalike.partition.vertical import attributes
from unalike.report.figures import FAINT, INK, PALETTE, blues

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MOST_FEATURES = 4
_MOST_LINES = 12  # parties up to which each has a curve of its own
_MOST_VALUES = 12  # values up to which a feature has a bar for each
_BINS = 28
_SMOOTH = np.array([1, 2, 3, 2, 1]) / 9  # so that a party of few rows has a shape, not spikes
_MOST_LETTERS = 13  # of a feature's name above its panel
_MOST_NUMBERS = 20_000_000
_POINTS = 260  # of a party in the cube


def takes_features(dataset: Dataset) -> bool:
    """Whether the rows are a table of numbers, dense enough to look at."""
    return dataset.kind == "numbers" and not dataset.is_sparse and len(dataset.shape) == 1


def feature_panels(figure: Figure, cell: Any, dataset: Dataset, partition: Partition) -> tuple[Axes, str]:
    """The few features whose distributions differ most, a line for each party in the order of the heat map.

    Three features are drawn as the cube that they span (NIID-Bench, figure 5). Gives the first of the axes
    and a title to stand above it.
    """
    dataset = indicated(dataset, fill=False)
    seen = _look(dataset, partition)
    if dataset.shape == (3,) and partition.parties <= len(PALETTE):
        return _cube(figure, cell, seen, dataset, partition), "Where the rows lie"
    names = dataset.features or tuple(f"feature {k}" for k in range(dataset.shape[0]))
    found = [_shares([x[:, feature] for x in seen]) for feature in range(dataset.shape[0])]
    order = _most_different(found, attributes(dataset))
    grid = cell.subgridspec(1, len(order), wspace=0.12)
    panels: list[Axes] = [figure.add_subplot(grid[0, place]) for place in range(len(order))]
    for axes, feature in zip(panels, order, strict=True):
        (_curves if partition.parties <= _MOST_LINES else _strips)(axes, found[feature])
        axes.set_ylim(partition.parties, 0)
        axes.set_yticks([])
        axes.tick_params(length=0, labelsize=8)
        axes.spines[:].set_visible(False)
        axes.text(0, 1.015, _short(names[feature]), transform=axes.transAxes, fontsize=9, color=INK, va="bottom")
    key = "line: all parties" if partition.parties <= _MOST_LINES else "darker: more rows"
    return panels[0], f"Features that differ most ({key})"


def _short(name: str) -> str:
    return name if len(name) <= _MOST_LETTERS else f"{name[: _MOST_LETTERS - 1]}…"


def _look(dataset: Dataset, partition: Partition) -> list[Array]:
    """Some random rows of each party as it sees them, in the units of the table that they are from."""
    most = max(50, _MOST_NUMBERS // (partition.parties * dataset.shape[0]))
    seen = []
    for party in range(partition.parties):
        x = _some(seen_by(dataset, partition, party)[0], most).astype(np.float64)
        seen.append(dataset.units.read(x * dataset.scale + dataset.shift if changes_features(partition) else x))
    return seen


def _some(x: Array, most: int) -> Array:
    """At most so many rows. Random, because rows in the order of a file may go to and fro."""
    return x if len(x) <= most else x[np.random.default_rng(0).choice(len(x), most, replace=False)]


@dataclass(frozen=True, eq=False)
class _Shares:
    """The share of each party's rows in each bin; ``values`` where each bin is one value of the feature."""

    shares: Array
    edges: Array
    values: Array | None = None

    @property
    def difference(self) -> float:
        """The mean total variation between a party and all parties."""
        return float(np.abs(self.shares - self.shares.mean(axis=0)).sum(axis=1).mean() / 2)


def _shares(columns: list[Array]) -> _Shares:
    """The shares of the values that are known; of a party that knows none, all are 0."""
    columns = [column[~np.isnan(column)] for column in columns]
    everyone = np.concatenate(columns)
    values = np.unique(everyone) if len(everyone) else np.zeros(1)
    if len(values) <= _MOST_VALUES:
        found = [np.bincount(np.searchsorted(values, column), minlength=len(values)) for column in columns]
        edges = np.arange(len(values) + 1) - 0.5
    else:  # a few far values would leave one bin for all others
        low, high = np.quantile(everyone, [0.005, 0.995])
        edges = np.linspace(low, high if high > low else low + 1, _BINS + 1)
        counted = [np.histogram(column.clip(edges[0], edges[-1]), edges)[0] for column in columns]
        found = [np.convolve(counts, _SMOOTH, mode="same") for counts in counted]
    shares = np.stack([counts / (counts.sum() or 1) for counts in found])
    return _Shares(shares, edges, values if len(values) <= _MOST_VALUES else None)


def _most_different(found: list[_Shares], attribute: Array) -> list[int]:
    """The features that differ most, one of each attribute: chol, but not chol_missing too."""
    chosen: dict[int, int] = {}
    for feature in sorted(range(len(found)), key=lambda place: -found[place].difference):
        chosen.setdefault(int(attribute[feature]), feature)
    return list(chosen.values())[:_MOST_FEATURES]


def _curves(axes: Axes, found: _Shares) -> None:
    """A filled outline for each party, and over it in grey that of all parties."""
    heights = 0.84 * found.shares / (found.shares.max() or 1)
    everyone = heights.mean(axis=0)
    for party, curve in enumerate(heights):
        base = party + 0.96
        axes.stairs(base - curve, found.edges, baseline=base, fill=True, color="#5f9fcf", linewidth=0)
        axes.stairs(base - everyone, found.edges, baseline=None, fill=False, color="#555555", linewidth=0.9)
        axes.axhline(base, color="#d0d0d0", linewidth=0.7, zorder=0)
    axes.set_xlim(found.edges[0], found.edges[-1])
    _few_ticks(axes, found)


def _strips(axes: Axes, found: _Shares) -> None:
    """Too many parties for curves: darker is more of the party's rows."""
    top = max(float(np.quantile(found.shares, 0.995)), 1e-9)
    lines = np.arange(len(found.shares) + 1)
    axes.pcolormesh(found.edges, lines, found.shares, cmap=blues(), vmin=0, vmax=top, rasterized=True)
    _few_ticks(axes, found)


def _few_ticks(axes: Axes, found: _Shares) -> None:
    from matplotlib.ticker import MaxNLocator

    if found.values is None:
        axes.xaxis.set_major_locator(MaxNLocator(2, min_n_ticks=2))
    else:
        ends = sorted({0, len(found.values) - 1})
        axes.set_xticks(ends, [f"{found.values[place]:.3g}" for place in ends])


def _cube(figure: Figure, cell: Any, seen: list[Array], dataset: Dataset, partition: Partition) -> Axes:
    from matplotlib.ticker import MaxNLocator

    axes: Any = figure.add_subplot(cell, projection="3d")
    for party, x in enumerate(seen):
        points = _some(x, _POINTS)
        style = PALETTE[party]
        axes.scatter(
            *points.T, s=7, color=style.colour, marker=style.marker, linewidth=0, alpha=0.75, depthshade=False,
            label=partition.names[party],
        )  # fmt: skip
    names = dataset.features or ("x1", "x2", "x3")
    axes.set(xlabel=names[0], ylabel=names[1], zlabel=names[2])
    for axis in (axes.xaxis, axes.yaxis, axes.zaxis):
        axis.set_pane_color((0.97, 0.97, 0.975))
        axis._axinfo["grid"].update(color="#e3e3e3", linewidth=0.6)
        axis.line.set_color(FAINT)
        axis.set_major_locator(MaxNLocator(4))
    axes.tick_params(labelsize=7.5, pad=-2)
    axes.view_init(elev=18, azim=-62)
    axes.set_box_aspect((1, 1, 1), zoom=1.08)
    axes.legend(frameon=False, fontsize=9, loc="center left", bbox_to_anchor=(-0.3, 0.5), markerscale=2)
    made: Axes = axes
    return made
