"""The contract carries the papers: their proven properties hold for algorithms written against it."""

import torch

from tests.contract import paper_algorithms
from unalike.runs.small import play, small_simulation

assert paper_algorithms.NAMES  # they are registered


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
