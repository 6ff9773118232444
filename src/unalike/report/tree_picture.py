"""NIID-Bench's decision tree, from the evidence at hand: a branch for each kind of skew, the paper's beside it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from unalike.measure.situation import Kind
from unalike.ranking.advice import ENOUGH, confidence_of
from unalike.ranking.standing import REFERENCE, Standing
from unalike.ranking.tree import Leaf
from unalike.report.figures import FAINT, INK, drawing, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH, _HEIGHT = 11.0, 5.95  # inches
_HEAD, _ROW = 1.1, 0.84
_ROOT, _WHAT, _HOW, _OURS, _PAPER = (0.2, 1.3), (1.9, 1.2), (3.5, 1.45), (5.3, 3.2), (8.75, 2.05)
"""Columns: left edge and width."""
_BOX = 0.66  # height
_QUIET = "#666666"
_GREY, _GREEN, _PALE, _WHITE = "#ededed", "#cfe9dc", "#f1f8f4", "#ffffff"
_NAMES = {
    "fedavg": "FedAvg",
    "fedprox": "FedProx",
    "scaffold": "SCAFFOLD",
    "fednova": "FedNova",
    "qfedavg": "q-FedAvg",
    "rfedavg": "rFedAvg",
    "rfedavg+": "rFedAvg+",
    "moon": "MOON",
}
_LONGEST = 21  # letters of a name
_NOTE = (
    "Better, worse: than FedAvg, by more than 0.1 points, in settings that differ in the algorithm alone. p: "
    "Wilcoxon's signed-rank test, one-sided; above 0.05 FedAvg,\nthe simplest, is as good. Labels come before "
    "features, features before amounts: a federation goes to the first branch that fits."
)
_ROWS: tuple[tuple[Kind, str, str], ...] = (
    ("one label each", "labels", "most parties\nhave one label"),
    ("label skew", "labels", "parties have\nseveral labels"),
    ("feature skew", "features", ""),
    ("quantity skew", "amounts", ""),
    ("alike", "nothing", ""),
)


def tree_picture(leaves: Sequence[Leaf], source: str) -> Figure:
    """The tree from left to right: what differs, who stands best by the evidence in ``source``, and the paper."""
    by_kind = {leaf.kind: leaf for leaf in leaves}
    with drawing(9.5):
        figure = new_figure(_WIDTH, _HEIGHT)
        axes = figure.add_axes((0, 0, 1, 1))
        axes.set_xlim(0, _WIDTH)
        axes.set_ylim(_HEIGHT, 0)
        axes.axis("off")
        axes.text(0.2, 0.2, "Which algorithm, when parties differ?", fontsize=13, fontweight="bold", va="center")
        axes.text(0.2, 0.48, source, fontsize=9.5, color=_QUIET, va="center")
        for (left, width), title in ((_OURS, "by this evidence"), (_PAPER, "NIID-Bench's tree")):
            axes.text(left + width / 2, _HEAD - 0.2, title, fontweight="bold", ha="center", va="center")
        middles = {kind: _HEAD + _ROW * (row + 0.5) for row, (kind, _, _) in enumerate(_ROWS)}
        _branches(axes, middles)
        for kind, y in middles.items():
            _leaf(axes, by_kind[kind], y)
        axes.text(0.2, _HEIGHT - 0.36, _NOTE, fontsize=8.4, color=_QUIET, va="center", linespacing=1.35)
    return figure


def _branches(axes: Axes, middles: dict[Kind, float]) -> None:
    places: dict[str, float] = {}
    for what in dict.fromkeys(what for _, what, _ in _ROWS):
        own = [middles[kind] for kind, each, _ in _ROWS if each == what]
        places[what] = sum(own) / len(own)
    root = sum(places.values()) / len(places)
    _box(axes, _ROOT, root, "What differs\nmore than\nby chance?", _WHITE, height=0.86)
    for what, y in places.items():
        _join(axes, _ROOT, root, _WHAT, y)
        _box(axes, _WHAT, y, what, _WHITE, bold=True)
    for kind, what, how in _ROWS:
        if how:
            _join(axes, _WHAT, places[what], _HOW, middles[kind])
            _box(axes, _HOW, middles[kind], how, _WHITE)
            _join(axes, _HOW, middles[kind], _OURS, middles[kind])
        else:
            _join(axes, _WHAT, places[what], _OURS, middles[kind])


def _leaf(axes: Axes, leaf: Leaf, y: float) -> None:
    left, width = _OURS
    if leaf.best is None:
        _box(axes, _OURS, y, "", _GREY)
        said = "no evidence" if leaf.evidence == "none" else "too little evidence"
        axes.text(left + width / 2, y - 0.11, said, ha="center", va="center", color=_QUIET, fontweight="bold")
        count = f"{leaf.comparisons} comparison{'' if leaf.comparisons == 1 else 's'}; {ENOUGH} of one kind needed"
        axes.text(left + width / 2, y + 0.14, count, ha="center", va="center", color=_QUIET, fontsize=8.2)
    else:
        sure = confidence_of(leaf.best)
        title = f"{_name(leaf.best.algorithm)}, {sure} confidence"
        _box(axes, _OURS, y, "", _PALE if sure == "low" else _GREEN)
        axes.text(left + width / 2, y - 0.18, title, ha="center", va="center", fontweight="bold")
        for line, text in enumerate(_evidence(leaf)):
            axes.text(left + width / 2, y + 0.05 + 0.16 * line, text, ha="center", va="center", fontsize=8.0)
    same = leaf.best is not None and leaf.best.algorithm.split("(")[0] == leaf.paper
    _box(axes, _PAPER, y, "", _WHITE, edge=FAINT)
    left, width = _PAPER
    named = "(no branch)" if leaf.kind == "alike" else _name(leaf.paper)
    axes.text(left + width / 2, y - 0.18, named, ha="center", va="center", fontweight="bold" if same else "normal")
    theirs = f"{_record(leaf.paper_standing)} in Table 3" if leaf.paper != REFERENCE else "FedAvg costs least"
    for line, text in enumerate(filter(None, (theirs, "the same as by this evidence" if same else ""))):
        axes.text(
            left + width / 2, y + 0.05 + 0.16 * line, text, ha="center", va="center", fontsize=8.0, color=_QUIET
        )


def _evidence(leaf: Leaf) -> tuple[str, str]:
    assert leaf.best is not None
    if leaf.nearest is not None:
        near = leaf.nearest
        return (
            "as good as any: nobody was shown to be better",
            f"next: {_name(near.algorithm.split('(')[0], 13)}, {_record(near)}, p {near.p:.2f}",
        )
    best = leaf.best
    return (
        f"{_record(best)} comparisons; p {best.p:.3f}",
        f"median {best.median_gain:+.1f} points, worst {best.worst_gain:+.1f}",
    )


def _record(one: Standing) -> str:
    return f"{one.better} better, {one.worse} worse of {one.comparisons}"


def _name(algorithm: str, longest: int = _LONGEST) -> str:
    base, bracket, rest = algorithm.partition("(")
    name = f"{_NAMES.get(base, base)}{bracket}{rest}"
    return name if len(name) <= longest else f"{name[: longest - 1]}…"


def _box(
    axes: Axes, column: tuple[float, float], y: float, text: str, colour: str, *,
    height: float = _BOX, bold: bool = False, edge: str = INK,
) -> None:  # fmt: skip
    from matplotlib.patches import FancyBboxPatch

    left, width = column
    style = "round,pad=0,rounding_size=0.09"
    axes.add_patch(
        FancyBboxPatch(
            (left, y - height / 2), width, height, style, facecolor=colour, edgecolor=edge, linewidth=0.9
        )
    )
    axes.text(
        left + width / 2,
        y,
        text,
        ha="center",
        va="center",
        fontweight="bold" if bold else "normal",
        linespacing=1.25,
    )


def _join(axes: Axes, start: tuple[float, float], y: float, end: tuple[float, float], to: float) -> None:
    """A line from a box to the next, around a corner where they are not level; behind the boxes."""
    left, right = start[0] + start[1], end[0]
    middle = left + 0.22
    axes.plot([left, middle, middle, right], [y, y, to, to], color=FAINT, linewidth=1.1, zorder=0)
