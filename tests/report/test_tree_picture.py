import pytest

from tests.report.pages import check_page, written
from unalike.ranking.blocks import Block, Trial, published_blocks
from unalike.ranking.splits import PAPER
from unalike.ranking.tree import grow
from unalike.report.tree_picture import tree_picture


def blocks(count, gain, name="moon", kinds=tuple(PAPER)):
    return [
        Block(f"{kind} {i}", kind, {"fedavg": {0: Trial(50.0, "fedavg")}, name: {0: Trial(50.0 + gain, name)}})
        for kind in kinds
        for i in range(count)
    ]


LONG = "fedadam(0.01, 0.9, 0.99, 0.001)"
CASES = {
    "the paper": published_blocks("niid-bench-table3"),
    "nothing": [],
    "few": blocks(2, 5.0),
    "better": blocks(12, -45.0, LONG) + blocks(100, 40.0, LONG),
    "worse": blocks(200, -45.0, LONG),
}


@pytest.mark.parametrize("name", CASES)
def test_everything_is_on_the_page_and_nothing_overlaps(name):
    check_page(tree_picture(grow(CASES[name]), "made up"))


@pytest.mark.parametrize("name", CASES)
def test_leaves_hold_their_texts(name):
    """No text of a leaf is wider than its box."""
    from matplotlib.patches import FancyBboxPatch

    figure = tree_picture(grow(CASES[name]), "made up")
    figure.draw_without_rendering()
    boxes = [patch.get_window_extent() for patch in figure.findobj(FancyBboxPatch)]
    assert len(boxes) == 1 + 4 + 2 + 2 * len(PAPER)
    inside = 0
    for text in figure.axes[0].texts:
        extent = text.get_window_extent()
        middle = (extent.x0 + extent.x1) / 2, (extent.y0 + extent.y1) / 2
        box = next((box for box in boxes if box.contains(*middle)), None)
        if box is not None and text.get_text():
            inside += 1
            assert box.x0 < extent.x0, text.get_text()
            assert extent.x1 < box.x1, text.get_text()
            assert box.y0 < extent.y0 < extent.y1 < box.y1, text.get_text()
    assert inside > 20


def test_it_says_what_the_evidence_says():
    said = written(tree_picture(grow(published_blocks("niid-bench-table3")), "Table 3"))
    assert "FedProx, medium confidence" in said
    assert "5 better, 1 worse of 7 comparisons; p 0.047" in said
    assert "next: FedProx, 5 better, 6 worse of 15, p 0.53" in said
    assert said.count("the same as by this evidence") == 2


def test_grey_where_there_is_no_evidence():
    said = written(tree_picture(grow(blocks(2, 5.0, kinds=["alike"])), "made up"))
    assert said.count("no evidence") == 4
    assert said.count("too little evidence") == 1
