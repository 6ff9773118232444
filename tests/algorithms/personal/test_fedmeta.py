"""FedMeta against closed forms: on a/2 ||w - c||^2 the meta-gradient is (1 - alpha a)^2 a (w - c)."""

import pytest
import torch
from torch import nn

from tests.algorithms.personal.test_meta import CENTRES, CURVATURES, A, C, by_hand, parties
from tests.helpers import ENGINES, EVERY_ENGINE, fixed_point, one_round, optimum
from unalike.algorithms import ALGORITHMS, FedMetaMaml, FedMetaSgd
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

HOW = {"work": LocalWork(8, steps=1), "lr": 0.1}
START = torch.tensor([0.7, -0.4], dtype=torch.float64)


def started(algorithm, w=START):
    """The server's state before round 1, from these weights."""
    return algorithm.init_server(parties().task, w)


def rounds(algorithm, count, engine=None, federation=None):
    """The server after some rounds on the quadratics."""
    server = started(algorithm)
    for number in range(1, count + 1):
        server = one_round(algorithm, federation or parties(), server, {}, number=number, engine=engine, **HOW)
    return server


@ENGINES
@pytest.mark.parametrize(("order", "power"), [("fo", 1), ("exact", 2)])
def test_the_fixed_point_tells_the_orders_apart(engine, order, power):
    alpha = 0.3
    algorithm = FedMetaMaml(alpha, server_lr=0.1, server="sgd", order=order)
    found = fixed_point(algorithm, parties(), engine=engine, **HOW)
    expected = optimum(CENTRES, CURVATURES, [(1 - alpha * a) ** power for a in CURVATURES])
    assert torch.allclose(found, expected, atol=1e-9)
    other = optimum(CENTRES, CURVATURES, [(1 - alpha * a) ** (3 - power) for a in CURVATURES])
    assert not torch.allclose(found, other, atol=1e-2)


@ENGINES
@pytest.mark.parametrize("cls", [FedMetaMaml, FedMetaSgd])
def test_without_a_step_of_its_own_it_is_fedsgd(engine, cls):
    """One gradient step of the server on the plain mean of the parties' losses."""
    server = rounds(cls(alpha=0.0, server_lr=0.1, server="sgd"), 1, engine)
    assert torch.allclose(server["w"], START - 0.1 * (A * (START - C)).mean(dim=0), atol=1e-14)


@ENGINES
@pytest.mark.parametrize("server", ["adam", "sgd"])
@pytest.mark.parametrize("order", ["exact", "fo"])
def test_meta_sgd_whose_rates_are_kept_is_maml(engine, server, order):
    given = {"alpha": 0.2, "server_lr": 0.05, "server": server, "order": order}
    one, other = rounds(FedMetaSgd(**given, alpha_lr=0.0), 3, engine), rounds(FedMetaMaml(**given), 3, engine)
    assert torch.equal(one["w"], other["w"])
    assert torch.equal(one["alpha"], torch.full_like(START, 0.2))


@ENGINES
def test_meta_sgd_learns_its_rates_by_their_gradient(engine):
    """The loss after the step is a/2 (1 - alpha a)^2 (w - c)^2 for each weight: both derivatives by hand."""
    server = rounds(FedMetaSgd(0.2, 0.1, "sgd", alpha_lr=0.03), 1, engine)
    gap = START - C
    by_w, by_alpha = A * (1 - 0.2 * A) ** 2 * gap, -(A**2) * (1 - 0.2 * A) * gap**2
    assert torch.allclose(server["w"], START - 0.1 * by_w.mean(dim=0), atol=1e-14)
    assert torch.allclose(server["alpha"], 0.2 - 0.03 * by_alpha.mean(dim=0), atol=1e-14)


def test_the_servers_steps_are_those_of_torchs_adam():
    algorithm = FedMetaMaml(0.1, server_lr=0.05)
    w = START.clone().requires_grad_()
    optimiser = torch.optim.Adam([w], lr=0.05)
    for _ in range(4):
        w.grad = (A * (1 - 0.1 * A) ** 2 * (w.detach() - C)).mean(dim=0)
        optimiser.step()
    assert torch.allclose(rounds(algorithm, 4)["w"], w.detach(), atol=1e-12)


@EVERY_ENGINE
@pytest.mark.parametrize("support", [0.2, 0.5])
def test_a_round_is_autograd_through_the_step_on_the_support_rows(engine, support):
    """Every fifth or every second training row is a support row, all others are query rows; few rows are both."""
    dtype = "float32" if engine == "compiled" else "float64"
    text = f"fedmeta-maml(alpha=0.3, server=sgd, server_lr=0.5, support={support})"
    simulation = small_simulation(text, dtype=dtype, sample=1.0, engine=engine)
    before, gradients = simulation.initial, []
    for number in range(6):
        net, (x, y) = by_hand(simulation, number, before)
        places, every = torch.arange(len(y)), round(1 / support)
        chosen = places % every == every - 1
        if not chosen.any():
            chosen = torch.ones_like(chosen)
        query = ~chosen if not chosen.all() else chosen
        named = dict(net.named_parameters())

        def loss(values, rows, net=net, x=x, y=y):
            return nn.functional.cross_entropy(torch.func.functional_call(net, values, (x[rows],))[0], y[rows])

        inner = torch.autograd.grad(loss(named, chosen), named.values(), create_graph=True)
        moved = {name: p - 0.3 * g for (name, p), g in zip(named.items(), inner, strict=True)}
        outer = torch.autograd.grad(loss(moved, query), named.values())
        gradients.append(torch.cat([g.reshape(-1) for g in outer]))
    after = play(simulation, 1).state.server["w"]
    assert torch.allclose(after, before - 0.5 * torch.stack(gradients).mean(dim=0), atol=1e-6)


@EVERY_ENGINE
def test_parties_use_their_model_after_a_step_of_the_learnt_rates(engine):
    fields = {"dtype": "float32" if engine == "compiled" else "float64", "batch_size": 64, "engine": engine}
    simulation = play(small_simulation("fedmeta-sgd(alpha=0.2, alpha_lr=0.05)", **fields), 3)
    server, models = simulation.state.server, simulation.models(simulation.state)
    assert server["alpha"].std() > 1e-3
    for number in range(6):
        net, (x, y) = by_hand(simulation, number, server["w"])
        nn.functional.cross_entropy(net(x)[0], y).backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        assert torch.allclose(models.personal(number)[0], server["w"] - server["alpha"] * gradient, atol=1e-6)


@pytest.mark.parametrize(("name", "vectors"), [("fedmeta-maml", 1), ("fedmeta-sgd", 2)])
def test_what_travels(name, vectors):
    simulation = small_simulation(name, sample=1.0)
    _, row = simulation.play_round()
    for way in ("up", "down"):
        assert sum(row["traffic"][way].values()) == vectors * 6 * simulation.task.size * 4


@pytest.mark.parametrize(
    "text",
    [
        *(f"{name}({what})" for name in ("fedmeta-maml", "fedmeta-sgd") for what in ("alpha=-1", "server_lr=0")),
        *(f"fedmeta-maml({what})" for what in ("alpha=nan", "support=0", "support=1", "adapt_epochs=0")),
        *(f"fedmeta-maml({what})" for what in ("server=rmsprop", "order=hf")),
        *(f"fedmeta-sgd({what})" for what in ("alpha_lr=-1", "alpha_lr=nan")),
    ],
)
def test_what_means_nothing_is_refused(text):
    with pytest.raises(UserError, match=text.split("(")[1].split("=")[0]) as caught:
        ALGORITHMS.build(text)
    assert len(str(caught.value).splitlines()) == 1


def test_other_optimisers_are_refused():
    with pytest.raises(UserError, match="Use --optimiser sgd"):
        small_simulation("fedmeta-maml", optimiser="adam")
