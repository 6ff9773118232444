"""FedAMP, HeurFedAMP and MOCHA do what their papers, or arithmetic, say."""

import pytest
import torch

from tests.helpers import ENGINES, one_round, quadratic_federation, rounds_by_hand
from unalike.algorithms import ALGORITHMS, FedAmp, HeurFedAmp, Mocha
from unalike.algorithms.contract import sent_to
from unalike.algorithms.personal import related
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

CENTRES, CURVATURES = [[1.0, 2.0], [-1.0, 0.5], [3.0, -2.0]], [0.5, 1.0, 2.0]
C, A = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(CURVATURES, dtype=torch.float64)[:, None]
EVERY = [FedAmp, HeurFedAmp, Mocha]
WORK = LocalWork(4, steps=2)


def parties(centres=CENTRES):
    """Three parties, each with a quadratic of its own."""
    return quadratic_federation(centres, CURVATURES, (4, 4, 4))


def last(rounds):
    *_, end = rounds
    return end


def kept(states):
    """The models that the parties keep, as a stack."""
    return torch.stack([states[k]["w"] for k in sorted(states)])


def random_models(count=6, size=4):
    return torch.randn(count, size, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


def stays(algorithm, w, federation, lr=0.1):
    """Play a round in which everybody has been seen, with these models: where the models are then."""
    one = torch.ones((), dtype=torch.float64)
    states = {k: {"w": row, "trained": one} for k, row in enumerate(w)}
    server = {"w": w, "seen": torch.ones(len(w), dtype=torch.float64)}
    return one_round(algorithm, federation, server, states, work=WORK, lr=lr)["w"]


# --- What they have in common ---


@ENGINES
@pytest.mark.parametrize("cls", EVERY)
def test_without_a_pull_it_is_training_alone(engine, cls):
    _, states = last(rounds_by_hand(cls(lam=0.0), parties(), rounds=3, work=WORK, lr=0.1, engine=engine))
    assert torch.allclose(kept(states), C - (1 - 0.1 * A) ** 6 * C, atol=1e-12)  # three rounds of two steps from 0


@ENGINES
@pytest.mark.parametrize("cls", EVERY)
def test_parties_minimise_their_own_loss_near_their_own_pull(engine, cls):
    algorithm, federation = cls(lam=0.3), parties()
    how = {"work": LocalWork(4, steps=200), "lr": 0.1, "engine": engine}
    (before, _), (after, states) = rounds_by_hand(algorithm, federation, rounds=2, **how)
    sent = [sent_to(algorithm.send(federation.task, before), k) for k in range(3)]
    u, mu = (torch.stack([one[key] for one in sent]) for key in ("u", "mu"))
    expected = (A * C + mu[:, None] * u) / (A + mu[:, None])
    assert torch.allclose(kept(states), expected, atol=1e-8)
    assert torch.equal(after["w"], kept(states))


@pytest.mark.parametrize("cls", EVERY)
def test_only_parties_that_were_seen_are_mixed_and_the_others_get_their_mean(cls):
    algorithm, federation = cls(), parties()
    rounds = rounds_by_hand(
        algorithm, federation, rounds=3, cohort_of=lambda n: [[0], [2], [0]][n - 1], work=WORK, lr=0.1
    )
    (one, _), (two, _), (three, states) = rounds
    assert one["seen"].tolist() == [1, 0, 0]
    assert two["seen"].tolist() == three["seen"].tolist() == [1, 0, 1]
    assert torch.equal(two["w"][0], one["w"][0])  # absent parties' models are remembered
    assert torch.equal(three["w"][2], two["w"][2])
    assert not torch.equal(three["w"][0], two["w"][0])
    known = three["w"][[0, 2]]
    sent = algorithm.send(federation.task, three)
    u, mu = algorithm.pulls(known)
    assert torch.equal(sent["u"].values, torch.stack([u[0], known.mean(dim=0), u[1]]))
    assert torch.equal(sent["mu"].values, torch.stack([mu[0], mu.new_tensor(algorithm.lam), mu[1]]))
    assert sorted(states) == [0, 2]


@pytest.mark.parametrize("name", ["fedamp", "heurfedamp", "mocha"])
def test_newcomers_use_the_mean_of_the_models_that_were_seen(name):
    simulation = play(small_simulation(name, newcomers=0.34), 3)
    state, models = simulation.state, simulation.models(simulation.state)
    seen = state.server["seen"] > 0
    for number in range(6):
        expected = state.parties[number]["w"] if seen[number] else state.server["w"][seen].mean(dim=0)
        assert torch.equal(models.personal(number)[0], expected)
    newcomers = simulation.population.newcomers
    assert len(newcomers) == 2
    assert not seen[list(newcomers)].any()


@pytest.mark.parametrize("name", ["fedamp", "heurfedamp", "mocha"])
def test_each_party_is_sent_its_own_pull_alone(name):
    simulation = small_simulation(name, sample=1.0)
    _, row = simulation.play_round()
    assert row["traffic"]["down"] == {"u": 6 * simulation.task.size * 4, "mu": 6 * 4}


# --- FedAMP ---


def test_fedamps_mixtures_are_means_and_far_groups_do_not_see_each_other():
    w = random_models()
    w[3:] += 100
    xi = FedAmp(share=0.8, sigma=2.0, unit="one").mixture(w)
    assert torch.allclose(xi.sum(dim=1), torch.ones(6, dtype=torch.float64), atol=1e-15)
    assert bool((xi >= 0).all())
    assert torch.equal(xi[:3, 3:], torch.zeros(3, 3, dtype=torch.float64))
    near = 0.8 / 5 * torch.exp(-((w[0] - w[1]) ** 2).sum() / 2)
    assert torch.allclose(xi[0, 1], near, atol=1e-14)
    assert torch.allclose(xi, xi.T)


def test_fedamps_distances_are_in_units_of_their_mean():
    w = random_models()
    gaps = ((w[:, None] - w) ** 2).sum(dim=-1)
    unit = sum(gaps[i, j] for i in range(6) for j in range(i)) / 15
    for moved in (w, 7 * w + 3):
        xi = FedAmp(share=1.0, sigma=0.4).mixture(moved)
        assert torch.allclose(xi[2, 4], torch.exp(-gaps[2, 4] / (0.4 * unit)) / 5, atol=1e-12)
        assert torch.allclose(xi.sum(dim=1), torch.ones(6, dtype=torch.float64), atol=1e-15)


@pytest.mark.parametrize("unit", ["mean", "one"])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_fedamps_own_share_of_equal_models_is_what_others_leave(unit, count):
    """alpha (N-1) / sigma at its limit of 1: a party's own model then counts nothing, never less."""
    w = torch.ones(count, 3, dtype=torch.float64)
    for share in (0.3, 1.0):
        own = FedAmp(share=share, unit=unit).mixture(w).diagonal()
        assert torch.allclose(own, torch.full((count,), 1 - share if count > 1 else 1.0).double(), atol=1e-15)


@pytest.mark.parametrize("unit", ["mean", "one"])
def test_two_parties_of_fedamp_rest_where_loss_and_pull_are_in_balance(unit):
    """a_i (w_i - c_i) + lam xi (w_i - w_j) = 0 with xi = share exp(-gap / sigma): c_i for given w_i."""
    algorithm = FedAmp(lam=0.7, share=0.6, sigma=3.0, unit=unit)
    w, a = torch.tensor([[1.0, 2.0], [0.0, -1.0]], dtype=torch.float64), A[:2]
    gap = 10.0 if unit == "one" else 1.0
    xi = 0.6 * torch.exp(torch.tensor(-gap / 3.0, dtype=torch.float64))
    centres = w + 0.7 * xi * (w - w.flip(0)) / a
    federation = quadratic_federation(centres.tolist(), a[:, 0].tolist(), (4, 4))
    assert torch.allclose(stays(algorithm, w, federation), w, atol=1e-12)
    server, _ = last(rounds_by_hand(algorithm, federation, rounds=120, work=WORK, lr=0.3))
    assert torch.allclose(server["w"], w, atol=1e-9)


# --- HeurFedAMP ---


def test_heurfedamps_mixture_is_a_softmax_of_cosines_beside_ones_own_share():
    w = random_models(4)
    xi = HeurFedAmp(own=0.3, sigma=5.0).mixture(w)
    for i in range(4):
        others = [j for j in range(4) if j != i]
        cosines = torch.stack([w[i].dot(w[j]) / (w[i].norm() * w[j].norm()) for j in others])
        assert torch.allclose(xi[i, others], 0.7 * torch.softmax(5.0 * cosines, dim=0), atol=1e-14)
        assert torch.allclose(xi[i, i], torch.tensor(0.3, dtype=torch.float64), atol=1e-15)


def test_heurfedamp_of_the_only_party_is_its_own_model():
    w = random_models(1)
    assert torch.equal(HeurFedAmp(own=0.1).mixture(w), torch.ones(1, 1, dtype=torch.float64))


def test_heurfedamp_looks_at_directions_and_not_at_lengths():
    w = random_models(4)
    lengths = torch.tensor([[1.0], [2.0], [30.0], [0.1]], dtype=torch.float64)
    assert torch.allclose(HeurFedAmp().mixture(w), HeurFedAmp().mixture(w * lengths), atol=1e-14)


# --- MOCHA ---


def test_mocha_with_a_fixed_relation_reaches_the_optimum():
    """(diag(a) + lam / N Omega) W = diag(a) C, with Omega = N I - 1 1^T."""
    lam, omega = 0.5, 3 * torch.eye(3, dtype=torch.float64) - 1
    expected = torch.linalg.solve(A * torch.eye(3, dtype=torch.float64) + lam / 3 * omega, A * C)
    algorithm = Mocha(lam=lam, relation="mean")
    assert torch.equal(algorithm.omega(C), omega)
    assert torch.allclose(stays(algorithm, expected, parties()), expected, atol=1e-12)
    rounds = rounds_by_hand(algorithm, parties(), rounds=120, work=WORK, lr=0.3)
    assert torch.allclose(last(rounds)[0]["w"], expected, atol=1e-12)


@pytest.mark.parametrize(("count", "size"), [(3, 5), (6, 2)])
def test_mochas_omega_is_the_inverse_of_the_root_of_all_products(count, size):
    w, ridge = random_models(count, size), 0.2
    sigma = torch.linalg.inv(Mocha(ridge=ridge).omega(w))
    assert torch.allclose(sigma.trace(), torch.ones((), dtype=torch.float64), atol=1e-12)
    learnt = (1 + ridge) * sigma - ridge / count * torch.eye(count, dtype=torch.float64)
    left, roots, _ = torch.linalg.svd(w, full_matrices=False)
    assert torch.allclose(learnt, left * roots @ left.T / roots.sum(), atol=1e-10)


def test_mochas_pull_on_parties_that_have_nothing_in_common_is_a_weight_decay():
    w = 3 * torch.eye(4, dtype=torch.float64)
    u, mu = Mocha(lam=0.3).pulls(w)
    assert torch.allclose(u, 0 * w, atol=1e-14)
    assert torch.allclose(mu, torch.full((4,), 0.3, dtype=torch.float64), atol=1e-14)


def test_mochas_parties_are_pulled_by_their_own_row_of_omega():
    """Planted models are at rest where a_t (w_t - c_t) + lam / N sum_j Omega_tj w_j = 0."""
    algorithm, w = Mocha(lam=0.4, ridge=0.5), random_models(3, 2)
    centres = w + 0.4 / 3 * (algorithm.omega(w) @ w) / A
    assert torch.allclose(stays(algorithm, w, parties(centres.tolist())), w, atol=1e-12)


# --- What is refused ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("fedamp(lam=-1)", "FedAmp.lam must be >= 0, got -1.0. 0 is training alone"),
        ("fedamp(share=1.1)", r"FedAmp.share must be in \[0, 1\], got 1.1. It is alpha \(N-1\) / sigma"),
        ("fedamp(sigma=0)", "FedAmp.sigma must be above 0, got 0.0"),
        ("heurfedamp(own=1.5)", r"HeurFedAmp.own must be in \[0, 1\], got 1.5"),
        ("heurfedamp(sigma=-1)", "HeurFedAmp.sigma must be >= 0, got -1.0"),
        ("mocha(lam=-0.1)", "Mocha.lam must be >= 0, got -0.1"),
        ("mocha(ridge=0)", "Mocha.ridge must be above 0, got 0.0"),
    ],
)
def test_values_that_mean_nothing_are_refused(text, message):
    with pytest.raises(UserError, match=message):
        ALGORITHMS.build(text)


def test_more_models_than_a_server_can_keep_are_refused(monkeypatch):
    monkeypatch.setattr(related, "MOST_NUMBERS", 300)
    with pytest.raises(UserError, match=r"at most 300 numbers, got 6 parties x 79 weights. Choose a smaller"):
        small_simulation("mocha")
