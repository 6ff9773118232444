"""CFL finds planted groups, keeps the tree, and splits when it should and in the best two parts."""

from itertools import combinations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import ENGINES, optimum, quadratic_federation, rounds_by_hand
from unalike.algorithms import Cfl, FedAvg
from unalike.algorithms.clustered.splits import bipartition
from unalike.errors import UserError
from unalike.rounds.work import LocalWork
from unalike.runs.small import play, small_simulation

HOW = {"work": LocalWork(16, steps=1), "lr": 0.4}
SIZES = [2, 3, 4, 5, 6, 7, 8, 9, 3, 4, 5, 6]
CURVATURES = [1.0, 2.0, 0.5, 1.5, 1.0, 0.8, 2.0, 0.6, 1.2, 0.9, 1.1, 1.3]
THREE = [[7.0, 0.0, 5.0], [2.0, 4.0, 4.0], [0.0, -4.0, 4.5]]
FOUR = [[6.0, 4.0, 0.0], [6.0, -4.0, 0.0], [-6.0, 0.0, 4.0], [-6.0, 0.0, -4.0]]
"""Two pairs far apart: the first split parts the pairs, later ones part each pair."""


def planted(centres, parties, jitter=0.0):
    """Party k is of group k modulo their number; groups differ in their centre, parties in rows and curvature."""
    rng = np.random.default_rng(0)
    own = [np.array(centres[k % len(centres)]) + jitter * rng.normal(size=3) for k in range(parties)]
    return quadratic_federation(own, CURVATURES[:parties], SIZES[:parties]), own


class Said:
    """Replies to a round."""

    def __init__(self, each, population):
        self.each, self.population = each, population


def played(algorithm, federation, own, rounds, cohort_of=None):
    """The server after each round; a party's update is one step of 0.4 down its quadratic."""
    task, parties = federation.task, len(own)
    centres = torch.tensor(np.array(own))
    rates = 0.4 * torch.tensor(CURVATURES[:parties], dtype=torch.float64)[:, None]
    server = algorithm.init_server(task, torch.zeros(3, dtype=torch.float64))
    for number in range(1, rounds + 1):
        sent = algorithm.send(task, server)["w"]
        updates = rates * (centres - torch.stack([sent.of(k) for k in range(parties)]))
        cohort = range(parties) if cohort_of is None else cohort_of(number)
        each = {k: {"delta": updates[k], "size": torch.tensor(float(SIZES[k])).double()} for k in cohort}
        server = algorithm.fold(task, server, Said(each, parties))
        yield server


def last(rounds):
    """What the last of some rounds gives."""
    *_, end = rounds
    return end[0] if isinstance(end, tuple) else end


def leaves(server):
    """The groups of parties, by leaf."""
    group = server["group"].tolist()
    return {node: [k for k, one in enumerate(group) if one == node] for node in sorted(set(group))}


@ENGINES
@pytest.mark.parametrize(("centres", "parties"), [(THREE, 9), (FOUR, 12)], ids=["three", "four"])
def test_planted_groups_are_found_and_each_model_is_at_its_groups_optimum(engine, centres, parties):
    federation, own = planted(centres, parties, jitter=0.02)
    server = last(rounds_by_hand(Cfl(), federation, rounds=100, engine=engine, **HOW))
    count = len(centres)
    found = leaves(server)
    assert sorted(found.values()) == [list(range(one, parties, count)) for one in range(count)]
    assert int((server["born"] >= 0).sum()) == 2 * count - 1
    for node, members in found.items():
        best = optimum(*([values[k] for k in members] for values in (own, CURVATURES, SIZES)))
        assert torch.allclose(server["w"][node], best, atol=1e-8)


def test_party_numbers_are_right_after_the_second_split():
    server = last(played(Cfl(), *planted(FOUR, 12), 40))
    parent, born, found = server["parent"].tolist(), server["born"].tolist(), leaves(server)
    assert parent[:7] == [-1, 0, 0, 1, 1, 2, 2]
    assert 0 < born[1] == born[2] < born[3] == born[4]
    assert found == {3: [0, 4, 8], 4: [1, 5, 9], 5: [2, 6, 10], 6: [3, 7, 11]}


def test_inner_nodes_keep_the_model_that_they_had():
    """Until the first split the root is FedAvg's model; then it stays, and the parts go on by their own means."""
    federation, own = planted(THREE, 9)
    servers = list(played(Cfl(), federation, own, 20))
    split = int(servers[-1]["born"][1])
    assert 2 < split < 20
    average = [server["w"] for server, _ in rounds_by_hand(FedAvg(), federation, rounds=split - 1, **HOW)]
    for number in range(1, split):
        assert torch.allclose(servers[number - 1]["w"][0], average[number - 1], atol=1e-12)
    root = servers[split - 2]["w"][0]
    assert torch.equal(servers[-1]["w"][0], root)
    at = servers[split - 1]
    for node in (1, 2):
        members = [k for k in range(9) if int(at["group"][k]) == node]
        size = torch.tensor([float(SIZES[k]) for k in members], dtype=torch.float64)
        mean = (size[:, None] * at["update"][members]).sum(dim=0) / size.sum()
        assert torch.allclose(at["w"][node], root + mean, atol=1e-12)
        unit = at["update"][members] / at["update"][members].norm(dim=1, keepdim=True)
        assert torch.allclose(at["direction"][node], unit.mean(dim=0), atol=1e-12)


@pytest.mark.parametrize(("eps1", "eps2"), [(0.3, 0.4), (0.05, 0.4), (0.3, 50.0)])
def test_a_group_splits_in_the_first_round_in_which_the_criterion_holds(eps1, eps2):
    """With norms as thresholds: ||sum n_k/n dW_k|| < eps1 and max ||dW_k|| > eps2, on FedAvg's path."""
    federation, own = planted(THREE, 9)
    share = torch.tensor(SIZES[:9], dtype=torch.float64) / sum(SIZES[:9])
    centres, curvatures = torch.tensor(np.array(own)), torch.tensor(CURVATURES[:9], dtype=torch.float64)
    w, expected = torch.zeros(3, dtype=torch.float64), -1
    for number in range(1, 81):
        updates = 0.4 * curvatures[:, None] * (centres - w)
        mean = share @ updates
        if mean.norm() < eps1 and updates.norm(dim=1).max() > eps2:
            expected = number
            break
        w = w + mean
    algorithm = Cfl(eps1, eps2, most=3, relative=False)
    assert int(last(played(algorithm, federation, own, 80))["born"][1]) == expected
    assert (expected > 0) == (eps2 < 50)


def test_relative_thresholds_do_not_depend_on_the_scale():
    found = []
    for scale in (1e-3, 1.0, 1e3):
        server = last(played(Cfl(), *planted([[scale * value for value in centre] for centre in THREE], 9), 30))
        found.append((leaves(server), server["born"].tolist()))
    assert found[0] == found[1] == found[2]
    assert len(found[0][0]) == 3


@pytest.mark.parametrize("jitter", [0.0, 0.1])
def test_one_distribution_never_splits(jitter):
    server = last(played(Cfl(), *planted([[4.0, 0.0, 1.0]], 9, jitter), 60))
    assert leaves(server) == {0: list(range(9))}


def test_parts_that_agree_stay_together():
    """Two groups that pull to the same side of a third: what is across may not be more similar than asked for."""
    strict = last(played(Cfl(across=-0.99), *planted(THREE, 9), 40))
    assert len(leaves(strict)) < 3
    assert len(leaves(last(played(Cfl(across=1.0), *planted(THREE, 9), 40)))) == 3


def test_a_full_tree_is_not_split():
    for most, groups in ((1, 1), (2, 1), (3, 2), (4, 2), (5, 3)):
        server = last(played(Cfl(most=most), *planted(THREE, 9), 40))
        assert len(leaves(server)) == groups


@pytest.mark.parametrize("engine", ["sequential", "vectorised"])
def test_without_splits_it_is_fedavg_to_the_bit(engine):
    one = play(small_simulation("cfl(most=1)", engine=engine), 3)
    assert torch.equal(
        one.state.server["w"][0], play(small_simulation("fedavg", engine=engine), 3).state.server["w"]
    )


@settings(deadline=None, max_examples=60)
@given(count=st.integers(2, 7), seed=st.integers(0, 2**32 - 1))
def test_the_two_parts_are_the_best_of_all(count, seed):
    """Single linkage is as good as the best of all bipartitions: the largest similarity across is the least."""
    updates = torch.from_numpy(np.random.default_rng(seed).normal(size=(count, 3)))
    unit = updates / updates.norm(dim=1, keepdim=True)
    similar, everybody = unit @ unit.T, set(range(count))
    parts = [part for size in range(1, count) for part in combinations(range(count), size)]
    least = min(float(similar[list(part)][:, sorted(everybody - set(part))].max()) for part in parts)
    one, other, across = bipartition(updates)
    assert sorted(one + other) == sorted(everybody)
    assert across == pytest.approx(least, abs=1e-12)
    assert float(similar[one][:, other].max()) == pytest.approx(least, abs=1e-12)


def test_bipartition_of_a_chain():
    """Neighbours are alike, the ends are not: complete linkage cuts the chain, single linkage the stray one."""
    degrees = [0.0, 20.0, 40.0, 60.0, 80.0, 110.0]
    updates = torch.stack([torch.tensor([np.cos(a), np.sin(a)]) * (1 + a) for a in np.radians(degrees)])
    one, other, across = bipartition(updates)
    assert (one, other) == ([0, 1, 2, 3, 4], [5])
    assert across == pytest.approx(np.cos(np.radians(30)))


def test_updates_of_nothing_and_ties_are_no_trouble():
    assert bipartition(torch.zeros(4, 3, dtype=torch.float64))[2] == 0
    alike = torch.ones(5, 3, dtype=torch.float64)
    one, other, across = bipartition(alike)
    assert sorted(one + other) == list(range(5))
    assert across == pytest.approx(1)


def test_absent_parties_are_waited_for():
    """Each round has two of every three parties; the criterion needs an update of every member since its birth."""

    def two_thirds(number):
        return [k for k in range(9) if (k // 3 + number) % 3]

    def not_the_last(number):
        return range(8)

    server = last(played(Cfl(), *planted(THREE, 9), 60, two_thirds))
    assert sorted(leaves(server).values()) == [[0, 3, 6], [1, 4, 7], [2, 5, 8]]
    born, latest = [], {}
    for number, server in enumerate(
        played(Cfl(across=1, eps1=9.0, eps2=0), *planted(THREE, 9), 12, two_thirds), 1
    ):
        for node, since in enumerate(server["born"].tolist()):
            if since == number:  # every member of what was split was heard after that one's birth
                parent = int(server["parent"][node])
                members = [k for k, one in enumerate(server["group"].tolist()) if one == node]
                assert all(
                    latest.get(k, 0) > int(server["born"][parent]) or k in two_thirds(number) for k in members
                )
                born.append(since)
        latest |= dict.fromkeys(two_thirds(number), number)
    assert len(born) > 3
    *_, server = servers = list(played(Cfl(), *planted(THREE, 9), 60, not_the_last))
    assert leaves(server) == {0: list(range(9))}  # one party was never heard
    assert not torch.equal(servers[0]["w"][0], servers[1]["w"][0])


def test_only_the_model_of_ones_own_group_is_sent():
    simulation = small_simulation("cfl(eps1=10, eps2=0, across=1)", sample=1.0)
    _, row = play(simulation, 2).play_round()
    assert row["traffic"]["down"] == {"w": 6 * simulation.task.size * 4}
    server = simulation.state.server
    assert len(leaves(server)) > 1
    models = simulation.models(simulation.state)
    for number in range(6):
        assert torch.equal(models.personal(number)[0], server["w"][int(server["group"][number])])


def test_newcomers_stay_at_the_root():
    simulation = play(small_simulation("cfl(eps1=10, eps2=0, across=1)", sample=1.0, newcomers=0.34), 3)
    server, away = simulation.state.server, set(simulation.population.newcomers)
    assert len(away) == 2
    assert int(server["born"][1]) == 1  # nobody waits for them
    for number in range(6):
        assert (int(server["group"][number]) == 0) == (number in away)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cfl(eps1=-1)", r"Cfl.eps1 must be >= 0, got -1.0. Leave it out for the default."),
        ("cfl(eps2=-0.1)", r"Cfl.eps2 must be >= 0"),
        ("cfl(eps2=1.6)", r"Cfl.eps2 must be at most 1, got 1.6.*Use relative=False for a norm"),
        ("cfl(most=0)", r"Cfl.most must be at least 1, got 0. Use 1 for FedAvg"),
        ("cfl(across=2)", r"Cfl.across must be from -1 to 1, a cosine, got 2.0"),
    ],
)
def test_bad_values_are_refused(text, problem):
    with pytest.raises(UserError, match=problem):
        small_simulation(text)


def test_channels_that_hide_single_uploads_are_refused():
    with pytest.raises(UserError, match="needs to see single uploads"):
        small_simulation("cfl", channel="masked", sample=1.0)


def test_a_tree_has_room_for_no_more_nodes_than_its_parties_can_make():
    nodes = small_simulation("cfl(most=1000000000)").state.server["w"].shape[0]
    assert nodes == 2 * 6 - 1
