"""Meta-learning against closed forms: on a/2 ||w - c||^2 every step is an affine map."""

import pytest
import torch
from torch import nn

from tests.helpers import (
    ENGINES,
    EVERY_ENGINE,
    Quadratics,
    federation_of,
    fixed_point,
    one_round,
    optimum,
    quadratic_federation,
)
from unalike.algorithms import ALGORITHMS, FedAvg, PerFedAvg, Reptile
from unalike.algorithms.terms import dealt
from unalike.engines.sequential import Sequential
from unalike.engines.vectorised import Vectorised
from unalike.errors import UserError
from unalike.models import MODELS, Batch
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
ORDERS = pytest.mark.parametrize("order", ["fo", "hf", "exact"])


def parties(sizes=(4, 8, 2)):
    """Three parties, each with a quadratic of its own; they count the same whatever their sizes."""
    return quadratic_federation(CENTRES, CURVATURES, sizes)


# --- Per-FedAvg ---


@ENGINES
@pytest.mark.parametrize(("order", "power"), [("fo", 1), ("hf", 2), ("exact", 2)])
@pytest.mark.parametrize("batches", ["apart", "same"])
def test_the_fixed_point_tells_the_orders_apart(engine, order, power, batches):
    """The gradient is (1 - alpha a) a (w - c), and in second order (1 - alpha a) times that."""
    alpha = 0.3
    algorithm = PerFedAvg(alpha, order, batches)
    found = fixed_point(algorithm, parties(), work=LocalWork(8, steps=1), lr=0.1, engine=engine)
    expected = optimum(CENTRES, CURVATURES, [(1 - alpha * a) ** power for a in CURVATURES])
    other = optimum(CENTRES, CURVATURES, [(1 - alpha * a) ** (3 - power) for a in CURVATURES])
    assert torch.allclose(found, expected, atol=1e-9)
    assert not torch.allclose(found, other, atol=1e-2)


@EVERY_ENGINE
@ORDERS
def test_without_a_step_of_its_own_it_is_fedavg(engine, order):
    meta = small_simulation(f"per-fedavg(alpha=0, order={order}, batches=same)", engine=engine)
    object.__setattr__(meta.algorithm, "weight", lambda party: party.size)  # the paper's parties count the same
    average = play(small_simulation("fedavg", engine=engine), 2)
    assert torch.allclose(play(meta, 2).state.server["w"], average.state.server["w"], atol=1e-6)


def by_hand(simulation, number, weights):
    """A party's net with these weights, and all its training rows."""
    rows = simulation.federation.train.take(torch.from_numpy(simulation.federation.parties[number].train))
    net = MODELS.build("mlp(6,4)").build((5,), 3).to(simulation.task.dtype)
    net.load_state_dict(simulation.task.named(weights, simulation.state.buffers))
    return net, rows


@EVERY_ENGINE
def test_parties_use_their_model_after_one_step_on_all_their_training_rows(engine):
    fields = {"dtype": "float32" if engine == "compiled" else "float64", "batch_size": 64, "engine": engine}
    simulation = play(small_simulation("per-fedavg(alpha=0.2)", **fields), 2)
    models = simulation.models(simulation.state)
    for number in range(6):
        net, (x, y) = by_hand(simulation, number, simulation.state.server["w"])
        nn.functional.cross_entropy(net(x)[0], y).backward()
        expected = torch.cat([(p - 0.2 * p.grad).detach().reshape(-1) for p in net.parameters()])
        assert torch.allclose(models.personal(number)[0], expected, atol=1e-6)
    assert simulation.play_round()[1]["personal"]["count"] > 0


@pytest.mark.parametrize(("batch_size", "optimiser"), [(1, "sgd"), (64, "sgd(momentum=0.9)")])
def test_passes_go_as_far_as_as_many_steps_on_all_rows(batch_size, optimiser):
    """To first order in alpha, whatever the batches and the momentum."""
    fields = {"dtype": "float64", "batch_size": batch_size, "optimiser": optimiser, "engine": "sequential"}
    simulation = play(small_simulation("per-fedavg(alpha=1e-6, adapt_epochs=3)", **fields), 1)
    w, models = simulation.state.server["w"], simulation.models(simulation.state)
    for number in range(6):
        net, (x, y) = by_hand(simulation, number, w)
        nn.functional.cross_entropy(net(x)[0], y).backward()
        gradient = torch.cat([p.grad.reshape(-1) for p in net.parameters()])
        moved = (w - models.personal(number)[0]) / 3e-6
        assert (moved - gradient).norm() < 1e-3 * gradient.norm()


def test_other_optimisers_are_refused():
    with pytest.raises(UserError, match="Use --optimiser sgd"):
        small_simulation("per-fedavg", optimiser="adam")


class Numbers:
    """What ``dealt`` looks at of a party."""

    size = torch.tensor(3.0, dtype=torch.float64)


@pytest.mark.parametrize("count", [1, 2, 3, 5, 6, 7, 12])
@pytest.mark.parametrize("parts", [2, 3])
def test_a_batch_is_dealt_out_by_its_real_rows(count, parts):
    """Each real row is in one part, as evenly as can be, padded or not; too few rows go to all."""
    values = torch.arange(1.0, count + 1, dtype=torch.float64)
    whole = Batch(values[:, None], torch.zeros(count, dtype=torch.int64))
    padded = Batch(
        torch.cat([whole.x, whole.x[:1].expand(4, 1)]),
        torch.zeros(count + 4, dtype=torch.int64),
        mask=torch.cat([torch.ones(count), torch.zeros(4)]).double(),
    )
    means = [
        [float(part.mean(part.x[:, 0])) for part in dealt(Numbers, batch, parts)] for batch in (whole, padded)
    ]
    expected = [(values[k::parts] if k < count else values).mean() for k in range(parts)]
    assert torch.allclose(torch.tensor(means), torch.tensor([expected, expected]).float())


@EVERY_ENGINE
def test_parties_with_one_row_train(engine):
    """A batch that cannot be dealt out serves whole."""
    simulation = small_simulation("per-fedavg(alpha=0.1, order=hf)", batch_size=1, engine=engine)
    moved = play(simulation, 1).state.server["w"] - simulation.initial
    assert moved.norm() > 1e-3
    same = small_simulation("per-fedavg(alpha=0.1, order=hf, batches=same)", batch_size=1, engine=engine)
    # In single precision the difference of two gradients, over 2 delta, has few places left.
    assert torch.allclose(play(same, 1).state.server["w"], simulation.state.server["w"], atol=2e-5)


def test_batches_are_apart():
    """With two rows of other centres, D is the first and D' the second: they never meet in one gradient."""
    rows, alpha, lr = [[2.0, 1.0], [-4.0, 3.0]], 0.2, 0.1
    ends = []
    for engine in (Sequential(), Vectorised()):
        server = {"w": torch.zeros(1, dtype=torch.float64)}
        federation = federation_of(Quadratics(1), [rows])
        ends.append(
            one_round(PerFedAvg(alpha), federation, server, {}, work=LocalWork(2, steps=1), lr=lr, engine=engine)
        )
    possible = []
    for (c, a), (d, b) in (rows, rows[::-1]):
        possible.append(-lr * b * (alpha * a * c - d))
    for end in ends:
        assert min(abs(float(end["w"]) - value) for value in possible) < 1e-12


@pytest.mark.parametrize(
    "text",
    [
        "alpha=-1",
        "alpha=nan",
        "alpha=inf",
        "delta=0",
        "delta=nan",
        "adapt_epochs=0",
        "order=second",
        "batches=two",
    ],
)
def test_what_means_nothing_is_refused(text):
    with pytest.raises(UserError, match=text.split("=")[0]) as caught:
        ALGORITHMS.build(f"per-fedavg({text})")
    assert len(str(caught.value).splitlines()) == 1


# --- Reptile ---


@ENGINES
def test_reptile_with_equal_parties_and_rate_one_is_fedavg(engine):
    start, how = torch.tensor([0.7, -0.4], dtype=torch.float64), {"work": LocalWork(2, epochs=2), "lr": 0.1}
    for sizes in ((4, 4, 4), (4, 8, 2)):
        ends = [
            one_round(algorithm, parties(sizes), {"w": start}, {}, engine=engine, **how)["w"]
            for algorithm in (Reptile(), FedAvg())
        ]
        assert torch.allclose(*ends, rtol=0, atol=1e-14) == (sizes == (4, 4, 4))


@ENGINES
@pytest.mark.parametrize("server_lr", [0.5, 1.0, 1.5])
def test_reptile_goes_a_part_of_the_way_to_the_plain_mean(engine, server_lr):
    start = torch.tensor([0.7, -0.4], dtype=torch.float64)
    how = {"work": LocalWork(8, steps=3), "lr": 0.1, "engine": engine}
    after = one_round(Reptile(server_lr), parties(), {"w": start}, {}, **how)["w"]
    ends = C + (1 - 0.1 * A) ** 3 * (start - C)
    assert torch.allclose(after, start + server_lr * (ends.mean(dim=0) - start), atol=1e-13)


@EVERY_ENGINE
def test_reptiles_parties_train_further_before_use(engine):
    """As far as fine-tuning FedAvg's model would, with the same passes."""
    reptile = small_simulation("reptile(adapt_epochs=2)", engine=engine)
    tuned = small_simulation("fedavg", fine_tune=2, engine=engine)
    for number in range(6):
        one, other = (each.models(each.state).personal(number)[0] for each in (reptile, tuned))
        assert torch.allclose(one, other, atol=1e-6)
        assert (one - reptile.initial).norm() > 1e-2


@pytest.mark.parametrize("text", ["server_lr=0", "server_lr=nan", "server_lr=-1", "adapt_epochs=0"])
def test_what_means_nothing_to_reptile_is_refused(text):
    with pytest.raises(UserError, match=text.split("=")[0]) as caught:
        ALGORITHMS.build(f"reptile({text})")
    assert len(str(caught.value).splitlines()) == 1
