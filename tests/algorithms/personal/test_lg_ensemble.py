"""LG-FedAvg's rule for a new device: the mean of what all local models predict, and what that takes."""

import math

import pytest
import torch

from tests.helpers import LayerNormBody
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.judging import outputs_of
from unalike.runs.small import play, small_simulation

assert LayerNormBody  # the nets of the helpers are registered
EXACT = {"dtype": "float64", "newcomers": 0.34, "sample": 0.5, "public": 0}


def played(text="lg-fedavg-ensemble", rounds=2, **fields):
    return play(small_simulation(text, **(EXACT | fields)), rounds)


def by_hand(task, w, x):
    """Probabilities of mlp(6,4) on rows of five numbers, with plain matrices."""
    ends = [0]
    for rows, columns in ((6, 5), (4, 6), (3, 4)):
        matrix = w[ends[-1] : ends[-1] + rows * columns].reshape(rows, columns)
        ends.append(ends[-1] + rows * columns + rows)
        x = x @ matrix.T + w[ends[-1] - rows : ends[-1]]
        x = x.clamp(min=0) if rows > 3 else x
    powers = (x - x.max(dim=1, keepdim=True).values).exp()
    return powers / powers.sum(dim=1, keepdim=True)


@pytest.mark.parametrize("text", ["lg-fedavg-ensemble", "lg-fedavg-ensemble(1)"])
def test_a_newcomers_prediction_is_the_mean_of_all_local_models(text):
    simulation = played(text)
    state, task, (x, y) = simulation.state, simulation.task, simulation.federation.train.take(torch.arange(30))
    newcomer = simulation.federation.population.newcomers[0]
    w, buffers = simulation.models(state).personal(newcomer)
    nets = [torch.cat([own["own"], state.server["w"]]) for _, own in sorted(state.parties.items())]
    assert 1 < len(nets) < 4, "some were asked, some not yet"
    expected = sum(by_hand(task, net, x) for net in nets) / len(nets)
    made = outputs_of(task, w, Batch(x, y, buffers=buffers)).softmax(dim=1)
    assert torch.allclose(made, expected, atol=1e-12)


def test_the_figures_of_newcomers_are_those_of_the_ensemble():
    """Beside parties that use single nets, in one block with them and apart from them."""
    simulation = played(held_out=0.3)
    row, data = simulation.evaluate(simulation.state), simulation.federation
    accuracies = []
    for newcomer in data.population.newcomers:
        x, y = data.train.take(torch.from_numpy(data.parties[newcomer].held_out))
        nets = simulation.models(simulation.state).personal(newcomer)[0]
        said = sum(by_hand(simulation.task, net, x) for net in nets)
        accuracies.append(float((said.argmax(dim=1) == y).double().mean()))
    assert row["newcomers"]["mean"] == pytest.approx(sum(accuracies) / len(accuracies))


def test_few_ensembles_at_a_time_are_in_memory(monkeypatch):
    rows = []
    for most in (2**21, 79):
        monkeypatch.setattr("unalike.rounds.together.MOST_WEIGHTS", most)
        simulation = played(held_out=0.3)
        rows.append(simulation.evaluate(simulation.state))
    for key in ("personal", "newcomers"):
        assert rows[0][key] == pytest.approx(rows[1][key])


def test_those_who_were_asked_use_their_own_and_train_as_in_lg_fedavg():
    ensemble, plain = played(), played("lg-fedavg")
    assert torch.equal(ensemble.state.server["w"], plain.state.server["w"])
    assert ensemble.state.parties.keys() == plain.state.parties.keys()
    for number, kept in plain.state.parties.items():
        assert torch.equal(ensemble.state.parties[number]["own"], kept["own"])
        expected = plain.models(plain.state).personal(number)[0]
        assert torch.equal(ensemble.models(ensemble.state).personal(number)[0], expected)
        assert torch.equal(ensemble.state.server["lent"][number], kept["own"])


def test_before_anybody_was_asked_the_model_is_the_initial_one():
    simulation = small_simulation("lg-fedavg-ensemble", **EXACT)
    w, _ = simulation.models(simulation.state).personal(0)
    assert torch.equal(w, simulation.initial)


def test_a_party_sends_its_whole_net_and_gets_the_shared_layers_alone():
    simulation = small_simulation("lg-fedavg-ensemble")
    _, row = simulation.play_round()
    cohort, head = row["cohort"], 4 * 3 + 3
    body = simulation.task.size - head
    assert row["traffic"] == {
        "up": {"delta": cohort * head * 4, "own": cohort * body * 4},
        "down": {"w": cohort * head * 4},
    }


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"channel": "masked", "sample": 1.0}, "needs to see single uploads"),
        ({"channel": "clip(1.0)+gauss(0.1)"}, "needs to see single uploads"),
        ({"channel": "encrypted", "sample": 1.0}, "needs to see single uploads"),
        ({"model": "test-norm-body", "batch_size": 64}, "running statistics, which stay at home"),
        ({"options": "(adapt_epochs=2)"}, "nobody adapts, got adapt_epochs=2"),
        ({"options": "(adapt_all=true)"}, "nobody adapts"),
        ({"fine_tune": 1}, "An ensemble is several nets"),
    ],
)
def test_what_cannot_be_is_refused(fields, message):
    options = fields.get("options", "")
    with pytest.raises(UserError, match=message):
        played(f"lg-fedavg-ensemble{options}", 1, **{key: v for key, v in fields.items() if key != "options"})


def test_more_numbers_than_a_server_should_keep_are_refused(monkeypatch):
    own = 5 * 6 + 6 + 6 * 4 + 4
    monkeypatch.setattr("unalike.algorithms.personal.lg_ensemble.MOST_NUMBERS", 6 * own)
    assert math.isfinite(played(rounds=1).state.server["lent"].sum())
    monkeypatch.setattr("unalike.algorithms.personal.lg_ensemble.MOST_NUMBERS", 6 * own - 1)
    with pytest.raises(UserError, match=r"keeps all own layers at the server.*6 parties x 64"):
        played(rounds=1)
