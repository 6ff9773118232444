import numpy as np
import pytest
import torch

from tests.algorithms.regularised import (
    D,
    N,
    a_party,
    check_loss,
    deltas_by_hand,
    features_by_hand,
    gradient,
    loss_by_hand,
    random,
    small_task,
    some_rows,
)
from tests.helpers import recorded
from unalike.algorithms import FedAvg, RFedAvg, RFedAvgPlus
from unalike.engines.vectorised import Vectorised
from unalike.runs.small import play, small_simulation

BOTH = pytest.mark.parametrize("engine", ["sequential", "vectorised"])
KNOWN = pytest.mark.parametrize("known", [[1, 1, 1, 1, 1], [1, 0, 1, 0, 1], [0, 0, 0, 0, 1], [0, 1, 0, 0, 0]])


def received(task, known):
    deltas = 2 * random(N, D, seed=7)
    return {"w": task.initial(), "deltas": deltas, "known": torch.tensor(known, dtype=torch.float64)}


@KNOWN
@pytest.mark.parametrize("padding", [0, 3])
def test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences(known, padding):
    """Section IV-C: f_k + lam / (N-1) sum over the other known j of ||mean phi - delta_j||^2, less a constant."""
    task = small_task()
    sent, (batch, x, y) = received(task, known), some_rows(padding)
    others = [j for j in range(N) if j != 1 and known[j]]
    spread = sent["deltas"][others].var(dim=0, unbiased=False).sum() if others else 0.0

    def by_hand(w):
        mean = features_by_hand(task, w, x).mean(axis=0)
        gaps = [((mean - sent["deltas"][j].numpy()) ** 2).sum() for j in others]
        return loss_by_hand(task, w, x, y) + (0.7 * (np.mean(gaps) - float(spread)) if gaps else 0)

    w = task.initial() + 0.3 * random(task.size, seed=3)
    check_loss(RFedAvg(lam=0.7), a_party(task, sent), w, batch, by_hand)


@KNOWN
def test_has_the_objective_of_rfedavg_plus(known):
    """The remark of section IV-C: the two differ by the spread of the others' deltas, which is left out."""
    task = small_task()
    sent, (batch, _, _) = received(task, known), some_rows()
    w = task.initial() + 0.3 * random(task.size, seed=3)
    value, found = gradient(RFedAvg(lam=0.7), a_party(task, sent), w, batch)
    flags = sent["known"]
    summed = {"w": sent["w"], "delta_k": flags @ sent["deltas"], "count": flags.sum()}
    own = {"delta_k": flags[1] * sent["deltas"][1], "count": flags[1]}
    value_plus, found_plus = gradient(RFedAvgPlus(lam=0.7), a_party(task, summed, own), w, batch)
    assert torch.allclose(found, found_plus, rtol=0, atol=1e-12)
    assert value == pytest.approx(value_plus, abs=1e-10)


@BOTH
@pytest.mark.parametrize("most", [5, 1024])
def test_delta_is_the_mean_over_all_rows_under_the_partys_own_trained_model(engine, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.rounds.local.MEASURE_ROWS", most)
        simulation = play(small_simulation("rfedavg(lam=0.1)", engine=engine, dtype="float64"), 1)
        before, replies = simulation.state, recorded(simulation)
        play(simulation, 1)
    uploads = replies[0].each
    models = {number: before.server["w"] + upload["delta"] for number, upload in uploads.items()}
    found = simulation.state.server
    for number, delta in deltas_by_hand(simulation, models).items():
        assert torch.allclose(found["deltas"][number], delta, rtol=0, atol=1e-12)
        assert not torch.allclose(
            found["deltas"][number], deltas_by_hand(simulation, {number: found["w"]})[number]
        )


def test_in_small_stacks_too():
    states = []
    for engine in (Vectorised(), Vectorised(chunk_bytes=1)):
        simulation = small_simulation("rfedavg(lam=1)", dtype="float64")
        simulation.engine = engine
        states.append(play(simulation, 3).state.server["deltas"])
    assert torch.allclose(*states, rtol=0, atol=1e-12)


@BOTH
def test_absent_parties_keep_their_delta_and_parties_never_seen_do_not_count(engine):
    simulation, seen = small_simulation("rfedavg", engine=engine, sample=0.34), set()
    for number in range(1, 6):
        before = simulation.state.server["deltas"]
        cohort = simulation.cohort(number)
        play(simulation, 1)
        seen |= set(cohort)
        after = simulation.state.server
        assert after["known"].tolist() == [float(k in seen) for k in range(6)]
        for k in range(6):
            assert torch.equal(before[k], after["deltas"][k]) == (k not in cohort)


def after_a_change(text, cohort, change, engine="sequential", rounds=2):
    """The weights after ``rounds`` and one more of ``cohort`` alone, before which ``change`` alters the state."""
    simulation = play(small_simulation(text, dtype="float64", sample=1.0, engine=engine), rounds)
    change(simulation.state)
    simulation.cohort = lambda number: cohort
    return play(simulation, 1).state.server["w"]


@BOTH
def test_a_partys_own_delta_plays_no_role_and_the_others_do(engine):
    def own(state):
        state.server["deltas"][3] += 50

    def another(state):
        state.server["deltas"][4] += 50

    as_it_is, same, other = (
        after_a_change("rfedavg(lam=0.1)", [3], change, engine) for change in (lambda state: None, own, another)
    )
    assert torch.equal(as_it_is, same)
    assert not torch.allclose(as_it_is, other, atol=1e-3)


@BOTH
@pytest.mark.parametrize("name", ["rfedavg", "rfedavg+"])
def test_the_first_round_has_no_regulariser_and_lam_zero_never_has(engine, name):
    fields = {"engine": engine, "dtype": "float64"}
    plain = small_simulation("fedavg", **fields)
    strong, without = (small_simulation(f"{name}(lam={lam})", **fields) for lam in (1.0, 0))
    for number in range(1, 4):
        w, pulled, free = (play(s, 1).state.server["w"] for s in (plain, strong, without))
        assert torch.allclose(w, free, rtol=0, atol=1e-12)
        assert torch.allclose(w, pulled, rtol=0, atol=1e-12) == (number == 1)


def noises(name, noise):
    """What noise added to the deltas, [rounds, parties, d]: with lam = 0 the models do not notice."""
    found = []
    for level in (noise, 0):
        fields = {"sample": 1.0, "model": "mlp(6,64)", "dtype": "float64", "epochs": 1}
        simulation = small_simulation(f"{name}(lam=0, noise={level})", **fields)
        found.append([])
        for _ in range(2):
            server, parties = play(simulation, 1).state.server, simulation.state.parties
            table = (
                server["deltas"] if name == "rfedavg" else torch.stack([s["delta_k"] for s in parties.values()])
            )
            found[-1].append(table)
    return torch.stack(found[0]) - torch.stack(found[1])


@pytest.mark.parametrize("name", ["rfedavg", "rfedavg+"])
def test_noise_has_its_standard_deviation_and_is_fresh_for_each_round_and_party(name):
    drawn = noises(name, 2.5) / 2.5
    assert torch.allclose(noises(name, 0.1) / 0.1, drawn, rtol=0, atol=1e-10)  # added to delta, and in proportion
    count = drawn.numel()
    assert abs(float(drawn.mean())) < 5 / count**0.5
    assert abs(float(drawn.std()) - 1) < 5 / (2 * count) ** 0.5
    alike = torch.corrcoef(drawn.reshape(12, -1)) - torch.eye(12, dtype=torch.float64)
    assert alike.abs().max() < 0.6  # 64 numbers each: five standard deviations


@BOTH
def test_the_table_costs_n_squared_d(engine):
    """Table III: O(d N^2) down and O(d N) up."""
    simulation = play(small_simulation("rfedavg", sample=1.0, engine=engine), 1)
    parties, d, w = simulation.federation.size, 4, simulation.task.size
    _, row = simulation.play_round()
    assert row["traffic"]["down"] == {
        "w": parties * w * 4,
        "deltas": parties * parties * d * 4,
        "known": parties * parties * 4,
    }
    assert row["traffic"]["up"] == {"delta": parties * w * 4, "delta_k": parties * d * 4}
    assert simulation.algorithm.needs_each
    assert not FedAvg.needs_each
