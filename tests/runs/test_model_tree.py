"""The tree of a run: its nodes, their members and models, and the way of a newcomer down to a leaf."""

import numpy as np
import pytest
import torch

from unalike import MODELS, load_dataset, run
from unalike.errors import UserError
from unalike.runs.model_tree import parties_text, tree_lines, tree_of
from unalike.runs.simulation import Simulation

QUICK = {"dataset": "digits", "parties": 4, "rounds": 3, "steps": 2, "model": "mlp(8)", "validation": 0.0}
SPLITS = {**QUICK, "algorithm": "cfl(eps1=9, eps2=0, across=1, most=5)"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A finished run whose root was split in round 1, and a part of it in round 2."""
    return run(runs=tmp_path_factory.mktemp("runs"), **SPLITS).run_dir


def again(**fields):
    """The same training, in memory."""
    from unalike import RunSpec

    simulation = Simulation(RunSpec.from_mapping({**SPLITS, **fields}), say=lambda line: None)
    for _ in range(3):
        simulation.state, _ = simulation.play_round()
    return simulation


def test_nodes_have_their_members_and_their_models(folder):
    tree, server = tree_of(folder), again().state.server
    root = tree.nodes[0]
    assert (root.parent, root.since, root.until, root.parties) == (None, 0, 1, (0, 1, 2, 3))
    assert len(tree.nodes) == 5
    assert sorted(k for leaf in tree.leaves for k in leaf.parties) == [0, 1, 2, 3]
    for node in tree.nodes:
        assert torch.equal(tree.w[node.number], server["w"][node.number])
        if node.children:
            assert node.parties == tuple(sorted(k for c in node.children for k in tree.nodes[c].parties))
            assert {tree.nodes[child].parent for child in node.children} == {node.number}
            assert {tree.nodes[child].since for child in node.children} == {node.until}
        else:
            assert all(int(server["group"][k]) == node.number for k in node.parties)
            expected = np.mean([tree.scores[k] for k in node.parties])
            assert tree.score(node) == pytest.approx(expected)


def test_a_node_is_a_model_that_gives_its_parties_figures(folder):
    """A net with the leaf's weights has, on a party's own rows, the very score that the run reports."""
    tree, simulation, data = tree_of(folder), again(), load_dataset("digits")
    net = MODELS.build("mlp(8)").build(data.shape, len(data.classes)).eval()
    for leaf in tree.leaves:
        net.load_state_dict(tree.weights(leaf.number))
        for number in leaf.parties:
            rows = torch.from_numpy(simulation.federation.parties[number].held_out)
            x, y = simulation.federation.train.take(rows)
            right = float((net(x)[0].argmax(dim=1) == y).double().mean())
            assert right == pytest.approx(tree.scores[number])


def test_a_member_that_walks_down_comes_to_its_own_leaf(folder):
    tree = tree_of(folder)
    for leaf in tree.leaves:
        path, node = {}, leaf
        while node.parent is not None:
            path[node.parent], node = node.number, tree.nodes[node.parent]

        def update(w, path=path):
            number = next(k for k in range(len(tree.nodes)) if torch.equal(tree.w[k], w) and k in path)
            return tree.direction[path[number]]

        assert tree.walk(update) == leaf


def test_newcomers_are_no_members(tmp_path):
    made = run(runs=tmp_path, **{**SPLITS, "newcomers": 0.25}).run_dir
    tree = tree_of(made)
    assert len(tree.nodes[0].parties) == 3


def test_lines_of_text(folder):
    tree = tree_of(folder)
    lines = tree_lines(tree, lambda score: f"{score:.2f}")
    assert lines[0] == "node 0, parties 0, 1, 2, 3, split in round 1"
    assert len(lines) == 5
    assert sum(line.lstrip("│ ").startswith("├─ node") for line in lines) == 2
    assert sum(line.lstrip("│ ").startswith("└─ node") for line in lines) == 2
    for leaf in tree.leaves:
        (own,) = [line for line in lines if f"node {leaf.number}," in line]
        assert own.endswith(f"{parties_text(leaf.parties)}: {tree.score(leaf):.2f}")
    assert parties_text(range(40), 4) == "40 parties (0, 1, ...)"


def test_what_has_no_tree_is_refused(folder, tmp_path):
    with pytest.raises(UserError, match=r"this is not the folder of a finished run"):
        tree_of(tmp_path)
    flat = run(runs=tmp_path, **{**QUICK, "algorithm": "fedavg"}).run_dir
    with pytest.raises(UserError, match=r"fedavg grows no tree of models. Give a run of cfl"):
        tree_of(flat)
    with pytest.raises(UserError, match=r"The tree has nodes from 0 to 4, got 5."):
        tree_of(folder).weights(5)
    grouped = run(runs=tmp_path, **{**QUICK, "algorithm": "kmeans-models(epochs=1)"}).run_dir
    with pytest.raises(UserError, match="there is no way down its tree"):
        tree_of(grouped).walk(lambda w: w)
