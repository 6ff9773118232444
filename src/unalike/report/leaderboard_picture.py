"""The critical-difference diagram (Demsar 2006): mean ranks on a line, a bar for those not told apart."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from unalike.ranking.leaderboard import Table
from unalike.ranking.ranking import Ranking
from unalike.report.figures import FAINT, INK, PALETTE, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.0  # inches
_SIDE = 2.5  # for names, left and right of the line
_HEAD, _FOOT = 0.84, 0.42
_TITLE, _SCALE, _BAR, _NAME, _GAP = 0.66, 0.3, 0.13, 0.235, 0.24  # heights in a panel, from the top
_NOTE = "Mean rank over settings, 1 is best. Joined by a bar: not told apart (CD: Nemenyi's critical difference)."
_QUIET = "#666666"
_BLUE = PALETTE[0].colour
_LONGEST = 23  # letters of a name

Place = Callable[[float], float]
"""From a rank to inches."""


def leaderboard_picture(tables: Sequence[Table], source: str) -> Figure:
    """A diagram for each table in which something can be tested; the first goes on top."""
    shown = [table for personal in (False, True) for table in _tested(tables, personal=personal)]
    heights = [_height(table.ranking) for table in shown]
    whole = sum(heights) + _HEAD + _FOOT if shown else 1.6
    with drawing(9.5):
        figure = new_figure(_WIDTH, whole)
        title = "Which algorithms can be told apart?"
        figure.text(0.018, 1 - 0.14 / whole, title, fontsize=13, fontweight="bold", va="top")
        figure.text(0.018, 1 - 0.42 / whole, source, fontsize=9.5, color=_QUIET, va="top")
        figure.text(0.018, 0.13 / whole, _NOTE, fontsize=8.8, color=_QUIET, va="bottom")
        top = whole - _HEAD
        for table, height in zip(shown, heights, strict=True):
            axes = figure.add_axes((0, (top - height) / whole, 1, height / whole))
            _panel(axes, table, height)
            top -= height
        if not shown:
            doubt = tables[0].ranking.doubt if tables else "There are no results."
            figure.text(0.018, 0.5, doubt, fontsize=10, va="center")
    return figure


def _tested(tables: Sequence[Table], *, personal: bool) -> list[Table]:
    """Those of global models, or of the parties' own, that say something."""
    found = [each for each in tables if each.personal == personal and each.ranking.critical_difference is not None]
    if len(found) == 2 and found[0].settings == found[1].settings:  # one category: both are the same
        return found[:1]
    return found


def _height(ranking: Ranking) -> float:
    rows = -(-len(ranking.mean_ranks) // 2)
    return _TITLE + _SCALE + _BAR * (len(ranking.cliques) + 1) + _NAME * rows + _GAP


def _panel(axes: Axes, table: Table, height: float) -> None:
    """One diagram, in inches: the line on top, below it the bars, then the names by rank at either side."""
    ranking = table.ranking
    axes.set_xlim(0, _WIDTH)
    axes.set_ylim(height, 0)
    axes.axis("off")
    names = list(ranking.mean_ranks)
    line = _TITLE + _SCALE

    def place(rank: float) -> float:
        return _SIDE + (rank - 1) / (len(names) - 1) * (_WIDTH - 2 * _SIDE)

    _heading(axes, table)
    _scale(axes, place, len(names), line)
    _difference(axes, place, ranking)
    level = line + _BAR
    for bar in ranking.cliques:
        left, right = (place(ranking.mean_ranks[name]) for name in (bar[0], bar[-1]))
        axes.plot(
            [left - 0.06, right + 0.06],
            [level, level],
            color=_BLUE,
            linewidth=4,
            solid_capstyle="round",
            gid="bar",
        )
        level += _BAR
    left_half = -(-len(names) // 2)
    best = next(iter(ranking.mean_ranks.values()))
    for index, name in enumerate(names):
        on_left = index < left_half
        row = index if on_left else len(names) - 1 - index
        y = level + _NAME * (row + 0.6)
        x, end = place(ranking.mean_ranks[name]), _SIDE - 0.25 if on_left else _WIDTH - _SIDE + 0.25
        axes.plot([x, x, end], [line, y, y], color=FAINT, linewidth=0.9, solid_joinstyle="miter", zorder=1)
        axes.plot([x], [line], marker="o", markersize=4.5, color=INK, zorder=4)
        leads = ranking.mean_ranks[name] == best
        rank = f"{ranking.mean_ranks[name]:.2f}"
        label = _short(name)
        text = f"{label}  {rank}" if on_left else f"{rank}  {label}"
        axes.text(
            end + (-0.07 if on_left else 0.07), y, text, ha="right" if on_left else "left", va="center",
            fontweight="bold" if leads else "normal",
        )  # fmt: skip


def _heading(axes: Axes, table: Table) -> None:
    ranking = table.ranking
    axes.text(0.16, 0.12, table.category, fontsize=11, fontweight="bold", va="center")
    p = ranking.f_p or 0.0
    verdict = "they differ" if ranking.differ else "no difference shown"
    value = f"p = {p:.3f}" if p >= 0.001 else "p < 0.001"
    few = "; few settings, a rough test" if ranking.doubt else ""
    text = f"{ranking.settings} settings; Friedman (Iman-Davenport) {value}: {verdict}{few}"
    axes.text(_WIDTH - 0.16, 0.12, text, fontsize=8.8, color=_QUIET, ha="right", va="center")


def _scale(axes: Axes, place: Place, count: int, line: float) -> None:
    axes.plot([place(1), place(count)], [line, line], color=INK, linewidth=1.1, zorder=3)
    for rank in range(1, count + 1):
        axes.plot([place(rank)] * 2, [line - 0.07, line], color=INK, linewidth=1.1, zorder=3)
        axes.text(place(rank), line - 0.1, str(rank), ha="center", va="bottom", fontsize=8.8)
    axes.text(place(1) - 0.16, line - 0.1, "better", ha="right", va="bottom", fontsize=8.8, color=_QUIET)


def _difference(axes: Axes, place: Place, ranking: Ranking) -> None:
    """The length of the critical difference, above the line."""
    length = ranking.critical_difference or 0.0
    start, end, y = place(1), place(1 + length), 0.47
    last = place(len(ranking.mean_ranks))
    if end > last:  # wider than all ranks: nothing can be told apart
        end = last
    axes.plot([start, start, end, end], [y + 0.05, y, y, y + 0.05], color=INK, linewidth=1.1, gid="difference")
    more = "" if place(1 + length) <= last else ", more than all ranks"
    axes.text(end + 0.08, y + 0.01, f"CD {length:.2f}{more}", va="center", fontsize=8.8, color=_QUIET)


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}…"
