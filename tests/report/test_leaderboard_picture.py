import random

import pytest

from tests.report.pages import check_page, written
from unalike.ranking.blocks import Block, Trial, published_blocks
from unalike.ranking.leaderboard import leaderboard
from unalike.report.leaderboard_picture import leaderboard_picture

NAMES = [
    "fedavg", "fedprox(0.01)", "scaffold(i)", "fednova", "qfedavg(0.2)", "rfedavg(0.0001)", "rfedavg+(0.0001)",
    "moon(1.0, 0.5)", "fedavgm(0.9)", "fedadagrad(0.1, 0.001)", "fedadam(0.01, 0.9, 0.99, 0.001)", "fedyogi",
]  # fmt: skip


def tables(count, settings=12, apart=0.0, kinds=("label skew", "alike")):
    draw = random.Random(count)
    blocks = [
        Block(str(i), kinds[i % len(kinds)], {
            name: {0: Trial(apart * j + draw.gauss(50, 1), name)} for j, name in enumerate(NAMES[:count])
        })
        for i in range(settings)
    ]  # fmt: skip
    return leaderboard(blocks)


@pytest.mark.parametrize("count", [2, 3, 5, 12])
@pytest.mark.parametrize("apart", [0.0, 0.3, 3.0])  # names close together, and far
def test_everything_is_on_the_page_and_nothing_overlaps(count, apart):
    check_page(leaderboard_picture(tables(count, apart=apart), "made up"))


def test_the_papers_table_fits():
    check_page(leaderboard_picture(leaderboard(published_blocks("niid-bench-table3")), "the paper, Table 3"))


def test_points_and_bars_lie_at_the_mean_ranks():
    (first, *_) = made = tables(4, apart=1.0)
    axes = leaderboard_picture(made, "made up").axes[0]
    scale = [
        line for line in axes.lines if len(line.get_xdata()) == 2 and line.get_ydata()[0] == line.get_ydata()[1]
    ]
    low, high = scale[0].get_xdata()

    def rank(x):
        return 1 + 3 * (x - low) / (high - low)

    points = sorted(rank(line.get_xdata()[0]) for line in axes.lines if line.get_marker() == "o")
    assert points == pytest.approx(sorted(first.ranking.mean_ranks.values()))
    bars = [line for line in axes.lines if line.get_gid() == "bar"]
    assert len(bars) == len(first.ranking.cliques)
    for bar, group in zip(bars, first.ranking.cliques, strict=True):
        left, right = (rank(x) for x in bar.get_xdata())
        assert left == pytest.approx(first.ranking.mean_ranks[group[0]], abs=0.1)
        assert right == pytest.approx(first.ranking.mean_ranks[group[-1]], abs=0.1)
    (length,) = (line for line in axes.lines if line.get_gid() == "difference")
    assert rank(length.get_xdata()[-1]) - 1 == pytest.approx(first.ranking.critical_difference)


def test_a_difference_wider_than_all_ranks_is_cut_and_said():
    figure = leaderboard_picture(tables(3, settings=2, kinds=("alike",)), "made up")
    assert any("more than all ranks" in text for text in written(figure))
    check_page(figure)


def test_one_category_is_drawn_once():
    assert len(leaderboard_picture(tables(3, kinds=("alike",)), "made up").axes) == 1
    assert len(leaderboard_picture(tables(3), "made up").axes) == 3


@pytest.mark.parametrize("found", [tables(1), tables(3, settings=1), leaderboard([])])
def test_nothing_to_draw_says_why(found):
    figure = leaderboard_picture(found, "made up")
    assert any("Nothing can be concluded" in text for text in written(figure))
    check_page(figure)
