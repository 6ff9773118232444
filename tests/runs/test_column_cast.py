"""Protocols of columns as runs: who has what, what the partner is worth, resume, and models in use."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import unalike
from tests.runs.test_conversing import comparable
from unalike.algorithms.protocol import SERVER
from unalike.errors import UserError
from unalike.partition import Partition, make_partition
from unalike.runs.check_columns import check_predicted
from unalike.runs.column_cast import ColumnCast, scaled
from unalike.runs.conversing import Conversing
from unalike.runs.meaning import protocol_of
from unalike.runs.run import run
from unalike.runs.spec import RunSpec

VERTICAL = {
    "algorithm": "vertical",
    "model": "logistic",
    "partition": "vertical(3)",
    "rounds": 4,
    "lr": 0.5,
    "batch_size": 64,
}


def table(rows=400, classes=2, task="classification", seed=3):
    """Six columns that all count; the last hundred rows are for tests."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, 6)).astype(np.float32)
    score = x @ rng.normal(size=(6, classes))
    y = score[:, 0] * 5 + 40 if task == "regression" else score.argmax(1)
    return unalike.Dataset(
        "people",
        x[:-100],
        y[:-100],
        x[-100:],
        y[-100:],
        () if task == "regression" else tuple("abcd"[:classes]),
        task=task,
    )


def conversing(data=None, **fields):
    spec = RunSpec.from_mapping({**VERTICAL, **fields})
    return Conversing(spec, protocol_of(spec.algorithm, spec.model), data=data or table(), say=lambda line: None)


def test_each_party_has_its_columns_of_the_same_people_and_one_the_labels():
    data = table()
    played = conversing(data)
    partition = make_partition("vertical(3)", data, None, 0)
    people = played.federation.parties[0]
    for number, columns in enumerate(partition.columns):
        own = played.roles[number].rows
        assert np.array_equal(own.x[own.train], data.x[np.ix_(people.train, columns)])
        assert np.array_equal(own.x[own.validation], data.x[np.ix_(people.validation, columns)])
        assert len(own.y) == (len(own.x) if number == partition.label_holder else 0)
    assert played.roles[SERVER].data is None
    assert played.roles[0].terms.columns == tuple(map(len, partition.columns))
    assert not set(people.held_out) & {*people.train, *people.validation}


def test_people_whom_not_all_know_are_apart(monkeypatch):
    rows = (np.arange(0, 250), np.arange(50, 300))
    columns = (np.array([0, 1, 2]), np.array([3, 4, 5]))
    split = Partition("by hand", rows, ("a", "b"), columns=columns, shares_rows=True)
    monkeypatch.setattr("unalike.runs.build.make_partition", lambda *args: split)
    played = conversing(partition="vertical(2)")
    common = set(range(50, 250))
    for number, apart in enumerate((range(50), range(250, 300))):
        own = played.roles[number].rows
        assert np.array_equal(own.x[own.apart], table().x[np.ix_(list(apart), columns[number])])
    people = played.federation.parties[0]
    assert {*people.train, *people.validation, *people.held_out} == common

    stranger = replace(split, rows=(np.arange(150), np.arange(150, 300)))
    monkeypatch.setattr("unalike.runs.build.make_partition", lambda *args: stranger)
    with pytest.raises(UserError, match="nobody whom all parties know"):
        conversing(partition="vertical(2)")


def test_alone_is_a_run_on_the_label_holders_columns():
    data = table()
    figures = run(data=data, **VERTICAL).figures
    mine = make_partition("vertical(3)", data, None, 0).columns[0]
    own = unalike.Dataset("mine", data.x[:, mine], data.y, data.x_test[:, mine], data.y_test, data.classes)
    pooled = run(data=own, **{**VERTICAL, "algorithm": "fedavg", "partition": "iid", "parties": 1, "rounds": 60})
    assert figures["alone"] == pytest.approx(pooled.figures["accuracy"], abs=0.04)
    assert figures["gain"] == pytest.approx(figures["accuracy"] - figures["alone"])
    assert figures["gain"] > 0.05, "all columns count"


def test_alone_reads_the_label_holders_columns():
    """Of a row only they count, and what it says is what this party would train by itself."""
    played = conversing(rounds=2)
    cast, x = played.cast, table().x_test
    holder, model = cast.columns[cast.terms.label_holder], played.cast.alone()
    others = np.setdiff1d(np.arange(x.shape[1]), holder)
    changed = x.copy()
    changed[:, others] = 99
    assert (model.margins(changed) == model.margins(x)).all()
    changed = x.copy()
    changed[:, holder] += 1
    assert (model.margins(changed) != model.margins(x)).all()


def test_together_is_as_good_as_one_table():
    data = table()
    result = run(data=data, **{**VERTICAL, "rounds": 40})
    reference = LogisticRegression(C=1e4).fit(data.x, data.y).score(data.x_test, data.y_test)
    assert result.score == pytest.approx(reference, abs=0.03)
    assert "parties" not in result.figures
    assert result.figures["held_out_accuracy"] == pytest.approx(reference, abs=0.1)
    assert result.gain == result.figures["gain"]
    told = result.figures["columns"]
    assert told == {"parties": {f"party {k}": 2 for k in range(3)}, "label_holder": "party 0", "people": 300}
    assert "degrees" not in result.figures
    assert "the others' columns add" in repr(result)


def test_a_gain_in_errors_is_positive_where_they_fall():
    data = table(task="regression", classes=1)
    figures = run(data=data, **{**VERTICAL, "model": "linear", "lr": 0.1, "rounds": 20}).figures
    assert figures["score"] == "rmse"
    assert figures["gain"] == pytest.approx(figures["alone"] - figures["rmse"])
    assert figures["gain"] > 0


def test_a_stopped_run_goes_on_to_the_same_bits(tmp_path):
    whole = run(data=table(), runs=tmp_path / "whole", **VERTICAL)
    unalike.run_until(2, data=table(), runs=tmp_path / "parts", **VERTICAL)
    parts = run(data=table(), runs=tmp_path / "parts", **VERTICAL)
    assert parts.figures["model_sha256"] == whole.figures["model_sha256"]
    assert parts.figures["weights_sha256"] == whole.figures["weights_sha256"]
    assert comparable(parts.rows) == comparable(whole.rows)


@pytest.mark.parametrize("task", ["classification", "regression"])
def test_a_kept_model_predicts_what_the_parties_predict_together(tmp_path, task):
    data = table(task=task, classes=3)
    fields = {**VERTICAL, "model": "linear" if task == "regression" else "logistic", "lr": 0.1}
    result = run(data=data, runs=tmp_path, **fields)
    played = conversing(data, **{name: fields[name] for name in ("model", "lr")})
    for _ in range(4):
        played.state, _ = played.play_round()
    margins = played.cast.predicted(played.state, data.x_test)
    said = unalike.load(result.run_dir).predict(data.x_test)
    if task == "regression":
        shift, scale = map(float, data.target)
        assert said == pytest.approx(margins[:, 0] * scale + shift)
    else:
        assert (said == np.array(data.classes)[margins.argmax(1)]).all() or (said == margins.argmax(1)).all()
    selected = unalike.load(result.run_dir).predict(data.x_test, which="selected")
    assert len(selected) == 100


def test_a_strangers_arrays_are_refused(tmp_path):
    from safetensors.torch import load_file

    from unalike.runs.kept import FolderModels
    from unalike.runs.trained import rebuilt

    where = run(data=table(), runs=tmp_path, **VERTICAL).run_dir
    about = FolderModels.open(where).about
    tensors = load_file(where / "weights.safetensors")
    rebuilt(about, [tensors], where)
    for name in tensors:
        with pytest.raises(UserError, match="does not hold a model of vertical"):
            rebuilt(about, [{key: value for key, value in tensors.items() if key != name}], where)


def test_the_card_says_who_had_what_and_that_no_server_saw_uploads(tmp_path):
    result = run(data=table(), runs=tmp_path, **VERTICAL)
    card = unalike.load(result.run_dir).card()
    data, training, privacy = (card.facts[name] for name in ("Data", "Training", "Privacy"))
    assert data["parties"] == 3
    assert data["columns of each"] == {f"party {k}": 2 for k in range(3)}
    assert (data["has the labels"], data["people whom all know"]) == ("party 0", 300)
    assert training["batch size"] == 64
    assert not {"optimiser", "sample", "fine tune"} & training.keys()
    assert "every party's upload" not in card.to_markdown()
    assert "columns leave it" in privacy["columns"]
    assert "--optimiser" not in card.facts["Origin"]["made again by"]
    loaded = unalike.load(result.run_dir).spec
    assert loaded.to_dict() == result.spec.to_dict()


def test_joined_models_are_exported_as_what_they_are(tmp_path):
    result = run(data=table(), runs=tmp_path, **VERTICAL)
    result.export(tmp_path / "out", "safetensors")
    again = unalike.load(result.run_dir)
    assert (again.predict(table().x_test) == result.predict(table().x_test)).all()
    for format in ("torch", "onnx"):
        with pytest.raises(UserError, match=rf"{format} is for nets, and this is what vertical joined"):
            result.export(tmp_path / format, format)
    with pytest.raises(UserError, match="xgboost is for trees"):
        result.export(tmp_path / "x", "xgboost")


def test_images_are_scaled_as_nets_see_them():
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (120, 1, 4, 6)).astype(np.uint8)
    y = (x[:, 0, :, :3].mean((1, 2)) > x[:, 0, :, 3:].mean((1, 2))).astype(np.int64)
    data = unalike.Dataset(
        "halves", x[:90], y[:90], x[90:], y[90:], ("a", "b"), shift=np.float32(128), scale=np.float32(64)
    )
    played = conversing(data, partition="vertical(2)")
    own = played.roles[0].rows
    left = make_partition("vertical(2)", data, None, 0).columns[0]
    people = played.federation.parties[0].train
    expected = (x[:90].reshape(90, -1)[people][:, left].astype(np.float32) - 128) / 64
    assert np.allclose(own.x[own.train], expected)
    assert np.allclose(scaled(np.full((1, 24), 192, np.float32), data), 1)
    played.state, _ = played.play_round()
    check_predicted("vertical", played)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"partition": "iid"}, "iid splits rows, but vertical wants other columns"),
        ({"algorithm": "fedavg"}, "columns, but fedavg needs whole rows"),
        ({"algorithm": "fedavg", "model": "mlp(4)"}, "Use --algorithm split-net, or split rows"),
        ({"algorithm": "vertical", "model": "mlp(4)"}, "Use --model logistic, or --algorithm split-net"),
        ({"algorithm": "split-net", "model": "logistic"}, "Use --model mlp, or --algorithm vertical"),
        ({"algorithm": "split-net", "model": "fedavg-cnn"}, "not fedavg-cnn. Use --model mlp.$"),
        ({"channel": "masked"}, "--channel has no meaning for vertical: nothing is sent to a server"),
        ({"newcomers": 0.2}, "--newcomers has no meaning for vertical"),
        ({"optimiser": "adam"}, "--optimiser has no meaning for vertical"),
        ({"engine": "vectorised"}, "--engine vectorised stacks nets"),
        ({"model": "trees"}, "vertical trains logistic or linear, not trees"),
    ],
)
def test_what_has_no_meaning_is_refused(fields, message):
    with pytest.raises(UserError, match=message):
        run(data=table(), **{**VERTICAL, **fields})


def test_trees_of_rows_are_sent_to_trees_of_columns():
    with pytest.raises(UserError, match="Use --algorithm secureboost, or split rows"):
        run(data=table(), algorithm="histogram", model="trees", partition="vertical(3)", rounds=1)


def test_a_run_without_test_rows_says_nothing_of_a_gain():
    data = table()
    untested = unalike.Dataset("untested", data.x, data.y, None, None, data.classes)
    figures = run(data=untested, **VERTICAL).figures
    assert "gain" not in figures
    assert figures["validation_accuracy"] is not None


def test_the_cast_is_one_of_columns():
    assert isinstance(conversing().cast, ColumnCast)


def test_parties_that_disagree_train_on_what_each_of_them_believes():
    data = table()
    split = "vertical(2, overlap=0.5, disagree=0.5)"
    played = conversing(data, partition=split)
    partition = make_partition(split, data, None, 0)
    people = played.federation.parties[0].train
    right = data.x[np.ix_(people, partition.columns[1])]
    own = played.roles[1].rows
    wrong = (own.x[own.train] != right).any(1).mean()
    assert 0.4 < wrong < 0.95, "about half of the people, for each of three shared columns"
    holder = played.roles[0].rows
    assert (holder.x[holder.train] == data.x[np.ix_(people, partition.columns[0])]).all()
    assert played.federation.dataset.shape == (sum(map(len, partition.columns)),)
    played.state, row = played.play_round()
    check_predicted("vertical", played)
    assert row["accuracy"] is not None


def test_people_whom_single_parties_know_leave_the_training_to_the_others():
    data = table()
    figures = run(data=data, **{**VERTICAL, "partition": "vertical(2, rows=0.7)"}).figures
    assert figures["gain"] is not None
    played = conversing(data, partition="vertical(2, rows=0.7)")
    own, other = (played.roles[k].rows for k in (0, 1))
    assert len(own.train) == len(other.train) < 0.6 * 300
    assert len(own.apart) + len(own.train) + len(own.validation) <= round(0.7 * 300)
    assert len(own.y) == len(own.x), "the label holder knows the labels of people who are its own, too"


def test_records_leave_out_what_decides_nothing():
    fields = {**VERTICAL, "dataset": "heart"}
    told = RunSpec.complete(RunSpec.from_mapping(fields).to_dict())
    assert told["lr"] == 0.5
    assert "optimiser" not in told
    assert "optimiser" in RunSpec.complete({"dataset": "heart", "algorithm": "fedavg", "model": "logistic"})
    trees = RunSpec.from_mapping({"dataset": "heart", "algorithm": "pooled", "model": "trees"}).to_dict()
    assert "lr" not in RunSpec.complete(trees)
