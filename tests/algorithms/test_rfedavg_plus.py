import pytest
import torch

from tests.algorithms.regularised import (
    D,
    a_party,
    check_loss,
    deltas_by_hand,
    features_by_hand,
    loss_by_hand,
    random,
    small_task,
    some_rows,
)
from tests.algorithms.test_rfedavg import BOTH, after_a_change
from unalike.algorithms import RFedAvgPlus
from unalike.runs.small import play, small_simulation


@pytest.mark.parametrize(("count", "mine"), [(5.0, 1.0), (3.0, 0.0), (1.0, 0.0), (1.0, 1.0), (0.0, 0.0)])
@pytest.mark.parametrize("padding", [0, 3])
def test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences(count, mine, padding):
    """f_k + lam ||mean phi - delta_{-k}||^2, delta_{-k} the mean over the others; nothing where there are none."""
    task, (batch, x, y) = small_task(), some_rows(padding)
    total, own = random(D, seed=4) * count, random(D, seed=5) * mine
    sent = {"w": task.initial(), "delta_k": total, "count": torch.tensor(count, dtype=torch.float64)}
    state = {"delta_k": own, "count": torch.tensor(mine, dtype=torch.float64)}

    def by_hand(w):
        f = loss_by_hand(task, w, x, y)
        if count == mine:
            return f
        gap = features_by_hand(task, w, x).mean(axis=0) - ((total - own) / (count - mine)).numpy()
        return f + 0.7 * (gap**2).sum()

    w = task.initial() + 0.3 * random(task.size, seed=3)
    check_loss(RFedAvgPlus(lam=0.7), a_party(task, sent, state), w, batch, by_hand)


@BOTH
@pytest.mark.parametrize("most", [5, 1024])
def test_delta_is_the_mean_over_all_rows_under_the_new_global_model(engine, most):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.rounds.local.MEASURE_ROWS", most)
        simulation = play(small_simulation("rfedavg+(lam=0.1)", engine=engine, dtype="float64"), 2)
    state = simulation.state
    for number, delta in deltas_by_hand(
        simulation, dict.fromkeys(simulation.cohort(2), state.server["w"])
    ).items():
        assert torch.allclose(state.parties[number]["delta_k"], delta, rtol=0, atol=1e-12)


@BOTH
def test_the_server_has_the_sum_of_the_last_deltas_of_all_who_were_ever_there(engine):
    simulation, seen = small_simulation("rfedavg+", engine=engine, sample=0.34, dtype="float64"), set()
    for number in range(1, 6):
        before = simulation.state.parties
        play(simulation, 1)
        cohort = set(simulation.cohort(number))
        seen |= cohort
        state = simulation.state
        assert set(state.parties) == seen
        assert torch.allclose(
            state.server["delta_k"], sum(s["delta_k"] for s in state.parties.values()), atol=1e-12
        )
        assert float(state.server["count"]) == len(seen)
        for k in before:
            assert torch.equal(before[k]["delta_k"], state.parties[k]["delta_k"]) == (k not in cohort)


@BOTH
def test_a_partys_own_delta_plays_no_role_and_the_others_do(engine):
    def own(state):
        state.server["delta_k"].add_(50)
        state.parties[3]["delta_k"].add_(50)

    def another(state):
        state.server["delta_k"].add_(50)
        state.parties[4]["delta_k"].add_(50)

    as_it_is, same, other = (
        after_a_change("rfedavg+(lam=0.1)", [3], change, engine) for change in (lambda state: None, own, another)
    )
    assert torch.allclose(as_it_is, same, rtol=0, atol=1e-12)
    assert not torch.allclose(as_it_is, other, atol=1e-3)


@BOTH
def test_the_mean_costs_n_d(engine):
    """Table III: O(d N) down and up; the second exchange sends the model once more."""
    simulation = play(small_simulation("rfedavg+", sample=1.0, engine=engine), 1)
    parties, d, w = simulation.federation.size, 4, simulation.task.size
    _, row = simulation.play_round()
    sums = {"delta_k": parties * d * 4, "count": parties * 4}
    assert row["traffic"] == {"down": {"w": 2 * parties * w * 4, **sums}, "up": {"delta": parties * w * 4, **sums}}
    assert not simulation.algorithm.needs_each


def test_pulls_mean_features_together():
    """What the regulariser is for: the parties' mean features under the global model come nearer."""
    spread = {}
    for lam in (0.0, 1.0):
        fields = {"sample": 1.0, "dtype": "float64", "optimiser": "sgd"}
        simulation = play(small_simulation(f"rfedavg+(lam={lam})", **fields), 8)
        table = torch.stack([state["delta_k"] for state in simulation.state.parties.values()])
        spread[lam] = float(table.var(dim=0).sum())
    assert spread[1.0] < 0.7 * spread[0.0]
