import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unalike.errors import UserError
from unalike.rounds.optimisers import OPTIMISERS, Adam, RmsProp, Sgd

PAIRS = [
    (Sgd(), lambda p: torch.optim.SGD(p, lr=0.1)),
    (Sgd(momentum=0.9), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9)),
    (Sgd(0.5, 0.01), lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.5, weight_decay=0.01)),
    (RmsProp(), lambda p: torch.optim.RMSprop(p, lr=0.1)),
    (RmsProp(0.9, 1e-6, 0.01), lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.9, eps=1e-6, weight_decay=0.01)),
    (Adam(), lambda p: torch.optim.Adam(p, lr=0.1)),
    (
        Adam(0.8, 0.95, 1e-6, 0.1),
        lambda p: torch.optim.Adam(p, lr=0.1, betas=(0.8, 0.95), eps=1e-6, weight_decay=0.1),
    ),
]


@pytest.mark.parametrize(("ours", "reference"), PAIRS)
def test_equals_torch_one_by_one_and_stacked(ours, reference):
    generator = torch.Generator().manual_seed(0)
    start = torch.randn(3, 7, dtype=torch.float64, generator=generator)
    grads = torch.randn(12, 3, 7, dtype=torch.float64, generator=generator)
    expected = []
    for k in range(3):
        parameter = torch.nn.Parameter(start[k].clone())
        optimiser = reference([parameter])
        for grad in grads:
            parameter.grad = grad[k].clone()  # torch adds the decay itself
            optimiser.step()
        expected.append(parameter.detach())
    stacked, slots = start.clone(), ours.init(start)
    for step, grad in enumerate(grads):
        ours.step(stacked, grad + ours.weight_decay * stacked, slots, 0.1, step)
    assert torch.allclose(stacked, torch.stack(expected), atol=1e-12)
    single, slots = start[1].clone(), ours.init(start[1])
    for step, grad in enumerate(grads):
        ours.step(single, grad[1] + ours.weight_decay * single, slots, 0.1, step)
    assert torch.equal(single, stacked[1])


@pytest.mark.parametrize("text", ["sgd(0.9, 0.1)", "rmsprop(weight_decay=0.1)", "adam(weight_decay=0.1)"])
def test_gradients_are_left_alone_and_slots_of_finished_parties_too(text):
    ours = OPTIMISERS.build(text)
    w, grad = torch.ones(3, 2), torch.ones(3, 2)
    slots = ours.init(w)
    ours.step(w[:2], grad[:2], {k: v[:2] for k, v in slots.items()}, 0.1, 0)
    assert torch.equal(grad, torch.ones(3, 2))
    assert torch.equal(w[2], torch.ones(2))
    assert (w[:2] != 1).all()
    assert all((v[2] == 0).all() for v in slots.values())


@given(st.floats(0, 0.99), st.integers(1, 60))
@settings(max_examples=50, deadline=None)
def test_step_sum_is_how_far_unit_gradients_go(rho, steps):
    w = torch.zeros(1, dtype=torch.float64)
    optimiser = Sgd(momentum=rho)
    slots = optimiser.init(w)
    for step in range(steps):
        optimiser.step(w, torch.ones(1, dtype=torch.float64), slots, 1.0, step)
    expected = optimiser.step_sum(torch.tensor(float(steps), dtype=torch.float64))
    assert torch.allclose(-w, expected.reshape(1), rtol=1e-8)


@pytest.mark.parametrize("text", ["adam", "rmsprop"])
def test_adaptive_step_sums_are_refused(text):
    with pytest.raises(UserError, match="sgd"):
        OPTIMISERS.build(text).step_sum(torch.tensor(3.0))


@pytest.mark.parametrize("text", ["sgd(momentum=1)", "sgd(-0.1)", "adam(beta1=1.5)", "rmsprop(weight_decay=-1)"])
def test_bad_values(text):
    with pytest.raises(UserError, match="must be"):
        OPTIMISERS.build(text)
