"""The picture of importance: a bar for each column, the greatest on top, and no more than can be read."""

import numpy as np
import pytest

from unalike.report.importance_picture import importance_picture
from unalike.trees.importance import Importance


def made(columns):
    gain = np.arange(1.0, columns + 1)
    return Importance(
        tuple(f"column {k} of many words and letters" for k in range(columns)), gain, gain, gain.astype(int)
    )


@pytest.mark.parametrize("columns", [1, 7, 100])
def test_the_greatest_is_on_top_and_every_bar_has_a_name(columns):
    figure = importance_picture(made(columns), "histogram on heart")
    (axes,) = figure.axes
    shown = min(columns, 30)
    widths = [bar.get_width() for bar in axes.patches]
    assert len(widths) == len(axes.get_yticklabels()) == shown
    assert widths == sorted(widths, reverse=True)
    assert axes.get_yticklabels()[0].get_text().startswith(f"column {columns - 1}")
    assert axes.yaxis_inverted()
    assert ("70 more columns" in axes.get_xlabel()) == (columns == 100)
    assert figure.get_size_inches()[1] < 12


def test_trees_that_go_by_nothing_are_an_empty_picture():
    nothing = Importance(("a",), np.zeros(1), np.zeros(1), np.zeros(1, int))
    (axes,) = importance_picture(nothing, "none").axes
    assert not axes.patches
