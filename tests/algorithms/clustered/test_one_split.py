"""FL+HC and k-means on local models: one split, planted groups found, and the limits that must be FedAvg."""

import math

import numpy as np
import pytest
import torch

from tests.helpers import ENGINES, optimum, quadratic_federation, rounds_by_hand
from unalike.algorithms import FedAvg, FlHc, KMeansModels
from unalike.algorithms.clustered.grouping import agglomerate, k_means, trimmed_mean
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

HOW = {"work": LocalWork(16, steps=1), "lr": 0.4}
SIZES, CURVATURES = [2, 3, 4, 5, 6, 7, 8], [1.0, 2.0, 0.5, 1.5, 1.0, 0.8, 2.0]
CENTRES = [[5.0, 1.0], [-4.0, 3.0], [5.1, 1.0], [-4.0, 3.1], [1.0, -6.0], [5.0, 0.9], [1.1, -6.0]]
GROUPS = [[0, 2, 5], [1, 3], [4, 6]]


def parties():
    """Seven parties in three groups."""
    return quadratic_federation(CENTRES, CURVATURES, SIZES)


def last(rounds):
    """What the last of some rounds gives."""
    *_, (server, _) = rounds
    return server


def groups_of(server):
    """The groups of parties, by node."""
    group = server["group"].tolist()
    return [[k for k, one in enumerate(group) if one == node] for node in sorted(set(group))]


def best(members):
    """The optimum of a group's objective."""
    return optimum(*([values[k] for k in members] for values in (CENTRES, CURVATURES, SIZES)))


# --- FL+HC ---


@ENGINES
@pytest.mark.parametrize("linkage", ["single", "complete", "average"])
def test_planted_groups_are_found_after_the_joint_rounds(engine, linkage):
    algorithm = FlHc(rounds=8, threshold=0.5, linkage=linkage)
    servers = [server for server, _ in rounds_by_hand(algorithm, parties(), rounds=60, engine=engine, **HOW)]
    joint = [server["w"] for server, _ in rounds_by_hand(FedAvg(), parties(), rounds=8, engine=engine, **HOW)]
    for number in range(8):
        assert torch.equal(servers[number]["w"][0], joint[number])
        assert groups_of(servers[number]) == [list(range(7))]
    assert groups_of(servers[8]) == groups_of(servers[-1]) == GROUPS
    assert torch.equal(servers[-1]["w"][0], joint[-1])  # the root keeps the joint model
    for node, members in enumerate(GROUPS, start=1):
        assert torch.allclose(servers[-1]["w"][node], best(members), atol=1e-8)


def test_an_infinite_threshold_is_fedavg():
    server = last(rounds_by_hand(FlHc(rounds=2, threshold=math.inf), parties(), rounds=6, **HOW))
    average = last(rounds_by_hand(FedAvg(), parties(), rounds=6, **HOW))
    assert groups_of(server) == [list(range(7))]
    assert torch.equal(server["w"][1], average["w"])


def test_a_threshold_of_zero_leaves_everyone_alone():
    server = last(rounds_by_hand(FlHc(rounds=2, threshold=0.0, metric="l2"), parties(), rounds=60, **HOW))
    assert groups_of(server) == [[k] for k in range(7)]
    assert torch.allclose(server["w"][1:8], torch.tensor(CENTRES, dtype=torch.float64), atol=1e-5)


def test_the_joint_model_waits_until_everybody_has_trained_from_it():
    def halves(number):
        return range(4) if number % 2 else range(4, 7)

    rounds = rounds_by_hand(FlHc(rounds=4, threshold=0.5), parties(), rounds=10, cohort_of=halves, **HOW)
    servers = [server for server, _ in rounds]
    assert torch.equal(servers[4]["w"][0], servers[3]["w"][0])  # round 5 only collects
    assert groups_of(servers[4]) == [list(range(7))]
    assert groups_of(servers[5]) == GROUPS
    own = torch.tensor(CURVATURES, dtype=torch.float64)[:, None] * 0.4
    updates = own * (torch.tensor(CENTRES, dtype=torch.float64) - servers[3]["w"][0])
    size = torch.tensor(SIZES, dtype=torch.float64)[:, None]
    for node, members in enumerate(GROUPS, start=1):  # all of them count, also those of round 5
        mean = (size[members] * updates[members]).sum(dim=0) / size[members].sum()
        assert torch.allclose(servers[5]["w"][node], servers[3]["w"][0] + mean, atol=1e-12)


def test_clusters_are_merged_by_the_metric_and_the_linkage():
    line = torch.tensor([[0.0, 0.0], [1.0, 1.0], [2.0, 2.0], [10.0, 10.0]], dtype=torch.float64)
    assert agglomerate(line, "l1", "single", 2.0) == [[0, 1, 2], [3]]  # L1 has gaps of 2, L2 of 1.41
    assert agglomerate(line, "l1", "single", 1.9) == [[0], [1], [2], [3]]
    assert agglomerate(line, "l2", "single", 1.9) == [[0, 1, 2], [3]]
    assert agglomerate(line, "l2", "complete", 1.9) == [[0, 1], [2], [3]]
    assert agglomerate(line, "l2", "average", 2.2) == [[0, 1, 2], [3]]
    assert agglomerate(line[1:], "cosine", "average", 1e-9) == [[0, 1, 2]]  # one direction
    assert agglomerate(line[:1], "l2", "ward", 1.0) == [[0]]
    zero = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.9, 0.1]], dtype=torch.float64)
    assert agglomerate(zero, "cosine", "average", 0.5) == [[0], [1, 2]]


# --- k-means on local models ---


def before_rounds(algorithm, federation):
    """The server's state after ``prepare``, with long local training by hand."""
    task = federation.task
    server = algorithm.init_server(task, torch.zeros(2, dtype=torch.float64))
    script = algorithm.prepare(task, server)
    assert next(script).kind == "train"
    own = torch.tensor(CENTRES, dtype=torch.float64)
    uploads = {k: {"delta": own[k], "size": torch.tensor(float(SIZES[k]))} for k in range(7)}

    class All:
        each, population = uploads, 7

    with pytest.raises(StopIteration) as end:
        script.send(All)
    return server, end.value.value


@pytest.mark.parametrize("trim", [0.0, 0.2])
def test_models_are_grouped_before_round_one(trim):
    before, server = before_rounds(KMeansModels(k=3, trim=trim), parties())
    assert groups_of(before) == [list(range(7))]
    assert groups_of(server) == GROUPS
    own, size = torch.tensor(CENTRES, dtype=torch.float64), torch.tensor(SIZES, dtype=torch.float64)[:, None]
    for node, members in enumerate(GROUPS, start=1):
        mean = (size * own)[members].sum(dim=0) / size[members].sum()
        expected = trimmed_mean(own[members], trim) if trim else mean
        assert torch.allclose(server["w"][node], expected)
    everybody = trimmed_mean(own, trim) if trim else (size * own).sum(dim=0) / size.sum()
    assert torch.allclose(server["w"][0], everybody)


def test_each_group_then_trains_to_its_optimum():
    algorithm, federation = KMeansModels(k=3), parties()
    _, server = before_rounds(algorithm, federation)
    object.__setattr__(algorithm, "init_server", lambda task, w: server)
    server = last(rounds_by_hand(algorithm, federation, rounds=60, **HOW))
    assert groups_of(server) == GROUPS
    for node, members in enumerate(GROUPS, start=1):
        assert torch.allclose(server["w"][node], best(members), atol=1e-8)


def test_everybody_trains_long_before_round_one():
    """The root is the mean of local models that trained for so many epochs: one round of FedAvg with as many."""
    how = {"sample": 1.0, "optimiser": "sgd", "batch_size": 64, "dtype": "float64"}
    one = play(small_simulation("kmeans-models(k=1, epochs=3)", **how), 1)
    assert set(one.state.server["group"].tolist()) == {1}
    phases = one.algorithm.phases
    assert [phase.epochs for phase in phases(one.task, 0)] == [3]
    assert [phase.epochs for phase in phases(one.task, 1)] == [None]
    average = play(small_simulation("fedavg", **how, epochs=3), 1)
    assert torch.allclose(one.state.server["w"][0], average.state.server["w"], atol=1e-12)


def test_k_means_is_as_good_as_that_of_scikit_learn():
    from sklearn.cluster import KMeans

    points = np.random.default_rng(1).normal(size=(40, 2))
    found = k_means(torch.from_numpy(points), 3, 0.0, torch.Generator().manual_seed(0))
    squares = sum(((points[group] - points[group].mean(axis=0)) ** 2).sum() for group in found)
    assert squares <= KMeans(3, n_init=20, random_state=0).fit(points).inertia_ * (1 + 1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_k_means_finds_blobs(seed):
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(4), [3, 5, 8, 4]))
    points = torch.from_numpy(20 * rng.normal(size=(4, 6))[labels] + rng.normal(size=(20, 6)))
    found = k_means(points, 4, 0.0, torch.Generator().manual_seed(seed))
    assert sorted(found) == sorted(np.flatnonzero(labels == one).tolist() for one in range(4))


def test_trimmed_means_bear_a_liar():
    points = torch.tensor([[0.0], [1.0], [2.0], [3.0], [1e9]], dtype=torch.float64)
    assert float(trimmed_mean(points, 0.2)) == 2.0
    assert float(trimmed_mean(points, 0.0)) > 1e8
    rng = np.random.default_rng(0)
    honest = np.concatenate([rng.normal(size=(8, 3)) - 20, rng.normal(size=(8, 3)) + 20])
    liars = torch.from_numpy(np.concatenate([honest, [[500.0, 0, 0], [0, -700.0, 0]]]))
    found = k_means(liars, 2, 0.15, torch.Generator().manual_seed(0))
    assert any(set(range(8)) <= set(group) and not set(range(8, 16)) & set(group) for group in found)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("fl+hc(rounds=-1)", r"FlHc.rounds must be >= 0, got -1. Use 10."),
        ("fl+hc(threshold=-1)", r"FlHc.threshold must be >= 0, got -1.0"),
        ("fl+hc(linkage=ward)", r"FlHc's ward linkage is for metric l2, got cosine. Use linkage=average."),
        ("kmeans-models(k=0)", r"KMeansModels.k must be at least 1, got 0"),
        ("kmeans-models(epochs=0)", r"KMeansModels.epochs must be at least 1, got 0"),
        ("kmeans-models(trim=0.5)", r"KMeansModels.trim must be at least 0 and below 0.5, got 0.5"),
    ],
)
def test_bad_values_are_refused(text, problem):
    with pytest.raises(UserError, match=problem):
        small_simulation(text)


def test_more_groups_than_parties_are_refused():
    with pytest.raises(UserError, match=r"KMeansModels.k is 9, but there are 6 parties. Lower k."):
        small_simulation("kmeans-models(k=9)")
