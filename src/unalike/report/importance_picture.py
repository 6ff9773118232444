"""Which columns trees go by, as bars: the share of each in what all splits gain."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unalike.report.figures import PALETTE, drawing, new_figure, quiet

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from unalike.trees.importance import Importance

_WIDTH, _ROW, _HEAD, _FOOT = 7.5, 0.27, 0.75, 0.55  # inches
_QUIET = "#666666"
_MOST = 30
_LONGEST = 34  # letters of a name


def importance_picture(importance: Importance, about: str) -> Figure:
    """A bar for each column, the most important on top, with its number of splits; at most thirty."""
    rows = importance.rows
    shown = rows[:_MOST]
    height = _HEAD + _FOOT + _ROW * max(len(shown), 3)
    with drawing(9.5):
        figure = new_figure(_WIDTH, height)
        figure.text(0.02, 1 - 0.14 / height, "What the trees go by", fontsize=13, fontweight="bold", va="top")
        figure.text(0.02, 1 - 0.42 / height, about, fontsize=9, color=_QUIET, va="top")
        axes = figure.add_axes((0.34, _FOOT / height, 0.58, 1 - (_HEAD + _FOOT) / height))
        places = range(len(shown))
        shares = [100 * row["share"] for row in shown]
        axes.barh(places, shares, height=0.62, color=PALETTE[0].colour, linewidth=0)
        axes.set_yticks(places, [_shortened(row["column"]) for row in shown])
        axes.tick_params(axis="y", length=0)
        axes.set_ylim(max(len(shown), 3) - 0.4, -0.6)
        axes.set_xlim(0, 1.12 * max([*shares, 1e-9]))
        for place, row in zip(places, shown, strict=True):
            splits = f"{row['splits']:,} split{'s' * (row['splits'] != 1)}"
            axes.annotate(
                splits,
                (shares[place], place),
                (4, 0),
                textcoords="offset points",
                fontsize=8,
                color=_QUIET,
                va="center",
            )
        more = f"; {len(rows) - _MOST} more columns have less" if len(rows) > _MOST else ""
        axes.set_xlabel(f"share of the gain of all splits, percent{more}")
        quiet(axes)
        axes.grid(visible=False)
    return figure


def _shortened(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
