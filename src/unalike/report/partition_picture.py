"""The picture of a partition: who has which labels, how many rows, and what the rows look like to whom."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.measure import ColumnSkew, LabelSkew
from unalike.measure.columns import alpha_words
from unalike.partition import Partition
from unalike.report.feature_panels import feature_panels, takes_features
from unalike.report.figures import INK, MOST_NUMBERED, drawing, label_heat_map, new_figure, share_bars, size_bars
from unalike.report.image_panels import (
    GAP,
    MOST_IMAGES,
    MOST_PARTIES,
    STRIP_IMAGES,
    are_images,
    columns_of_images,
    columns_of_table,
    example_images,
    holder_names,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 11.0  # inches, as the picture of the demonstration
_FOOT = 0.62
_LINE = 0.36  # of a party in the heat map
_RIGHT = 0.975
_QUIET = "#666666"
_TOLD = 0.13  # of the width, for what each party's columns tell


@dataclass(frozen=True, eq=False)
class Portrait:
    """A partition with what was counted and measured of it; ``counts`` are the labels as the parties see them."""

    dataset: Dataset
    partition: Partition
    seed: int
    counts: Array
    skew: LabelSkew
    columns: ColumnSkew | None = None


def partition_picture(portrait: Portrait) -> Figure:
    """Labels and sizes party by party; beside them images, features, seasons or columns, whichever tell most."""
    with drawing(9.5):
        vertical = portrait.partition.columns is not None
        return _vertical_picture(portrait) if vertical else _horizontal_picture(portrait)


def _horizontal_picture(portrait: Portrait) -> Figure:
    dataset, partition = portrait.dataset, portrait.partition
    least = 3.0 if dataset.shape == (3,) else min(2.4, 0.8 * partition.parties)  # a cube needs its height
    height = float(np.clip(_LINE * partition.parties, least, 5.2))
    above = _above(dataset.label_names)
    figure, top, bottom = _new(portrait, height, above)
    left = _left(tuple(partition.names))
    beside = _beside_width(portrait, height)
    room = _WIDTH * (_RIGHT - left) - beside - 0.95 - (0.55 + 11 * left * 0.85 if beside else 0.5)
    grid = figure.add_gridspec(
        1,
        5,
        width_ratios=(room, 0.12, 0.83, 0.55 + 11 * left * 0.85 if beside else 0.5, max(beside, 0.01)),
        left=left,
        right=_RIGHT,
        top=top,
        bottom=bottom,
        wspace=0,
    )
    labels, sizes = figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 2])
    _heat_map(labels, portrait.counts, partition.names, dataset.label_names, room)
    size_bars(sizes, portrait.counts.sum(axis=1))
    numbered = max(portrait.counts.shape) <= MOST_NUMBERED
    _title(labels, "Who has which labels" if numbered else "Labels (darker: more rows)", above)
    _title(sizes, "Rows", above)
    if beside:
        _beside(figure, grid[0, 4], portrait, beside, above)
    return figure


def _beside_width(portrait: Portrait, height: float) -> float:
    """Inches for the panel beside the labels; 0 where there is nothing to show."""
    dataset, partition = portrait.dataset, portrait.partition
    if partition.seasons is None and are_images(dataset):
        tall, wide = dataset.shape[1:]
        lines = min(partition.parties, MOST_PARTIES)
        return float(np.clip(height * wide / tall * MOST_IMAGES / lines, 2.2, 4.4))
    return 4.1 if partition.seasons is not None or takes_features(dataset) else 0.0


def _heat_map(axes: Axes, counts: Array, names: Sequence[str], classes: tuple[str, ...], width: float) -> None:
    """The heat map with numbers as large as ``width`` inches allow; even labels are pale, not half dark."""
    label_heat_map(axes, counts, names, classes, scale_bar=False, darkest=min(1.0, 4 / len(classes)))
    cell = 72 * width / len(classes)
    longest = max(2, len(f"{counts.max():,}"))
    for text in axes.texts:
        text.set_fontsize(float(np.clip(cell * 0.88 / (0.62 * longest), 4.0, 9.0)))
    if slanted(classes):
        for name in axes.get_xticklabels():
            name.set(rotation=38, ha="left", rotation_mode="anchor", fontsize=8)


def _beside(figure: Figure, cell: Any, portrait: Portrait, width: float, above: float) -> None:
    dataset, partition = portrait.dataset, portrait.partition
    if partition.seasons is not None:
        axes = figure.add_subplot(cell)
        counts = _season_counts(dataset, partition)
        _heat_map(axes, counts, [f"season {k}" for k in range(len(counts))], dataset.label_names, width)
        _title(axes, f"Labels of all parties; a season is {partition.rounds_per_season} round(s)", above)
    elif are_images(dataset):
        axes = figure.add_subplot(cell)
        changed = example_images(axes, dataset, partition)
        whose = "the parties" if partition.parties <= MOST_PARTIES else f"{MOST_PARTIES} of the parties"
        _title(axes, f"Images as {whose} see them{' (red: label changed)' if changed else ''}", above)
    else:
        axes, title = feature_panels(figure, cell, dataset, partition)
        _title(axes, title, above)


def _vertical_picture(portrait: Portrait) -> Figure:
    dataset, partition = portrait.dataset, portrait.partition
    left = _left(holder_names(partition))
    beside = 0.0 if portrait.columns is None or partition.parties > MOST_PARTIES else _TOLD
    if are_images(dataset):
        tall, wide = dataset.shape[1:]
        tile = _WIDTH * (_RIGHT - beside - left) / (STRIP_IMAGES * (1 + GAP)) * tall / wide
        height, above = tile * (1 + GAP) * min(partition.parties, MOST_PARTIES), 0.1
    else:
        height, above = float(np.clip(0.42 * partition.parties, 1.2, 7.0)), 0.95
    figure, top, bottom = _new(portrait, height, above)
    axes = figure.add_subplot()
    axes.set_position((left, bottom, _RIGHT - beside - left, top - bottom))
    if portrait.columns is not None and beside:
        shares = figure.add_subplot()
        shares.set_position((_RIGHT - beside + 0.02, bottom, beside - 0.055, top - bottom))
        share_bars(shares, portrait.columns.importance)
        _title(shares, "Tells of label", above)
    if are_images(dataset):
        columns_of_images(axes, dataset, partition)
        _title(axes, "Which part of each image a party has (blue: its own, green: shared by all)", above)
    else:
        columns_of_table(axes, dataset, partition)
        _title(axes, "Who has which attributes (blue: its own, green: shared by all, orange: the label)", above)
    return figure


def _new(portrait: Portrait, height: float, above: float) -> tuple[Figure, float, float]:
    """A figure with headline, recipe and footnote; panels go from the first fraction of its height to the second.

    ``above`` are the inches that panels need between themselves and their title.
    """
    dataset, partition = portrait.dataset, portrait.partition
    head = 0.98 + above
    whole = height + head + _FOOT
    figure = new_figure(_WIDTH, whole)
    parties = "1 party" if partition.parties == 1 else f"{partition.parties:,} parties"
    title = f"{dataset.name}: {dataset.size:,} rows, {parties}"
    figure.text(0.012, 1 - 0.14 / whole, title, fontsize=13, fontweight="bold", color=INK, va="top")
    recipe = f"{partition.recipe}, seed {portrait.seed}"
    figure.text(0.012, 1 - 0.44 / whole, recipe, fontsize=10, color=_QUIET, va="top")
    figure.text(0.012, 0.14 / whole, footnote(portrait), fontsize=9, color=_QUIET, va="bottom")
    return figure, 1 - head / whole, _FOOT / whole


def footnote(portrait: Portrait) -> str:
    """The figures of skew in a line."""
    skew, partition = portrait.skew, portrait.partition
    if partition.columns is not None:
        return _footnote_of_columns(portrait)
    if partition.parties == 1:
        return "A single party: nothing to compare."
    sampled = f" ({skew.pairs:,} random pairs)" if skew.estimated else ""
    return (
        f"Mean distance of two parties' labels{sampled}, from 0 to 1: Jensen-Shannon {skew.jensen_shannon:.2f}, "
        f"Hellinger {skew.hellinger:.2f}, earth mover's {skew.earth_mover:.2f}. "
        f"Quantity imbalance {skew.quantity_imbalance:.2f}."
    )


def _footnote_of_columns(portrait: Portrait) -> str:
    """Whom the parties know, and how their columns differ in what they tell."""
    partition, skew = portrait.partition, portrait.columns
    holder = partition.names[partition.label_holder]
    if skew is None or skew.common == portrait.dataset.size:
        told = f"All parties have all rows; {holder} has the labels."
    else:
        told = f"All parties know {skew.common:,} people together; {holder} has the labels."
    if skew is None:
        return told
    alike = (
        f" {100 * skew.disagree:.0f}% of shared values differ from the label holder's." if skew.disagree else ""
    )
    between = "" if skew.icor is None else f" Icor {skew.icor:.3f}."
    return f"{told}{alike} Importance: alpha {alpha_words(skew.alpha)}.{between}"


def _left(names: tuple[str, ...]) -> float:
    """Room for the parties' names, as a part of the width."""
    return min(0.03 + 0.0068 * max(len(name) for name in names), 0.2)


def _above(names: tuple[str, ...]) -> float:
    """Inches between a heat map and its title: as high as the labels' names reach."""
    return max(0.58, 0.08 + 0.045 * max(map(len, names))) if slanted(names) else 0.22


def slanted(names: tuple[str, ...]) -> bool:
    """Whether the names are too long to stand side by side."""
    return max(len(name) for name in names) * len(names) > 36 and len(names) <= MOST_NUMBERED


def _title(axes: Axes, text: str, above: float) -> None:
    # A fixed height above all panels, whether or not their labels are on top.
    axes.set_title(text, loc="left", fontsize=10, fontweight="bold", y=1.0, pad=72 * above + 6)


def _season_counts(dataset: Dataset, partition: Partition) -> Array:
    """The season-by-label table of all parties together."""
    assert partition.seasons is not None
    season, rows = np.concatenate(partition.seasons), np.concatenate(partition.rows)
    counts = np.zeros((int(season.max()) + 1, len(dataset.label_names)), np.int64)
    np.add.at(counts, (season, dataset.labels[rows]), 1)
    return counts
