"""Trees that a run has kept: loaded, asked, exported; and folders of strangers, which break nothing."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unalike
from tests.trees.grown_model import CLASSES, grown_arrays
from tests.trees.xgboost_arrays import NAMES, example
from unalike.errors import UserError
from unalike.runs.export import export_model
from unalike.runs.kept import FolderModels, MemoryModels, RoundModels, trained_model
from unalike.runs.model_file import KeptRound, ModelFile
from unalike.trees.soundness import NODES

TREES = {"algorithm": "histogram", "model": "trees(depth=3, bins=16, least_rows=5)", "parties": 3, "seed": 1}


def table(rows=240, missing=0.1):
    """Patients, some of whose pressures nobody has measured."""
    rng = np.random.default_rng(0)
    age, male = rng.integers(20, 90, rows), rng.integers(0, 2, rows)
    pressure = rng.normal(130, 15, rows).round()
    ill = age / 30 + male + pressure / 40 + rng.normal(size=rows) > 6.3
    gone = rng.random(rows) < missing
    lines = ["age,sex,pressure,ill"]
    for one in zip(age, np.array(["f", "m"])[male], np.where(gone, "", pressure), ill, strict=True):
        lines.append(",".join(map(str, one)))
    return "\n".join(lines) + "\n"


@pytest.fixture(scope="module")
def patients(tmp_path_factory):
    """A run on a table whose missing values are kept, in a folder."""
    place = tmp_path_factory.mktemp("patients")
    path = place / "patients.csv"
    path.write_text(table())
    data = f"csv(path={path}, label=ill, missing=keep)"
    return path, unalike.run(dataset=data, rounds=4, runs=place / "runs", **TREES)


def store_of(objective, **changed):
    x, y = example(objective)
    y = y.astype(np.int64) if objective in CLASSES else y
    target = (100.0, 20.0) if objective in ("squared-error", "poisson") else (0.0, 1.0)
    arrays, _, _ = grown_arrays(objective, x, y, target=target)
    classes = ("no", "yes", "perhaps")[: CLASSES.get(objective, 0)]
    text, task = f"trees(depth=3, objective={objective})", "classification" if classes else "regression"
    about = ModelFile("k", "histogram", text, (5,), classes, task=task, target=target)
    about = replace(about, stages={"final": KeptRound(3, "weights.safetensors")}, **changed)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return x, MemoryModels(about, {"final": RoundModels(tensors, None)})


@pytest.mark.parametrize("objective", NAMES)
def test_a_trained_model_of_trees_says_what_the_trees_say(objective):
    x, store = store_of(objective)
    model = trained_model(store)
    outputs = model(torch.from_numpy(x))
    if model.classes:
        wanted = model.ensemble.predict_proba(x)
        np.testing.assert_allclose(torch.softmax(outputs, dim=1).numpy(), wanted, atol=1e-12)
    else:
        np.testing.assert_allclose(outputs.numpy(), model.ensemble.predict(x), rtol=1e-12)


def test_a_run_in_a_folder_is_loaded_and_predicts_the_same_without_its_data(patients):
    path, result = patients
    found = unalike.load(result.run_dir)
    wanted = result.predict_proba(f"csv:{path}")
    path.rename(path.with_name("moved.csv"))
    try:
        made = found.predict_proba(f"csv:{path.with_name('moved.csv')}")
    finally:
        path.with_name("moved.csv").rename(path)
    assert (made == wanted).all()
    assert set(found.predict(f"csv:{path}")) == {True, False}
    assert found.model.ensemble.sha256 == result.figures["model_sha256"]
    assert found.personal(0).ensemble.sha256 == found.model.ensemble.sha256
    assert found.model.ensemble.trees == found.figures["trees"] == 4


def test_the_figures_of_the_run_are_those_of_the_kept_model(patients):
    _, result = patients
    from unalike.data import load_dataset

    data = load_dataset(result.spec.dataset)
    assert np.isnan(data.x_test).any()
    right = result.trained().ensemble.predict(data.x_test) == data.y_test
    assert result.accuracy == pytest.approx(right.mean())
    assert (result.predict(data.x_test) == (data.y_test == 1))[right].all()


def test_importance_names_the_columns_of_the_table(patients):
    _, result = patients
    rows = list(result.importance())
    assert {row["column"] for row in rows} <= {"age", "sex_f", "sex_m", "sex", "pressure"}
    assert list(result.figures["importance"]) == [row["column"] for row in rows]
    net = unalike.run(dataset="digits", rounds=1, model="logistic", parties=2)
    with pytest.raises(UserError, match="only trees"):
        net.importance()


def test_the_card_tells_of_trees(patients):
    card = patients[1].card().to_markdown()
    assert "column that the trees go by" in card
    assert patients[1].figures["model_sha256"] in card
    assert "**weights**" not in card


def test_xgboost_predicts_the_same_from_the_tables_own_values(patients, tmp_path):
    xgboost = pytest.importorskip("xgboost")
    path, result = patients
    (file,) = result.export(tmp_path, "xgboost")
    booster = xgboost.Booster(model_file=str(file))
    rows = [line.split(",") for line in path.read_text().splitlines()[1:]]
    made = {"age": [float(row[0]) for row in rows], "pressure": [float(row[2] or "nan") for row in rows]}
    made |= {f"sex_{sex}": [float(row[1] == sex) for row in rows] for sex in "fm"}
    x = np.stack([np.array(made[name]) for name in booster.feature_names], axis=1)
    found = booster.predict(xgboost.DMatrix(x, feature_names=booster.feature_names))
    np.testing.assert_allclose(found, result.predict_proba(f"csv:{path}")[:, 1], atol=1e-6)


def test_json_has_the_tables_columns(patients, tmp_path):
    (file,) = patients[1].export(tmp_path, "json")
    made = json.loads(file.read_text())
    assert file.name == "trees.json"
    assert made["columns"][0]["from"] == "age"
    assert len(made["trees"]) == 4


def test_a_folder_with_safetensors_is_all_that_prediction_needs(patients, tmp_path):
    _, result = patients
    result.export(tmp_path / "plain", "safetensors")
    store = FolderModels.open(tmp_path / "plain")
    assert store.about.parties == ()
    assert trained_model(store).ensemble.sha256 == result.figures["model_sha256"]


@pytest.mark.parametrize("format", ["torch", "onnx"])
def test_formats_of_nets_are_refused(format, tmp_path):
    with pytest.raises(
        UserError, match=f"{format} is for nets, and these are trees. Use one of safetensors, json"
    ):
        export_model(store_of("binary")[1], tmp_path, format)


def test_arrays_may_have_gaps_but_nothing_infinite(patients):
    _, result = patients
    x = np.full((2, 4), np.nan, np.float32)
    x = x[:, : len(result.model.columns.names)]
    assert result.predict_proba(x).shape == (2, 2)
    x[0, 0] = np.inf
    with pytest.raises(UserError, match="infinite"):
        result.predict(x)


@pytest.mark.parametrize(
    "changed",
    [
        {"shape": (2,)},
        {"classes": ("a", "b", "c")},
        {"model": "trees(depth=3, objective=softmax)"},
        {"model": "logistic"},
        {"classes": (), "task": "regression"},
    ],
)
def test_trees_of_another_shape_than_the_file_says_are_refused(changed):
    _, store = store_of("binary", **changed)
    with pytest.raises(UserError):
        trained_model(store)


def test_weights_of_a_net_are_no_trees():
    _, store = store_of("binary")
    net = {"head.weight": torch.zeros(2, 5), "head.bias": torch.zeros(2)}
    with pytest.raises(UserError, match="does not hold trees"):
        trained_model(replace(store, rounds={"final": RoundModels(net, None)}))


MADE = store_of("softmax")


@settings(max_examples=120, deadline=None)
@given(st.data())
def test_whatever_a_strangers_file_holds_it_is_refused_in_one_line_or_predicts_numbers(data):
    x, store = MADE
    tensors = dict(store.rounds["final"].shared)
    name = data.draw(st.sampled_from([*NODES, "base", "starts", "values"]))
    whole = tensors[name].clone()
    kind = data.draw(st.sampled_from(["number", "type", "shape", "gone", "more"]))
    if kind == "number":
        place = data.draw(st.integers(0, whole.numel() - 1))
        value = data.draw(st.floats(width=32) if whole.is_floating_point() else st.integers(-(2**31), 2**31 - 1))
        whole.view(-1)[place] = value % 256 if whole.dtype == torch.uint8 else value
    elif kind == "type":
        whole = whole.to(data.draw(st.sampled_from([torch.float32, torch.int64, torch.bool, torch.float16])))
    elif kind == "shape":
        whole = data.draw(st.sampled_from([whole[:0], whole[None], whole.reshape(-1), whole[..., :1]]))
    tensors[name] = whole
    if kind == "gone":
        del tensors[name]
    if kind == "more":
        tensors["surplus"] = whole
    try:
        model = trained_model(replace(store, rounds={"final": RoundModels(tensors, None)}))
    except UserError as error:
        if "\n" in str(error):
            pytest.fail(str(error))
        return
    assert np.isfinite(model(torch.from_numpy(x)).numpy()).all()


def test_a_model_file_keeps_units_and_gaps_and_refuses_wrong_ones():
    from unalike.data import load_dataset
    from unalike.runs.seals import Broken, seal
    from unalike.runs.spec import RunSpec

    data = load_dataset("heart(missing=keep)")
    spec = RunSpec(dataset="heart(missing=keep)", algorithm="histogram", model="trees")
    about = ModelFile.of(spec, data)
    back = ModelFile.decode(about.encode())
    assert back.gaps
    assert back.units is not None
    assert back.units.shift.tolist() == data.units.shift.tolist()
    told = json.loads(about.encode())
    for wrong in ({"units": [[1], [0]]}, {"units": "no"}, {"units": [[1, 2], [1, 1], [3]]}, {"gaps": 1}):
        content = {name: value for name, value in {**told, **wrong}.items() if name != "seal"}
        with pytest.raises(Broken, match="does not describe a model"):
            ModelFile.decode(seal(content)[0])


def test_every_party_has_its_own_trees_and_files_keep_them_apart(tmp_path):
    made = unalike.run(
        dataset="heart",
        partition="natural",
        rounds=3,
        runs=tmp_path,
        **{**TREES, "algorithm": "local", "parties": 4},
    )
    found = unalike.load(made.run_dir)
    data = unalike.load_dataset("heart")
    digests = {found.personal(number).ensemble.sha256 for number in range(4)}
    assert len(digests) == 4
    for name in data.group_names:
        own, kept = made.predict_proba(data.x_test, party=name), found.predict_proba(data.x_test, party=name)
        assert (own == kept).all()
    with pytest.raises(UserError, match="no one model for all"):
        _ = found.model
    assert "one for each party" in found.card().to_markdown()
