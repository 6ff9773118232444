"""A tree of models over the rounds: groups of parties, when each was split, and how well its parties do."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unalike.algorithms import ALGORITHMS
from unalike.partition import PARTITIONS
from unalike.report.figures import FAINT, INK, PALETTE, drawing, new_figure
from unalike.runs.model_tree import ModelTree, Node, parties_text

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_WIDTH = 9.5  # inches
_LEFT, _RIGHT, _HEAD, _FOOT, _ROW = 0.45, 3.1, 0.85, 0.75, 0.52
_TALLEST = 14.0  # inches for all leaves; many are drawn closer, in one line each
_QUIET = "#666666"
_MOST = 8  # parties that are named in a leaf
_NOTE = "Every node is a model. One that was split keeps the model that it had; a leaf's is the one in use."


def model_tree_picture(tree: ModelTree, rounds: int, say_score: Callable[[float | None], str]) -> Figure:
    """The tree from left to right: a line for each node, from the round it began in to that of its split."""
    leaves = tree.leaves
    row = min(_ROW, _TALLEST / len(leaves))
    height = _HEAD + _FOOT + row * max(len(leaves), 2)
    with drawing(9.5):
        figure = new_figure(_WIDTH, height)
        figure.text(0.02, 1 - 0.16 / height, _title(tree), fontsize=13, fontweight="bold", va="top")
        algorithm = ALGORITHMS.brief(ALGORITHMS.build(tree.spec.algorithm))
        split = PARTITIONS.brief(PARTITIONS.build(tree.spec.partition))
        about = f"{algorithm} on {tree.spec.dataset}, {split}, seed {tree.spec.seed}"
        figure.text(0.02, 1 - 0.46 / height, _shortened(about), fontsize=9, color=_QUIET, va="top")
        figure.text(0.02, 0.1 / height, _NOTE, fontsize=8.5, color=_QUIET, va="bottom")
        span = 1 - (_LEFT + _RIGHT) / _WIDTH
        axes = figure.add_axes((_LEFT / _WIDTH, _FOOT / height, span, 1 - (_HEAD + _FOOT) / height))
        _frame(axes, rounds, len(leaves))
        places = {leaf.number: place + 0.5 for place, leaf in enumerate(leaves)}
        _draw(axes, tree, tree.nodes[0], places, rounds)
        for place, leaf in enumerate(leaves):
            _name(axes, leaf, place, rounds, say_score(tree.score(leaf)), close=row < _ROW)
    return figure


def _title(tree: ModelTree) -> str:
    groups = len(tree.leaves)
    if groups == 1:
        return "One group: no parties were told apart"
    return f"{groups} groups of parties, each with a model of its own"


def _shortened(text: str, most: int = 125) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _frame(axes: Axes, rounds: int, leaves: int) -> None:
    """A scale of rounds below, and nothing else."""
    from matplotlib.ticker import MaxNLocator

    axes.set_xlim(0, rounds)
    axes.set_ylim(max(leaves, 2), 0)
    axes.set_yticks([])
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.xaxis.set_major_locator(MaxNLocator(8, integer=True))
    axes.tick_params(length=3, color=FAINT)
    axes.set_xlabel("round", color=_QUIET, labelpad=1)


def _draw(axes: Axes, tree: ModelTree, node: Node, places: dict[int, float], rounds: int) -> float:
    """A node and all below it; where it is drawn, in the middle of its children."""
    below = [_draw(axes, tree, tree.nodes[child], places, rounds) for child in node.children]
    y = (below[0] + below[-1]) / 2 if below else places[node.number]
    end = rounds if node.until is None else node.until
    colour = FAINT if below else PALETTE[0].colour
    axes.plot([node.since, end], [y, y], color=colour, linewidth=2.6 if below else 3.4, solid_capstyle="butt")
    if below:
        axes.plot([end, end], [below[0], below[-1]], color=FAINT, linewidth=2.6, solid_capstyle="round")
    style = {"boxstyle": "circle,pad=0.28", "facecolor": "white", "edgecolor": colour, "linewidth": 1.5}
    axes.text(
        (node.since + end) / 2, y, str(node.number), ha="center", va="center", fontsize=9, color=INK, bbox=style
    )
    return y


def _name(axes: Axes, leaf: Node, place: int, rounds: int, score: str, *, close: bool) -> None:
    """Beside a leaf: who is in it, and how well they do at the end."""
    at: dict[str, Any] = {"textcoords": "offset points", "va": "center", "annotation_clip": False}
    names = parties_text(leaf.parties, _MOST)
    if close:
        axes.annotate(f"{names}: {score}", (rounds, place + 0.5), (9, 0), fontsize=8, **at)
        return
    axes.annotate(names, (rounds, place + 0.38), (9, 0), **at)
    axes.annotate(f"mean {score}", (rounds, place + 0.72), (9, 0), fontsize=8.5, color=_QUIET, **at)
