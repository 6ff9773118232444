"""Models for other programs: ONNX and torch.export give what the module gives, for any number of rows."""

import copy
import json
from dataclasses import replace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import unalike
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.build import RowKind, fresh_net_maker
from unalike.runs.export import export_model
from unalike.runs.kept import FolderModels, MemoryModels, RoundModels, trained_model
from unalike.runs.model_file import KeptRound, ModelFile
from unalike.runs.run import run

WORDS = ("<pad>", "<unknown>", "a", "b", "c")
SMALL = {
    "lstm": "lstm(hidden=6, width=4, features=5)",
    "token-mlp": "token-mlp(words=5, width=4, hidden=6)",
    "mlp": "mlp(6,4)",
}
OWN = {"module", "pretrained", "typed"}
"""Nets of the user's own, which nobody can make up here."""
NETS = sorted(
    entry.name
    for entry in MODELS
    if entry.cls.__module__.startswith("unalike.") and hasattr(entry.cls, "build")
    if entry.name not in OWN
)


@pytest.fixture(autouse=True)
def _narrow_residual_nets(monkeypatch):
    monkeypatch.setattr("unalike.models.resnet._WIDTHS", (4, 8, 12, 16))  # 64 to 512 channels would take seconds


def a_store(text, task="classification"):
    """A net as if it were trained on images of whole numbers, or on tokens."""
    model = MODELS.build(text)
    tokens = getattr(model, "reads", "numbers") == "tokens"
    shape = (6,) if tokens else (3, 16, 16)
    about = ModelFile(
        *("k", "fedavg", text, shape, ("no", "yes", "perhaps") if task == "classification" else ()),
        features=WORDS if tokens else (),
        kind="tokens" if tokens else "numbers",
        stored="int64" if tokens else "uint8",
        shift=np.array(0.0 if tokens else 120.0),
        scale=np.array(1.0 if tokens else 60.0),
        task=task,
        target=(100.0, 30.0) if task == "regression" else (0.0, 1.0),
        stages={"final": KeptRound(1, "w")},
    )
    outputs = len(about.classes) or 1
    with torch.random.fork_rng():
        torch.manual_seed(1)
        net = fresh_net_maker(model, RowKind(shape, about.kind, about.features), outputs)()
        if any(isinstance(layer, torch.nn.BatchNorm2d) for layer in net.modules()):
            fit_statistics(net, shape)
    return MemoryModels(about, {"final": RoundModels(net.state_dict(), None)})


def fit_statistics(net, shape):
    """Running statistics as training leaves them: those of a fresh net let numbers grow from layer to layer."""
    for layer in net.modules():
        if isinstance(layer, torch.nn.BatchNorm2d):
            layer.momentum = 1.0
    with torch.no_grad():
        net.train()(torch.randn(32, *shape))


def some_rows(about, count):
    rng = np.random.default_rng(count)
    return rng.integers(0, 5 if about.kind == "tokens" else 256, (count, *about.shape)).astype(about.stored)


def onnx_answer(path, rows):
    runtime = pytest.importorskip("onnxruntime")
    session = runtime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    return session.run(None, {"rows": rows})[0]


def exact(model, rows):
    """What the model gives in double precision: in single, fifty layers with batch norm are 4e-5 off."""
    model = copy.deepcopy(model).double()
    model.reads = torch.float64 if model.reads == torch.float32 else model.reads
    return model(torch.from_numpy(rows)).numpy()


@pytest.mark.parametrize("name", NETS)
def test_onnx_gives_what_the_module_gives(tmp_path, name):
    store = a_store(SMALL.get(name, name))
    (path,) = export_model(store, tmp_path, "onnx")
    model = trained_model(store)
    for count in (1, 2, 33):
        rows = some_rows(store.about, count)
        found = onnx_answer(path, rows)
        assert found.shape == (count, 3)
        expected = model(torch.from_numpy(rows)).numpy()
        assert np.abs(found - expected).max() < max(1e-5, 3 * np.abs(expected - exact(model, rows)).max())


@pytest.mark.parametrize("name", ["mlp", "simple-cnn", "lstm"])
def test_torch_gives_what_the_module_gives(tmp_path, name):
    store = a_store(SMALL.get(name, name))
    (path,) = export_model(store, tmp_path, "torch")
    told = {"classes": ""}
    program = torch.export.load(path, extra_files=told).module()
    assert json.loads(told["classes"]) == ["no", "yes", "perhaps"]
    for count in (1, 2, 33):
        rows = torch.from_numpy(some_rows(store.about, count))
        assert torch.equal(program(rows), trained_model(store)(rows))


def test_numbers_leave_in_their_own_units(tmp_path):
    store = a_store("mlp(6)", task="regression")
    (path,) = export_model(store, tmp_path, "onnx")
    rows = some_rows(store.about, 5)
    found = onnx_answer(path, rows)
    assert found.shape == (5,)
    assert np.allclose(found, trained_model(store)(torch.from_numpy(rows)).numpy(), rtol=1e-6)
    assert 10 < found.mean() < 190


def test_what_onnx_says_of_itself(tmp_path):
    onnx = pytest.importorskip("onnx")
    (path,) = export_model(a_store("mlp(6,4)"), tmp_path, "onnx")
    told = {entry.key: entry.value for entry in onnx.load(path).metadata_props}
    assert json.loads(told["unalike.classes"]) == ["no", "yes", "perhaps"]
    assert told["unalike.task"] == "classification"


def test_nothing_is_overwritten_and_no_file_is_a_folder(tmp_path):
    store = a_store("mlp(6,4)")
    export_model(store, tmp_path / "out", "safetensors")
    with pytest.raises(UserError, match=r"weights\.safetensors exists, and nothing is overwritten"):
        export_model(store, tmp_path / "out", "safetensors")
    (tmp_path / "file").write_text("mine")
    with pytest.raises(UserError, match="is a file, and a folder is needed"):
        export_model(store, tmp_path / "file", "torch")


def test_formats_that_are_not_there(tmp_path):
    with pytest.raises(UserError, match="xgboost is for trees"):
        export_model(a_store("mlp(6,4)"), tmp_path, "xgboost")
    with pytest.raises(UserError, match="Did you mean 'onnx'"):
        export_model(a_store("mlp(6,4)"), tmp_path, "onyx")
    assert not list(tmp_path.iterdir())


def test_without_the_packages_the_extra_is_named(tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "onnxscript", None)
    with pytest.raises(UserError, match=r"pip install 'unalike\[onnx\]'"):
        export_model(a_store("mlp(6,4)"), tmp_path, "onnx")


@pytest.mark.parametrize(
    ("fields", "which"),
    [
        ({}, {}),
        ({}, {"which": "selected"}),
        ({"algorithm": "ditto"}, {"party": "va"}),
        ({"algorithm": "lg-fedavg-ensemble", "model": "mlp(6,4)", "newcomers": 0.3}, {"party": 1}),
    ],
)
def test_a_folder_of_safetensors_predicts_alone(tmp_path, fields, which):
    spec = {"dataset": "heart", "partition": "natural", "model": "mlp(4)", "rounds": 3, "seed": 2, **fields}
    made = run(runs=tmp_path, **spec)
    made.export(tmp_path / "out", **which)
    store = FolderModels.open(tmp_path / "out")
    assert store.about.parties == ()
    x = torch.from_numpy(unalike.load_dataset("heart").x_test)
    assert torch.equal(trained_model(store)(x), made.trained(**which)(x))
    assert load_file(tmp_path / "out" / "weights.safetensors")


def test_the_net_of_a_party_where_nets_differ(tmp_path):
    store = a_store("mlp(6,4)")
    named = store.rounds["final"].shared
    store = replace(store, about=replace(store.about, model="logistic|mlp(6,4)", parties=("a", "b")))
    own = unalike.runs.kept.OwnModels([named], torch.tensor([[0], [0]]))
    stages = {"final": KeptRound(1, personal="p")}
    store = replace(store, about=replace(store.about, stages=stages), rounds={"final": RoundModels(None, own)})
    export_model(store, tmp_path / "out", "safetensors", party="b")
    assert FolderModels.open(tmp_path / "out").about.model == "mlp(6,4)"
    with pytest.raises(UserError, match="is of another net"):
        trained_model(store, party="a")


def test_what_onnx_says_of_a_table_is_enough_to_use_it(tmp_path):
    """Rows of a file are coded by the metadata alone, as another program would do it."""
    onnxruntime = pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    rows = [
        [rng.normal(50, 9), rng.choice(["a", "b", "c"]), rng.choice(["yes", "no"]), rng.choice(["low", "high"])]
        for _ in range(60)
    ]
    rows[3][0] = ""
    lines = [[*row, "well" if n % 3 else "ill"] for n, row in enumerate(rows)]
    text = "\n".join(",".join(map(str, line)) for line in [["age", "ward", "smokes", "grade", "y"], *lines])
    (tmp_path / "t.csv").write_text(text)
    data = f"csv:{tmp_path}/t.csv(missing=indicate, types='grade:ordinal(low<high)')"
    result = unalike.run(dataset=data, parties=2, rounds=1)
    result.export(tmp_path / "m", "onnx")
    session = onnxruntime.InferenceSession(tmp_path / "m/model.onnx")
    told = session.get_modelmeta().custom_metadata_map
    coded = []
    for row in rows:
        made = []
        for field, value in zip(json.loads(told["unalike.coding"]), row, strict=True):
            if field["kind"] == "category":
                made += [value == one for one in field["values"]]
            elif field["kind"] == "binary":
                made += [value == "yes"]
            else:
                number = field["values"].index(value) if field["kind"] == "ordinal" else value
                made += [0.0 if number == "" else (number - field["shift"]) / field["scale"]]
            made += [value == ""] * field["indicate"]
        coded.append(made)
    assert len(coded[0]) == len(json.loads(told["unalike.features"]))
    (logits,) = session.run(None, {"rows": np.array(coded, np.float32)})
    chances = result.predict_proba(f"csv:{tmp_path}/t.csv")
    assert np.exp(logits) / np.exp(logits).sum(1, keepdims=True) == pytest.approx(chances, abs=1e-4)
