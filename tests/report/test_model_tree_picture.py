"""The picture of a tree of models has a line for each node and a name for each leaf."""

import pytest
import torch

from unalike import RunSpec
from unalike.report.model_tree_picture import model_tree_picture
from unalike.runs.model_tree import ModelTree, Node


def made(leaves):
    """A root that was split in round 10 into so many leaves."""
    children = tuple(range(1, leaves + 1))
    root = Node(0, None, 0, 10, children, tuple(range(leaves)))
    nodes = (root, *(Node(k, 0, 10, None, (), (k - 1,)) for k in children))
    empty = torch.zeros(leaves + 1, 2)
    return ModelTree(RunSpec.from_mapping({"algorithm": "cfl"}), nodes, empty, empty, (0.5,) * leaves)


@pytest.mark.parametrize("leaves", [2, 5, 60])
def test_every_node_is_drawn_and_every_leaf_named(leaves):
    figure = model_tree_picture(made(leaves), 30, lambda score: f"{score:.0%}")
    (axes,) = figure.axes
    texts = [text.get_text() for text in axes.texts]
    assert {str(number) for number in range(leaves + 1)} <= set(texts)
    assert sum(text.startswith("party ") for text in texts) == leaves
    assert sum(text.endswith("50%") for text in texts) == leaves
    spans = [tuple(line.get_xdata()) for line in axes.lines]
    assert spans.count((0, 10)) == 1
    assert spans.count((10, 30)) == leaves
    assert spans.count((10, 10)) == 1  # the split
    assert figure.get_size_inches()[1] < 18
    assert any(f"{leaves} groups of parties" in text.get_text() for text in figure.texts)


def test_a_tree_of_one_node():
    alone = Node(0, None, 0, None, (), (0, 1))
    tree = ModelTree(RunSpec.from_mapping({"algorithm": "cfl"}), (alone,), torch.zeros(1, 2), torch.zeros(1, 2))
    figure = model_tree_picture(tree, 30, lambda score: "–")
    assert figure.texts[0].get_text() == "One group: no parties were told apart"
