"""The picture of a search: how far each trial came, and its score on validation rows where it was compared."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from unalike.report.figures import INK, PALETTE, drawing, new_figure, quiet
from unalike.runs.scales import Scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT, _ACROSS = 4.4, 3.4, 3
_DROPPED = "#b9bec4"


class TrialCurves(Protocol):
    """What the picture needs to know of an algorithm's search."""

    @property
    def algorithm(self) -> str: ...  # noqa: D102
    @property
    def scale(self) -> Scale: ...  # noqa: D102
    @property
    def winner(self) -> int: ...  # noqa: D102
    def curves(self) -> dict[int, list[tuple[int, float]]]:
        """By trial, the rounds at which it was compared and its scores there; number 0 is untuned."""


def tuning_picture(tuned: Sequence[TrialCurves]) -> Figure:
    """A panel for each algorithm, all with the same axes."""
    across = min(_ACROSS, len(tuned))
    down = -(-len(tuned) // across)
    with drawing(9.5):
        figure = new_figure(_WIDTH * across, _HEIGHT * down)
        grid = figure.subplots(down, across, sharex=True, sharey=True, squeeze=False)
        for axes in grid.flat[len(tuned) :]:
            axes.set_axis_off()
        for place, (axes, one) in enumerate(zip(grid.flat, tuned, strict=False)):
            _panel(axes, one)
            if place % across == 0:
                axes.set_ylabel(f"validation {one.scale.column}")
            if place + across >= len(tuned):
                axes.set_xlabel("round")
        figure.tight_layout()
    return figure


def _panel(axes: Axes, one: TrialCurves) -> None:
    curves = one.curves()
    best = PALETTE[0].colour
    for trial, points in curves.items():
        if trial not in (0, one.winner):
            axes.plot(*_sides(points), color=_DROPPED, marker="o", markersize=3.5, linewidth=1, label="_dropped")
    rest = len(curves.keys() - {0, one.winner})
    if rest:
        axes.plot([], [], color=_DROPPED, marker="o", markersize=3.5, linewidth=1, label=f"{rest} other trials")
    if curves.get(0):
        axes.plot(*_sides(curves[0]), color=INK, linestyle="--", linewidth=1.4, label="untuned")
    if one.winner and curves.get(one.winner):
        axes.plot(
            *_sides(curves[one.winner]), color=best, marker="o", linewidth=2.2, label=f"trial {one.winner}, chosen"
        )
    axes.set_title(one.algorithm, loc="left", fontweight="bold")
    axes.legend(loc="best", frameon=False, fontsize=8.5)
    quiet(axes)


def _sides(points: Sequence[tuple[int, float]]) -> tuple[list[int], list[float]]:
    return [round for round, _ in points], [score for _, score in points]
