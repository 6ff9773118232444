"""Numbers are predicted: as by scikit-learn's ridge regression, in the table's own units, by every algorithm."""

import numpy as np
import pytest
from sklearn import metrics
from sklearn.linear_model import Ridge

import unalike
from tests.helpers import MODELLESS, NEEDS, net_algorithms, regression_data
from unalike.data import load_dataset
from unalike.errors import UserError
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

OURS = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]


def ridge(weight_decay):
    """Ridge with the penalty that weight decay means.

    SGD goes down (1/n) ||y - Xw||^2 + decay/2 ||w||^2, scikit-learn ||y - Xw||^2 + alpha ||w||^2, so alpha is
    n decay/2. The intercept, which only weight decay holds back, is 0 as all columns are centred.
    """
    data = load_dataset("diabetes")
    x, x_test = ((rows - data.shift) / data.scale for rows in (data.x, data.x_test))
    y = (data.y - data.target.shift) / data.target.scale
    model = Ridge(alpha=data.size * weight_decay / 2).fit(x.astype(np.float64), y)
    guesses = model.predict(x_test.astype(np.float64)) * data.target.scale + data.target.shift
    return data, model, guesses


@pytest.mark.parametrize(
    ("parties", "partition", "rounds", "steps"), [(1, "iid", 1, 1500), (4, "label-dirichlet(0.3)", 600, 1)]
)
def test_a_linear_net_converges_to_ridge_regression(parties, partition, rounds, steps):
    """One party that takes all steps; and four, whose single steps on all of their rows add up to the same."""
    decay = 0.1
    data, model, guesses = ridge(decay)
    spec = RunSpec(
        dataset="diabetes", partition=partition, parties=parties, rounds=rounds, steps=steps, batch_size=data.size,
        optimiser=f"sgd(momentum=0.0, weight_decay={decay})", lr=0.2, dtype="float64",
        validation=0.0, held_out=0.0, evaluate_every=rounds, engine="sequential",
    )  # fmt: skip
    simulation = Simulation(spec)
    while simulation.state.round < rounds:
        simulation.state, row = simulation.play_round()
    layers = simulation.task.parameters.unflatten(simulation.state.server["w"])
    np.testing.assert_allclose(layers["head.weight"][0], model.coef_, atol=1e-5)
    np.testing.assert_allclose(layers["head.bias"], model.intercept_, atol=1e-5)
    assert row["rmse"] == pytest.approx(metrics.root_mean_squared_error(data.y_test, guesses), rel=1e-5)
    assert row["mae"] == pytest.approx(metrics.mean_absolute_error(data.y_test, guesses), rel=1e-5)
    assert row["r2"] == pytest.approx(metrics.r2_score(data.y_test, guesses), rel=1e-4)


def test_figures_are_in_the_units_of_the_table():
    """A target in thousandths of the unit has errors a thousand times as large, and the same net."""
    data = regression_data()
    fields = {"partition": "natural", "model": "mlp(8)", "rounds": 3, "seed": 1}
    small = run(data=data, **fields)
    thousands = unalike.Dataset(
        "numbers", data.x, data.y * 1000, data.x_test, data.y_test * 1000, (), task="regression",
        group=data.group, group_names=data.group_names,
    )  # fmt: skip
    large = run(data=thousands, **fields)
    for key in ("rmse", "mae", "validation_rmse"):
        assert large.figures[key] == pytest.approx(1000 * small.figures[key], rel=1e-4)
    for key in ("r2", "loss", "train_loss"):
        assert large.figures[key] == pytest.approx(small.figures[key], rel=1e-4)
    assert large.figures["parties"]["worst"] == pytest.approx(1000 * small.figures["parties"]["worst"], rel=1e-4)
    assert small.figures["target"] == {"shift": data.y.mean(), "scale": data.y.std()}
    assert small.score == small.figures["rmse"]
    assert small.accuracy is None
    assert "accuracy" not in small.figures


def test_the_worst_party_has_the_highest_error_and_the_selected_round_the_lowest():
    result = run(data=regression_data(), partition="natural", model="mlp(8)", rounds=6, seed=1)
    parties = result.figures["parties"]
    assert parties["worst"] == max(parties["each"])
    assert parties["best"] == min(parties["each"])
    assert result.figures["selected"]["validation_rmse"] == min(row["validation_rmse"] for row in result.rows)
    by_r2 = run(data=regression_data(), partition="natural", model="mlp(8)", rounds=6, seed=1, score="r2")
    assert by_r2.figures["score"] == "r2"
    assert by_r2.figures["parties"]["worst"] == min(by_r2.figures["parties"]["each"])
    assert by_r2.figures["weights_sha256"] == result.figures["weights_sha256"]


@pytest.mark.parametrize("algorithm", [name for name in OURS if name not in MODELLESS])
def test_every_algorithm_predicts_numbers(algorithm):
    fields = {"partition": "natural", "model": "mlp(8)", "rounds": 4, "epochs": 4, "public": 0.1}
    fields |= {key: value for key, value in NEEDS.get(algorithm, {}).items() if key != "data"}
    try:
        result = run(data=regression_data(), algorithm=algorithm, **fields)
    except UserError as refused:
        assert " is for classes" in str(refused)  # noqa: PT017
        return
    rmse = result.figures["rmse"]
    assert (
        result.figures["personal"]["mean"] if rmse is None else rmse
    ) < 40  # the targets' own spread is about 30


def test_a_run_that_is_stopped_goes_on_to_the_same_figures(tmp_path):
    class Stop(Exception):
        pass

    from unalike.runs.run import Watcher

    class Stopper(Watcher):
        def round_done(self, row):
            if row["round"] == 2:
                raise Stop

    fields = {"data": regression_data(), "partition": "natural", "model": "mlp(4)", "rounds": 4}
    whole = run(**fields)
    with pytest.raises(Stop):
        run(**fields, runs=tmp_path, watcher=Stopper())
    again = run(**fields, runs=tmp_path)
    same = ("rmse", "mae", "r2", "weights_sha256", "selected", "target")
    assert {key: again.figures[key] for key in same} == {key: whole.figures[key] for key in same}


def test_public_rows_and_channels_take_numbers():
    result = run(
        data=regression_data(),
        partition="natural",
        model="linear",
        rounds=2,
        public=0.1,
        channel="clip(1.0)+masked",
    )
    assert result.figures["rmse"] > 0
