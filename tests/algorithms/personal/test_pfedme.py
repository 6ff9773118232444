"""pFedMe against closed forms: on a/2 ||w - c||^2, theta(w) = (a c + lam w) / (a + lam)."""

import pytest
import torch
from torch import nn

from tests.algorithms.personal.test_meta import CENTRES, CURVATURES, A, C, by_hand, parties
from tests.helpers import ENGINES, EVERY_ENGINE, fixed_point, one_round, optimum
from unalike.algorithms import ALGORITHMS, PFedMe
from unalike.errors import UserError
from unalike.rounds.optimisers import Sgd
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation


def envelope(lam):
    """The optimum of the mean of the Moreau envelopes: curvatures are a lam / (a + lam)."""
    return optimum(CENTRES, CURVATURES, [lam / (a + lam) for a in CURVATURES])


@ENGINES
@pytest.mark.parametrize("lam", [0.5, 3.0])
def test_the_fixed_point_is_the_optimum_of_the_envelopes(engine, lam):
    """With one step a round, and theta solved to the end; with momentum too."""
    algorithm = PFedMe(lam, inner_steps=80, inner_lr=0.2)
    how = {"work": LocalWork(8, steps=1), "lr": 0.1, "engine": engine}
    for optimiser in (Sgd(), Sgd(momentum=0.5)):
        found = fixed_point(algorithm, parties(), optimiser=optimiser, **how)
        assert torch.allclose(found, envelope(lam), atol=1e-8)
    assert not torch.allclose(envelope(lam), optimum(CENTRES, CURVATURES, [1, 1, 1]), atol=1e-2)
    assert not torch.allclose(envelope(lam), optimum(CENTRES, CURVATURES, [4, 8, 2]), atol=1e-2)


@ENGINES
@pytest.mark.parametrize("beta", [0.5, 1.0, 2.0])
def test_a_round_is_the_papers(engine, beta):
    """K steps of theta from w, then w goes eta lam (w - theta); twice; then the server's mean."""
    lam, inner, count, lr = 2.0, 0.1, 3, 0.05
    start = torch.tensor([0.7, -0.4], dtype=torch.float64)
    w = start.expand(3, 2)
    for _ in range(2):
        theta = w
        for _ in range(count):
            theta = theta - inner * (A * (theta - C) + lam * (theta - w))
        w = w - lr * lam * (w - theta)
    algorithm, how = PFedMe(lam, count, inner, beta), {"work": LocalWork(8, steps=2), "lr": lr, "engine": engine}
    after = one_round(algorithm, parties(), {"w": start}, {}, **how)["w"]
    assert torch.allclose(after, (1 - beta) * start + beta * w.mean(dim=0), atol=1e-13)


@ENGINES
def test_a_strong_pull_is_fedavg_with_equal_weights(engine):
    """With eta lam and inner_lr lam fixed, lam (w - theta) becomes the gradient as lam grows."""
    lam, start = 1e7, torch.zeros(2, dtype=torch.float64)
    algorithm = PFedMe(lam, inner_steps=40, inner_lr=0.5 / lam)
    after = one_round(algorithm, parties(), {"w": start}, {}, work=LocalWork(8, steps=3), lr=0.1, engine=engine)[
        "w"
    ]
    expected = (C - (1 - 0.1 * A) ** 3 * C).mean(dim=0)
    assert torch.allclose(after, expected, atol=1e-5)


@EVERY_ENGINE
@pytest.mark.parametrize("around", ["shared", "local"])
def test_parties_use_theta_of_all_their_training_rows(engine, around):
    """K steps of gradient descent by hand for f_k(theta) + lam/2 ||theta - w||^2."""
    fields = {"dtype": "float32" if engine == "compiled" else "float64", "batch_size": 64, "engine": engine}
    fields["optimiser"] = "sgd"
    text = f"pfedme(lam=2, inner_steps=4, inner_lr=0.1, around={around})"
    simulation = play(small_simulation(text, newcomers=0.17, **fields), 1)
    shared, models = simulation.state.server["w"], simulation.models(simulation.state)
    own = simulation.state.parties
    assert len(own) == (3 if around == "local" else 0)  # who took part; one is a newcomer, two were not asked
    if around == "local":  # what they came to is what the server has the mean of
        assert torch.allclose(torch.stack([each["w"] for each in own.values()]).mean(dim=0), shared, atol=1e-6)
    for number in range(6):
        theta = w = own[number]["w"] if number in own else shared
        assert (number in own) == bool((w != shared).any())
        for _ in range(4):
            net, (x, y) = by_hand(simulation, number, theta)
            nn.functional.cross_entropy(net(x)[0], y).backward()
            gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
            theta = theta - 0.1 * (gradient + 2 * (theta - w))
        assert torch.allclose(models.personal(number)[0], theta, atol=1e-5)
        assert (theta - w).norm() > 1e-2


def test_theta_ends_between_a_partys_optimum_and_the_shared_model():
    """The model that is used solves its own problem: with a long inner descent, to the end."""
    simulation = small_simulation("pfedme(lam=0.7, inner_steps=400, inner_lr=0.3)", model="logistic", epochs=None,
        steps=1, dtype="float64", batch_size=64, optimiser="sgd")  # fmt: skip
    models, w, task = simulation.models(simulation.state), simulation.state.server["w"], simulation.task
    for number in (0, 5):
        theta = models.personal(number)[0].requires_grad_()
        x, y = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
        logits = torch.func.functional_call(task.net, task.parameters.unflatten(theta), (x.to(task.dtype),))[0]
        loss = nn.functional.cross_entropy(logits, y) + 0.35 * (theta - w).square().sum()
        assert torch.autograd.grad(loss, theta)[0].norm() < 1e-9


def test_other_optimisers_are_refused():
    with pytest.raises(UserError, match="Use --optimiser sgd"):
        small_simulation("pfedme", optimiser="adam")


@pytest.mark.parametrize(
    "text", ["lam=0", "lam=nan", "inner_steps=0", "inner_lr=0", "inner_lr=nan", "beta=0", "inner_lr=0.2", "lam=50"]
)
def test_what_means_nothing_is_refused(text):
    with pytest.raises(UserError, match=text.split("=")[0]) as caught:
        ALGORITHMS.build(f"pfedme({text})")
    assert len(str(caught.value).splitlines()) == 1
