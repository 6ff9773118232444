"""FedGAN: what its paper and arithmetic say about it."""

import pytest
import torch
from torch import nn
from torch.nn import functional

from tests.algorithms.generated.helpers import simulation_of
from tests.helpers import regression_data, use_algorithm
from unalike.algorithms import ALGORITHMS, FedGan
from unalike.algorithms.generated.gan import Gan
from unalike.algorithms.generated.nets import judges, makes
from unalike.errors import UserError
from unalike.models import noise
from unalike.models.batch import Batch
from unalike.randomness import stream
from unalike.runs.small import play, small_simulation


def flat(net):
    """The weights of a module as one vector."""
    return torch.cat([p.detach().reshape(-1) for p in net.parameters()])


def modules(server):
    """The generator and the judge as ordinary modules with the server's weights."""
    nets = {"generator": makes((5,), 3, 2).double(), "judge": judges((5,), 3).double()}
    for name, net in nets.items():
        nn.utils.vector_to_parameters(server[name].clone(), net.parameters())
    return nets


def centralised(nets, x, y, plan, key, lr=0.05, ratio=0.5):
    """Simultaneous steps of a plain conditional GAN: the gradients are taken before anything moves."""
    bce = functional.binary_cross_entropy_with_logits
    for step, rows in enumerate(plan):
        real, labels = x[rows], functional.one_hot(y[rows], 3).double()
        one, zero = torch.ones(len(rows)).double(), torch.zeros(len(rows)).double()
        drawn = noise.normal(noise.key_of_step(torch.tensor(key), step), 2 * len(rows), 0, torch.float64)
        made = nets["generator"](drawn.reshape(-1, 2), labels)
        told = bce(nets["judge"](real, labels), one) + bce(nets["judge"](made.detach(), labels), zero)
        passed = ratio * bce(nets["judge"](made, labels), one)
        judge, generator = (list(nets[name].parameters()) for name in ("judge", "generator"))
        gradients = [*torch.autograd.grad(told, judge, retain_graph=True), *torch.autograd.grad(passed, generator)]
        with torch.no_grad():
            for weight, gradient in zip(judge + generator, gradients, strict=True):
                weight -= lr * gradient
    return {name: flat(net) for name, net in nets.items()}


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize(("groups", "steps"), [([5], 1), ([5], 3), ([3, 5], 2)])
def test_one_party_trains_a_centralised_gan_and_several_their_weighted_mean(engine, groups, steps):
    simulation = simulation_of("fedgan(noise=2, ratio=0.5)", groups, engine=engine, epochs=None, steps=steps)
    before, ends, sizes = simulation.state.server, [], []
    after, _ = simulation.play_round()
    for number in range(len(groups)):
        own = torch.from_numpy(simulation.federation.parties[number].train)
        plan = simulation.spec.work.plan(len(own), stream(0, "batches", 1, number, 0))
        key = int(stream(0, "noise", 1, number, 0).integers(-(2**63), 2**63))
        ends.append(centralised(modules(before), *simulation.federation.train.take(own), plan, key))
        sizes.append(len(own))
    for name in ("generator", "judge"):
        expected = sum(n * end[name] for n, end in zip(sizes, ends, strict=True)) / sum(sizes)
        assert torch.allclose(after.server[name], expected, atol=1e-12)
        assert not torch.allclose(after.server[name], before[name], atol=1e-4)


class _Moves(nn.Module):
    """A generator that makes one row, which it learns."""

    def __init__(self):
        super().__init__()
        self.b = nn.Parameter(torch.zeros(5))

    def forward(self, z, labels):
        return self.b.expand(len(z), 5)


class _Plane(nn.Module):
    """A linear judge."""

    def __init__(self):
        super().__init__()
        self.score = nn.Parameter(torch.zeros(5))

    def forward(self, x, labels):
        return x @ self.score


class LinearGan(FedGan):
    """FedGAN with nets whose fixed point has a closed form."""

    def nets(self, task):
        return Gan(task.extra("moves", _Moves), task.extra("plane", _Plane), self.noise, task.classes)


def linear(groups, **fields):
    """A run of it, and the mean of all of its parties' rows."""
    simulation = simulation_of(
        "fedgan", groups, epochs=None, steps=1, lr=0.5, rounds=200, evaluate_every=200, **fields
    )
    use_algorithm(simulation, LinearGan(noise=1))
    w = simulation.state.server["w"]
    nothing = torch.zeros(5, dtype=torch.float64)
    simulation.state.server.clear()
    simulation.state.server.update({"w": w, "generator": nothing, "judge": nothing.clone()})
    rows = [torch.from_numpy(own.train) for own in simulation.federation.parties]
    return simulation, simulation.federation.train.take(torch.cat(rows))[0].mean(dim=0)


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_a_linear_generator_ends_at_the_mean_of_all_rows_and_stays_there(engine):
    """Parties with other means and sizes: at w = 0 and b = the weighted mean, both mean gradients are zero."""
    simulation, mean = linear([2, 4, 5], engine=engine)
    simulation.state.server["generator"] = mean.clone()
    there, _ = simulation.play_round()
    assert torch.allclose(there.server["generator"], mean, atol=1e-14)
    assert float(there.server["judge"].abs().max()) < 1e-14
    simulation, _ = linear([2, 4, 5], engine=engine)
    for _ in range(150):
        simulation.state, _ = simulation.play_round()
    assert torch.allclose(simulation.state.server["generator"], mean, atol=0.02)
    assert float(simulation.state.server["judge"].abs().max()) < 0.02


def test_parties_that_change_places_change_nothing():
    one, other = (play(linear(groups)[0], 3).state.server for groups in ([3, 5], [5, 3]))
    assert all(torch.allclose(one[name], other[name], atol=1e-12) for name in ("generator", "judge"))
    assert float(one["generator"].abs().max()) > 0.01


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
@pytest.mark.parametrize("text", ["fedgan", "fedgan(fill=0.5, after=9)"])
def test_without_made_rows_the_classifier_is_fedavgs(text, engine):
    fields = {"engine": engine, "optimiser": "sgd(momentum=0.9)", "batch_size": 8}
    ours, plain = (simulation_of(name, [2, 4], **fields) for name in (text, "fedavg"))
    ours, plain = play(ours, 2).state.server["w"], play(plain, 2).state.server["w"]
    assert torch.equal(ours, plain) if engine == "sequential" else torch.allclose(ours, plain, atol=1e-12)


class _Corners(nn.Module):
    """A generator whose rows lie at a corner for each label."""

    def __init__(self):
        super().__init__()
        self.b = nn.Parameter(3 * torch.eye(3, 5))

    def forward(self, z, labels):
        return labels @ self.b + 0.1 * z


class CornerGan(FedGan):
    """FedGAN with such a generator."""

    def nets(self, task):
        return Gan(task.extra("corners", _Corners), task.extra("plane", _Plane), self.noise, task.classes)


def test_made_rows_come_from_the_received_generator_with_labels_evenly():
    """A classifier trained on them alone learns what the generator, not the parties, says, of all labels."""
    simulation = simulation_of("fedgan", [4, 5], epochs=60, lr=0.2, batch_size=16)
    use_algorithm(simulation, CornerGan(noise=5, fill=1.0, ratio=1e-9))
    start = simulation.algorithm.init_server(simulation.task, simulation.initial)
    simulation.state.server.update(start)
    after, _ = simulation.play_round()
    logits = simulation.task.logits(
        after.server["w"], Batch(3 * torch.eye(3, 5, dtype=torch.float64), torch.arange(3))
    )
    assert float(logits.softmax(dim=1).diagonal().min()) > 0.9


def test_after_so_many_rounds_made_rows_are_used():
    one, other = (play(simulation_of(f"fedgan(fill=0.5, after={n})", [4, 5]), 2) for n in (1, 2))
    assert not torch.equal(one.state.server["w"], other.state.server["w"])
    one, other = (play(simulation_of(f"fedgan(fill=0.5, after={n})", [4, 5]), 1) for n in (1, 2))
    assert torch.equal(one.state.server["w"], other.state.server["w"])


def test_all_three_are_sums_so_they_can_be_hidden():
    fields = {"sample": 1.0, "dtype": "float64", "engine": "sequential"}
    one, other = (play(small_simulation("fedgan", **fields, **more), 1) for more in ({}, {"channel": "masked"}))
    for name, value in one.state.server.items():
        assert torch.allclose(value, other.state.server[name], atol=1e-4)


def test_a_task_of_numbers_has_a_generator_without_labels_and_nothing_to_fill_up():
    data = regression_data()
    state, row = simulation_of("fedgan(noise=2)", [0, 1], data).play_round()
    assert row["rmse"] > 0
    assert float(state.server["generator"].abs().max()) > 0
    with pytest.raises(UserError, match=r"fedgan\(fill\) is for classes"):
        simulation_of("fedgan(fill=0.5)", [0, 1], data)


@pytest.mark.parametrize("text", ["noise=0", "ratio=0", "ratio=nan", "fill=1.5", "fill=nan", "after=-1"])
def test_parameters_that_mean_nothing_are_refused(text):
    with pytest.raises(UserError, match=text.split("=")[0]):
        ALGORITHMS.build(f"fedgan({text})")
