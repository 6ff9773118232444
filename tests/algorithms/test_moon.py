import numpy as np
import pytest
import torch

from tests.algorithms.regularised import (
    a_party,
    check_loss,
    features_by_hand,
    gradient,
    loss_by_hand,
    random,
    small_task,
    some_rows,
)
from tests.helpers import NormBody
from unalike.algorithms import FedAvg, Moon
from unalike.runs.small import play, small_simulation

BOTH = pytest.mark.parametrize("engine", ["sequential", "vectorised"])


def contrast_by_hand(z, near, far, temperature):
    """Equation 3, per row."""

    def similarity(a, b):
        return (a * b).sum(axis=1) / (np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1))

    up = np.exp(similarity(z, near) / temperature)
    return -np.log(up / (up + np.exp(similarity(z, far) / temperature)))


def three_models(task):
    """Weights whose features are positive, so that no norm is zero."""
    made = [task.initial(k) + 0.05 * random(task.size, seed=k) for k in range(3)]
    for w in made:
        w[task.slices["body.0.bias"]] += 2
        w[task.slices["body.2.bias"]] += 3
    return made


@pytest.mark.parametrize("temperature", [0.2, 0.5, 2.0])
@pytest.mark.parametrize("padding", [0, 3])
def test_the_loss_is_equation_4_and_its_gradient_equals_finite_differences(temperature, padding):
    task, (batch, x, y) = small_task(), some_rows(padding)
    w, sent, previous = three_models(task)

    def by_hand(w):
        z, near, far = (features_by_hand(task, v, x) for v in (w, sent, previous))
        return loss_by_hand(task, w, x, y) + 1.5 * contrast_by_hand(z, near, far, temperature).mean()

    party = a_party(task, {"w": sent}, {"previous": previous})
    check_loss(Moon(mu=1.5, temperature=temperature), party, w, batch, by_hand)


def test_the_two_other_models_are_frozen():
    task, (batch, _, _) = small_task(), some_rows()
    w, sent, previous = (v.requires_grad_() for v in three_models(task))
    value = Moon().loss(a_party(task, {"w": sent}, {"previous": previous}), w, batch)
    grads = torch.autograd.grad(value, [w, sent, previous], allow_unused=True)
    assert grads[0].norm() > 0
    assert grads[1] is None
    assert grads[2] is None


def test_equal_models_have_no_pull():
    """z_prev = z_glob: the term is log 2 whatever z, and its gradient zero."""
    task, (batch, _, _) = small_task(), some_rows()
    w, sent, _ = three_models(task)
    party = a_party(task, {"w": sent}, {"previous": sent})
    value, found = gradient(Moon(mu=2.0), party, w, batch)
    plain, expected = gradient(FedAvg(), party, w, batch)
    assert value - plain == pytest.approx(2 * np.log(2))
    assert torch.allclose(found, expected, rtol=0, atol=1e-12)


def test_features_that_are_all_zero_give_finite_gradients():
    task, (batch, _, _) = small_task(), some_rows()
    dead = torch.zeros(task.size, dtype=torch.float64)
    party = a_party(task, {"w": task.initial()}, {"previous": dead})
    assert torch.isfinite(gradient(Moon(), party, dead, batch)[1]).all()


@BOTH
def test_the_first_round_is_fedavgs_and_mu_zero_is_for_ever(engine):
    fields = {"engine": engine, "dtype": "float64", "sample": 1.0}
    plain = small_simulation("fedavg", **fields)
    strong, without = (small_simulation(f"moon(mu={mu})", **fields) for mu in (10.0, 0))
    for number in range(1, 4):
        w, pulled, free = (play(s, 1).state.server["w"] for s in (plain, strong, without))
        assert torch.allclose(w, free, rtol=0, atol=1e-12)
        assert torch.allclose(w, pulled, rtol=0, atol=1e-10) == (number == 1)


@BOTH
def test_a_party_keeps_its_own_trained_model_also_when_absent(engine):
    simulation = small_simulation("moon", engine=engine, dtype="float64")
    start = simulation.party_state(5)["previous"]
    assert torch.equal(start, simulation.initial)  # nobody trained yet
    for number, alone in enumerate([2, 4, 1, 2], 1):
        before = simulation.state
        simulation.cohort = lambda number, alone=alone: [alone]
        play(simulation, 1)
        # Of a cohort of one, the new global model is the party's own.
        assert torch.allclose(
            simulation.state.parties[alone]["previous"], simulation.state.server["w"], atol=1e-14
        )
        for k, state in before.parties.items():
            if k != alone:
                assert torch.equal(state["previous"], simulation.state.parties[k]["previous"])
        assert number >= len(before.parties)


def test_frozen_models_leave_the_running_statistics_alone():
    """With mu = 0 the weights are FedAvg's: so are the statistics of batch norm, though other models looked."""
    assert NormBody
    fields = {"model": "test-norm-body", "batch_size": 64, "dtype": "float64", "held_out": 0, "validation": 0}
    moon, avg = (play(small_simulation(text, **fields), 3).state for text in ("moon(mu=0)", "fedavg"))
    assert torch.allclose(moon.server["w"], avg.server["w"], rtol=0, atol=1e-12)
    assert torch.allclose(moon.buffers, avg.buffers, rtol=0, atol=1e-12)
    assert (avg.buffers != 0).any()
