"""Panels that show images as their parties see them, and which columns a party has."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from unalike.data.dataset import Array, Dataset
from unalike.partition import Partition, seen_by
from unalike.partition.distorted import changes_features
from unalike.report.figures import PALETTE, name_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MOST_PARTIES = 8
MOST_IMAGES = 8
STRIP_IMAGES = 14
"""Pictures in a line where images are cut into strips: what a party has, and examples."""
GAP = 0.09  # between images, in their widths
_OWN, _SHARED, _LABEL, _HIDDEN = "#5f9fcf", "#7fc8ab", "#E69F00", "#eceff1"
_WRONG = PALETTE[1].colour


def are_images(dataset: Dataset) -> bool:
    """Whether a row is an image of one or three channels."""
    return not dataset.is_sparse and len(dataset.shape) == 3 and dataset.shape[0] in (1, 3)


def example_images(axes: Axes, dataset: Dataset, partition: Partition) -> bool:
    """A line of images for each of some parties; says whether labels are written because some were changed.

    A party's images are in order of label and evenly spaced in its rows, so that they show its mix of labels.
    """
    shown = spread(partition.parties, MOST_PARTIES)
    lines, captions = [], []
    for party in shown:
        x, y = seen_by(dataset, partition, party)
        order = np.argsort(y, kind="stable")
        chosen = order[spread(len(y), MOST_IMAGES)]
        lines.append(_visible(x[chosen], dataset, prepared=changes_features(partition)))
        true = dataset.y[partition.rows[party][chosen]]
        captions.append([(int(label), label == was) for label, was in zip(y[chosen], true, strict=True)])
    changed = any(not right for line in captions for _, right in line)
    step = _draw_mosaic(axes, lines, [partition.names[party] for party in shown], room=0.3 if changed else 0.0)
    if changed:
        for line, labels in enumerate(captions):
            for place, (label, right) in enumerate(labels):
                axes.text(
                    place * step[1] + 0.5,
                    line * step[0] + 1.02,
                    dataset.classes[label],
                    ha="center",
                    va="top",
                    fontsize=6.5,
                    fontweight="normal" if right else "bold",
                    color="#777777" if right else _WRONG,
                )
    return changed


def columns_of_images(axes: Axes, dataset: Dataset, partition: Partition) -> None:
    """For each party the part of an image that it has, and the same images with the other part hidden."""
    shown = spread(partition.parties, MOST_PARTIES)
    assert partition.columns is not None
    owners = column_owners(partition, int(np.prod(dataset.shape)))
    chosen = np.argsort(dataset.y, kind="stable")[spread(dataset.size, STRIP_IMAGES - 1)]
    images = _visible(dataset.x[chosen], dataset, prepared=False)
    hidden = _colour(_HIDDEN)
    lines = []
    for party in shown:
        has = np.zeros(dataset.shape, bool).reshape(-1)
        has[partition.columns[party]] = True
        has = has.reshape(dataset.shape)[0]
        shared = (owners.reshape(dataset.shape)[0] > 1)[..., None]
        mask = np.where(has[..., None], np.where(shared, _colour(_SHARED), _colour(_OWN)), hidden)
        lines.append(np.concatenate([mask[None], np.where(has[..., None], images, hidden)]))
    _draw_mosaic(axes, lines, [holder_names(partition)[party] for party in shown])


def columns_of_table(axes: Axes, dataset: Dataset, partition: Partition) -> None:
    """A line for each party, a column for each attribute and one for the label."""
    assert partition.columns is not None
    width = int(np.prod(dataset.shape))
    shared = column_owners(partition, width) > 1
    cells = np.tile(_colour(_HIDDEN), (partition.parties, width + 1, 1))
    for party, columns in enumerate(partition.columns):
        cells[party, columns] = _colour(_OWN)
        cells[party, columns[shared[columns]]] = _colour(_SHARED)
    cells[partition.label_holder, -1] = _colour(_LABEL)
    axes.pcolormesh(cells, edgecolors="white", linewidth=1.2 if width < 80 else 0)
    axes.invert_yaxis()
    axes.xaxis.tick_top()
    names = dataset.features if len(dataset.features) == width else tuple(map(str, range(width)))
    name_ticks(axes.set_xticks, (*names, "label"), most=60)
    for text in axes.get_xticklabels():
        text.set(rotation=60, ha="left", rotation_mode="anchor", fontsize=8 if width <= 40 else 6.5)
    name_ticks(axes.set_yticks, partition.names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)


def column_owners(partition: Partition, width: int) -> Array:
    """How many parties have each column."""
    assert partition.columns is not None
    return np.bincount(np.concatenate(partition.columns), minlength=width)


def spread(number: int, most: int) -> list[int]:
    """Up to ``most`` of ``number`` places, evenly spaced, the first and the last among them."""
    return [int(place) for place in np.linspace(0, number - 1, min(number, most)).round()]


def holder_names(partition: Partition) -> tuple[str, ...]:
    """The parties' names; the one with the labels says so."""
    return tuple(
        f"{name} + labels" if party == partition.label_holder else name
        for party, name in enumerate(partition.names)
    )


def _visible(x: Array, dataset: Dataset, *, prepared: bool) -> Array:
    """Images [rows, height, width, 3] in [0, 1], on the data set's own scale from black to white."""
    pixels = x * dataset.scale + dataset.shift if prepared else x.astype(np.float64)
    low, high = float(dataset.x.min()), float(dataset.x.max())
    pixels = ((pixels - low) / max(high - low, 1e-9)).clip(0, 1)
    images: Array = np.moveaxis(pixels, 1, -1)
    return np.repeat(images, 3, axis=-1) if images.shape[-1] == 1 else images


def _colour(text: str) -> Array:
    from matplotlib.colors import to_rgb

    return np.array(to_rgb(text))


def _draw_mosaic(axes: Axes, lines: list[Array], names: list[str], room: float = 0.0) -> tuple[float, float]:
    """Lines of images at a common scale; one image is one unit wide and high. The steps between them."""
    height, width = lines[0].shape[1:3]
    down, right = 1 + GAP + room, 1 + GAP * min(1.0, height / width)
    for line, images in enumerate(lines):
        for place, image in enumerate(images):
            left, top = place * right, line * down
            axes.imshow(image, extent=(left, left + 1, top + 1, top), interpolation="nearest", aspect="auto")
    most = max(len(images) for images in lines)
    axes.set_xlim(0, most * right - GAP)
    axes.set_ylim(len(lines) * down - GAP, 0)
    axes.set_aspect(height / width, anchor="NW")
    axes.set_xticks([])
    axes.set_yticks([line * down + 0.5 for line in range(len(lines))], names)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    return down, right
