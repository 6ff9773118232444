"""The contract carries the papers: their proven properties hold for algorithms written against it."""

import torch

from tests.contract.paper_algorithms import Ifca
from tests.helpers import one_round, quadratic_federation
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation


def test_ditto_in_one_loss_without_pull_is_training_alone_and_its_shared_model_is_fedavgs():
    ditto = play(small_simulation("test-ditto-one-loss(lam=0)", sample=1.0, optimiser="sgd", dtype="float64"), 2)
    shared = play(small_simulation("fedavg", sample=1.0, optimiser="sgd", dtype="float64"), 2)
    assert torch.allclose(ditto.state.server["w"], shared.state.server["w"], atol=1e-10)
    near = play(small_simulation("test-ditto-one-loss(lam=5)", sample=1.0, optimiser="sgd", dtype="float64"), 2)
    gap = {
        name: sum(float((s["personal"] - run.state.server["w"]).norm()) for s in run.state.parties.values())
        for name, run in (("free", ditto), ("pulled", near))
    }
    assert gap["pulled"] < gap["free"]


def test_ifca_separates_opposed_parties():
    """Two groups of parties with different optima end in different clusters, each at its group's optimum."""
    centres, curvatures = [[1.0, 1.0]] * 3 + [[-1.0, -1.0]] * 3, [1.0] * 6
    federation = quadratic_federation(centres, curvatures, [4] * 6)
    server = {"w": torch.tensor([[0.3, 0.1], [-0.2, -0.1]], dtype=torch.float64)}
    states = {}
    for _ in range(60):
        server = one_round(Ifca(), federation, server, states, work=LocalWork(4, steps=3), lr=0.1)
    assert torch.allclose(server["w"], torch.tensor([[1.0, 1.0], [-1.0, -1.0]], dtype=torch.float64), atol=1e-6)
    assert [states[k]["member"].tolist() for k in range(6)] == [[1, 0]] * 3 + [[0, 1]] * 3


def test_feddf_trains_on_the_server():
    with_server = play(small_simulation("test-feddf(distil_steps=3)"), 1)
    without = play(small_simulation("test-feddf(distil_steps=0)"), 1)
    plain = play(small_simulation("fedavg"), 1)
    assert torch.allclose(without.state.server["w"], plain.state.server["w"], atol=1e-6)
    assert not torch.allclose(with_server.state.server["w"], plain.state.server["w"], atol=1e-6)
