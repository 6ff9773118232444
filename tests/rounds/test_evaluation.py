import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.nn import functional

from unalike.errors import UserError
from unalike.models import Batch
from unalike.rounds.evaluation import Models, evaluate, summary
from unalike.runs.outcome import outcome
from unalike.runs.small import play, small_simulation
from unalike.scores import SCORES


def accuracy_by_hand(simulation, w, x, y):
    layers = simulation.task.parameters.unflatten(w)
    hidden = (torch.from_numpy(x).to(w) - 0) / 1
    for i in (0, 2):
        hidden = torch.relu(hidden @ layers[f"body.{i}.weight"].T + layers[f"body.{i}.bias"])
    logits = hidden @ layers["head.weight"].T + layers["head.bias"]
    target = torch.from_numpy(y)
    return functional.cross_entropy(logits, target).item(), (logits.argmax(1) == target).double().mean().item()


def test_every_figure_by_hand():
    simulation = play(small_simulation("fedavg", validation=0.2), 3)
    w, data = simulation.state.server["w"], simulation.federation.dataset
    figures = evaluate(simulation.federation, simulation.models(simulation.state))
    loss, accuracy = accuracy_by_hand(simulation, w, data.x_test, data.y_test)
    assert figures["loss"] == pytest.approx(loss, rel=1e-5)
    assert figures["accuracy"] == pytest.approx(accuracy)
    parties = simulation.federation.parties
    rows = np.concatenate([party.validation for party in parties])
    loss, accuracy = accuracy_by_hand(simulation, w, data.x[rows], data.y[rows])
    assert figures["validation_loss"] == pytest.approx(loss, rel=1e-5)
    assert figures["validation_accuracy"] == pytest.approx(accuracy)
    each = [
        accuracy_by_hand(simulation, w, data.x[p.held_out], data.y[p.held_out])[1] if len(p.held_out) else None
        for p in parties
    ]
    assert figures["parties"]["each"] == pytest.approx(each)
    assert figures["parties"]["worst"] == pytest.approx(min(e for e in each if e is not None))
    assert "personal" not in figures


def test_the_three_sets_are_disjoint_and_not_trained_on():
    simulation = small_simulation("fedavg", validation=0.2)
    for party, rows in zip(simulation.federation.parties, simulation.federation.partition.rows, strict=True):
        parts = [party.train, party.validation, party.held_out]
        assert sorted(np.concatenate(parts)) == sorted(rows)
        assert len(party.train)


def test_training_never_reads_other_rows():
    """Poison every row that must not be trained on: the weights stay the same."""
    clean = small_simulation("fedavg", validation=0.2)
    poisoned = small_simulation("fedavg", validation=0.2)
    forbidden = np.concatenate([np.r_[p.validation, p.held_out] for p in poisoned.federation.parties])
    poisoned.federation.train._x[torch.from_numpy(forbidden)] = 1e3
    poisoned.federation.train.y[torch.from_numpy(forbidden)] = 0
    assert torch.equal(play(clean, 3).state.server["w"], play(poisoned, 3).state.server["w"])


def test_personal_models_are_each_partys_own():
    simulation = play(small_simulation("fedavg"), 1)
    zero, w = torch.zeros_like(simulation.initial), simulation.state.server["w"]
    models = Models(
        w, lambda number: (w if number == 5 else zero, simulation.state.buffers), simulation.state.buffers
    )
    figures = evaluate(simulation.federation, models)
    assert figures["personal"]["each"][5] == figures["parties"]["each"][5]
    data, party = simulation.federation.dataset, simulation.federation.parties[4]
    always_first = float((data.y[party.held_out] == 0).mean())  # zero weights: the first class always wins
    assert figures["personal"]["each"][4] == pytest.approx(always_first)


def test_no_rows_no_figure():
    simulation = small_simulation("fedavg", validation=0.0, held_out=0.0)
    figures = evaluate(simulation.federation, simulation.models(simulation.state))
    assert figures["validation_accuracy"] is None
    assert figures["parties"]["count"] == 0
    assert figures["accuracy"] is not None


@given(st.lists(st.one_of(st.none(), st.floats(0, 1)), min_size=1, max_size=60))
def test_summary(accuracies):
    known = sorted(a for a in accuracies if a is not None)
    made = summary(accuracies, SCORES["accuracy"])
    assert made["count"] == len(known)
    if known:
        lowest = known[: max(1, -(-len(known) // 10))]
        assert made["worst_10_percent"] == pytest.approx(sum(lowest) / len(lowest))
        assert made["worst"] == known[0] <= made["worst_10_percent"] + 1e-12 <= made["mean"] + 2e-12
        assert made["best"] == known[-1]


def row(number, validation, test):
    base = {"validation_loss": 0.0, "loss": 0.0, "train_loss": 0.0, "bytes_up": 1, "bytes_down": 2, "seconds": 0.5}
    return base | {"round": number, "validation_accuracy": validation, "accuracy": test}


def test_selection_looks_at_validation_only_and_final_is_final():
    simulation = small_simulation("fedavg")
    rows = [row(1, 0.5, 0.99), row(2, 0.8, 0.6), row(3, 0.8, 0.9), row(4, 0.7, 0.7)]
    simulation.evaluated = simulation.state.round, rows[-1]
    made = outcome(simulation, rows)
    assert made["accuracy"] == 0.7
    assert made["selected"]["round"] == 2
    assert made["selected"]["accuracy"] == 0.6
    assert 0.99 not in [made["accuracy"], made["selected"]["accuracy"]]
    assert (made["bytes_up"], made["bytes_down"], made["seconds"], made["rounds"]) == (4, 8, 2.0, 4)


def accuracy_on(simulation, w, rows):
    """By hand: the share of right answers on these rows of the test set."""
    data = simulation.federation.dataset
    x = torch.from_numpy(np.asarray(data.x_test)[rows])
    logits = simulation.task.logits(w, Batch(x, torch.from_numpy(np.asarray(data.y_test)[rows])))
    return float((logits.argmax(dim=1).numpy() == np.asarray(data.y_test)[rows]).mean())


def test_parties_are_tried_on_test_rows_that_have_their_labels():
    simulation = play(small_simulation("fedavg", partition="label-count(2)", parties=5, test_by="labels"), 2)
    data, partition = simulation.federation.dataset, simulation.federation.partition
    figures, w = simulation.figures(simulation.state), simulation.state.server["w"]
    assert len(figures["parties_by_labels"]["each"]) == 5
    for number, shown in enumerate(figures["parties_by_labels"]["each"]):
        labels = set(data.y[partition.rows[number]].tolist())
        assert len(labels) < 3  # else it would be the whole test set
        rows = [row for row, label in enumerate(data.y_test) if int(label) in labels]
        assert 0 < len(rows) < len(data.y_test)
        assert shown == pytest.approx(accuracy_on(simulation, w, rows))
    assert "parties_by_labels" not in play(small_simulation("fedavg"), 1).evaluated[1]


def test_personal_models_on_all_test_rows():
    simulation = play(
        small_simulation("fedper", partition="label-count(2)", parties=5, test_by="all", newcomers=0.2), 1
    )
    figures, (away,) = simulation.figures(simulation.state), simulation.population.newcomers
    personal = simulation.models(simulation.state).personal
    expected = [accuracy_on(simulation, personal(number)[0], np.arange(40)) for number in range(5)]
    for number, value in enumerate(expected):
        there, absent = ("newcomers", "personal") if number == away else ("personal", "newcomers")
        assert figures[f"{there}_global"]["each"][number] == pytest.approx(value)
        assert figures[f"{absent}_global"]["each"][number] is None
    assert len(set(expected)) > 1
    shared = play(small_simulation("fedavg", test_by="all"), 1).evaluated[1]
    assert not any(key.endswith("_global") for key in shared)


def test_personal_models_and_newcomers_on_test_rows_that_have_their_labels():
    fields = {"partition": "label-count(2)", "parties": 5, "test_by": "labels", "fine_tune": 2, "newcomers": 0.4}
    simulation = play(small_simulation("fedavg", **fields), 1)
    figures, away = simulation.figures(simulation.state), simulation.population.newcomers
    models, rows = simulation.models(simulation.state), simulation.federation.test_by_labels
    assert len(away) == 2
    for number in range(5):
        expected = accuracy_on(simulation, models.personal(number)[0], rows[number])
        there, absent = ("newcomers", "personal") if number in away else ("personal", "newcomers")
        assert figures[f"{there}_by_labels"]["each"][number] == pytest.approx(expected)
        assert figures[f"{absent}_by_labels"]["each"][number] is None
        assert figures[absent]["each"][number] is None


def test_an_exchange_that_nobody_answers_is_one_line():
    simulation = small_simulation("fedavg")
    simulation._participation = {(1, 0): []}
    with pytest.raises(UserError, match="Nobody is there in exchange 0 of round 1"):
        simulation.play_round()
