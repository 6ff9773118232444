"""model.json: it comes back as it was written, and what a stranger may have put into it is refused in one line."""

import hashlib
import json
import subprocess
import sys
from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import unalike
from tests.helpers import frozen_model
from unalike.data.schema import Field, Schema
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.kept import MemoryModels, RoundModels, trained_model
from unalike.runs.model_file import KeptRound, ModelFile, read_model_file
from unalike.runs.run import run
from unalike.runs.seals import Broken, seal, unseal

SCHEMA = Schema("outcome", ("no", "yes"), (Field("age", "number", 50.0, 9.0), Field("sex", "binary")), (), "drop")
MADE = ModelFile(
    *("0123456789abcdef", "fedavg", "mlp(4)", (2,), ("no", "yes"), ("age", "sex")),
    shift=np.array([1.5, 0.1], np.float32),
    scale=np.array([0.3, 7.0], np.float32),
    schema=SCHEMA,
    parties=("a", "b"),
    stages={"final": KeptRound(3, "weights.safetensors", "00")},
)


def same(one, other):
    for field in fields(ModelFile):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert np.array_equal(a, b) if isinstance(a, np.ndarray) else a == b, field.name


def test_it_comes_back_as_it_was():
    same(ModelFile.decode(MADE.encode()), MADE)
    assert ModelFile.decode(MADE.encode()).encode() == MADE.encode()


def test_that_of_a_run_comes_back_too(tmp_path):
    made = run(dataset="heart", partition="natural", model="mlp(4)", rounds=1, runs=tmp_path)
    found = read_model_file(made.run_dir)
    same(ModelFile.decode(found.encode()), found)
    assert found.parties == unalike.load_dataset("heart").group_names
    assert read_model_file(tmp_path) is None


WRONG = {
    "format": [2, None, "1"],
    "model": [3, None],
    "shape": [[0], [-1], ["4"], [10**5, 10**5], [1] * 99 + [2], 4, None],
    "classes": [["only"], "no", [1, 2], None],
    "features": [["age"], [1]],
    "kind": ["words"],
    "stored": ["object", "float128"],
    "shift": [["a", "b"], {}, [1.0, 2.0, 3.0]],
    "scale": [0.0, [1.0, 0.0], [1.0] * 3],
    "target": [[0.0], [0.0, 1.0, 2.0], ["a", 1], 5],
    "task": ["ranking"],
    "dtype": ["float16"],
    "batch_norm": ["global"],
    "score": ["best", 4],
    "loss": [4],
    "schema": [{}, 3, {"label": "x", "classes": [], "fields": []}],
    "code": [3, {"model": 4}, {"model": {"file": "theirs.py"}}],
    "stages": [
        3,
        {"best": {"round": 1}},
        {"final": {"round": "1"}},
        {"final": {"round": 1, "weights": "../secret"}},
        {"final": {"round": 1, "weights": "/etc/passwd"}},
        {"final": {"round": 1, "personal": ".."}},
        {"final": {"round": 1, "more": 2}},
        *({"final": {"round": 1, "weights": name}} for name in ("a\0b", "\ud800", "a" * 300, "a/b")),
    ],
    "more": [1],
}


@pytest.mark.parametrize(("name", "value"), [(name, value) for name, values in WRONG.items() for value in values])
def test_what_cannot_be_is_refused(tmp_path, name, value):
    told, _ = unseal(MADE.encode())
    (tmp_path / "model.json").write_bytes(seal({**told, name: value}, indent=1)[0])
    with pytest.raises(UserError, match=r"model.json (does not describe a model|has format)") as caught:
        read_model_file(tmp_path)
    assert len(str(caught.value).splitlines()) == 1


@settings(max_examples=60, deadline=None)
@given(
    st.sampled_from([field.name for field in fields(ModelFile)]),
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
        max_leaves=6,
    ),
)
def test_any_value_is_taken_or_refused(name, value):
    told, _ = unseal(MADE.encode())
    try:
        ModelFile.decode(seal({**told, name: value})[0])
    except Broken:
        return


@settings(max_examples=40, deadline=None)
@given(st.integers(0, len(MADE.encode()) - 2), st.integers(1, 255))
def test_any_changed_byte_and_any_torn_end_are_noticed(place, change):
    data = bytearray(MADE.encode())
    data[place] ^= change
    for wrong in (bytes(data), bytes(data[:place])):
        with pytest.raises(Broken):
            ModelFile.decode(wrong)


def a_store(model, **fields):
    """A model whose weights are as a fresh net's, as if it were trained."""
    net = MODELS.build(model).build((2,), 2)
    about = replace(ModelFile("k", "fedavg", model, (2,), ("no", "yes")), **fields)
    return MemoryModels(
        replace(about, stages={"final": KeptRound(1, "w")}), {"final": RoundModels(net.state_dict(), None)}
    )


def test_own_code_is_named_with_its_file_and_hash(tmp_path):
    data = unalike.load_dataset("heart")
    made = run(data=data, model=frozen_model("body.1"), rounds=1, runs=tmp_path)
    code = read_model_file(made.run_dir).code
    assert code["model"]["file"] == "helpers.py"
    assert len(code["model"]["sha256"]) == 64
    assert made.model is not None
    assert read_model_file(run(data=data, model="mlp(4)", rounds=1, runs=tmp_path).run_dir).code == {}


def test_code_from_outside_is_not_run_unasked():
    told = {"model": {"file": "theirs.py", "sha256": "ab" * 32}}
    for model in ("their-net(4)", "module(where='theirs.py:Net')"):
        store = a_store("mlp(4)")
        store = replace(store, about=replace(store.about, model=model, code=told))
        with pytest.raises(UserError, match=r"theirs.py \(SHA-256 abababababababab\), which is not run unasked"):
            trained_model(store)


def test_code_that_is_another_is_refused():
    store = a_store(frozen_model("body.1"), code={"model": {"file": "helpers.py", "sha256": "ab" * 32}})
    with pytest.raises(UserError, match=r"what is here is another \([0-9a-f]{16}\)"):
        trained_model(store)


def test_a_net_of_the_package_is_not_replaced_by_ones_own():
    with pytest.raises(UserError, match="not with yours of that name"):
        trained_model(a_store(frozen_model("body.1")))


def test_a_strangers_module_is_not_run(tmp_path, monkeypatch):
    """Neither by reading the folder nor by asking for its model."""
    (tmp_path / "theirs.py").write_text(
        "import pathlib\npathlib.Path('ran').touch()\nimport torch\n"
        "class Net(torch.nn.Linear):\n    def __init__(self, shape, classes):\n        super().__init__(32, 2)\n"
    )
    monkeypatch.chdir(tmp_path)
    made = run(dataset="heart", model="module:theirs.py:Net", rounds=1, runs="runs")
    (tmp_path / "ran").unlink()
    program = (
        "import unalike, sys\n"
        f"result = unalike.load({str(made.run_dir)!r})\n"
        "try:\n    result.model\nexcept unalike.UserError as error:\n    sys.exit(str(error))\n"
    )
    answer = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert "theirs.py" in answer.stderr
    assert "--plugin" in answer.stderr
    assert not (tmp_path / "ran").exists()
    code = json.loads((made.run_dir / "model.json").read_text())["code"]["model"]
    assert code == {
        "file": "theirs.py",
        "sha256": hashlib.sha256((tmp_path / "theirs.py").read_bytes()).hexdigest(),
    }


def test_a_net_of_a_size_that_no_machine_has_is_refused_before_it_is_made():
    store = a_store("mlp(4)")
    store = replace(store, about=replace(store.about, model="mlp(99999,99999,99999)"))
    with pytest.raises(UserError, match="is of another net"):
        trained_model(store)


@pytest.mark.parametrize("stages", [[1], {"final": {"round": 1, "weights": "/dev/zero"}}])
def test_a_strangers_folder_names_no_file_elsewhere(tmp_path, stages):
    folder = run(dataset="heart", partition="natural", model="mlp(4)", rounds=1, runs=tmp_path).run_dir
    told, _ = unseal((folder / "model.json").read_bytes())
    data, _ = seal({**told, "stages": stages}, indent=1)
    (folder / "model.json").write_bytes(data)
    result, _ = unseal((folder / "result.json").read_bytes())
    names = {"model_file_sha256": hashlib.sha256(data).hexdigest()}
    (folder / "result.json").write_bytes(seal({**result, **names}, indent=2)[0])
    with pytest.raises(UserError, match=r"model.json does not describe a model"):
        unalike.load(folder)


def test_a_number_that_is_another_partys_name_is_not_guessed():
    about = replace(MADE, parties=("1", "2", "x"))
    assert [about.party(name) for name in ("1", "2", "x", 0, "0")] == [0, 1, 2, 0, 0]
    with pytest.raises(UserError, match=r"Party 1 may be .* or the one of that number \(2\)"):
        about.party(1)
    assert replace(MADE, parties=("0", "1")).party(1) == 1
