"""The models that a run leaves do what was recorded of them, after a kill and without the data, too."""

import functools
import shutil

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

import unalike
from tests.helpers import frozen_model, regression_data
from unalike.data.table import read_table
from unalike.errors import UserError
from unalike.models.batch import Batch
from unalike.rounds.rows import Rows
from unalike.runs import kept
from unalike.runs.folder import RunDirectory
from unalike.runs.run import Watcher, run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

HEART = {"dataset": "heart", "partition": "natural", "model": "mlp(4)", "epochs": 1, "seed": 2}
KINDS = {
    "one model for all": {},
    "images": {"dataset": "digits", "partition": "label-dirichlet(0.3)", "parties": 4},
    "double precision": {"dtype": "float64"},
    "frozen layers": {"model": frozen_model("body.1")},
    "personal beside a global one": {"algorithm": "ditto"},
    "personal": {"algorithm": "fedrep"},
    "fine-tuned": {"fine_tune": 1},
    "clusters": {"algorithm": "ifca"},
    "a tree": {"algorithm": "cfl"},
    "nobody's but the party's": {"algorithm": "local"},
    "ensembles": {"algorithm": "lg-fedavg-ensemble", "model": "mlp(6,4)", "newcomers": 0.3},
    "shared statistics": {"model": "test-kept-norm"},
    "statistics of the batch": {"model": "test-kept-norm", "batch_norm": "drop"},
    "own statistics": {"model": "test-kept-norm", "batch_norm": "local"},
}


@unalike.register_model("test-kept-norm")
class KeptNorm:
    """A net with batch norm."""

    def build(self, shape, classes):
        width = int(np.prod(shape))
        body = torch.nn.Sequential(torch.nn.Linear(width, 4), torch.nn.BatchNorm1d(4), torch.nn.ReLU())
        return unalike.Net(body, torch.nn.Linear(4, classes))


def spec_of(**fields):
    return RunSpec.from_mapping({**HEART, "rounds": 3, **fields})


def right(result, data, rows, labels, **which):
    """The share of right answers, as whoever has the rows counts it."""
    names = np.array(data.classes)
    answers = result.predict(rows, **which)
    return (answers.astype(str) == names[labels]).mean()


@pytest.mark.parametrize("kind", KINDS)
def test_models_do_what_was_recorded(tmp_path, kind):
    spec = spec_of(**KINDS[kind])
    made = run(spec, runs=tmp_path)
    moved = shutil.move(made.run_dir, tmp_path / "elsewhere")
    memory, loaded = run(spec), unalike.load(moved)
    assert loaded.figures == made.figures
    assert loaded.spec == spec
    simulation = Simulation(spec, say=lambda line: None)
    data, parties = simulation.federation.dataset, simulation.federation.parties
    for result in (memory, loaded):
        if result.accuracy is not None and kind != "own statistics":
            assert right(result, data, data.x_test, data.y_test) == result.accuracy
            chosen = result.figures["selected"]["accuracy"]
            assert right(result, data, data.x_test, data.y_test, which="selected") == chosen
        else:
            with pytest.raises(UserError, match="no one model for all parties"):
                _ = result.model
        newcomers = (result.figures.get("newcomers") or {}).get("each") or [None] * len(parties)
        summary = result.figures.get("personal") or result.figures["parties"]
        for number, own in enumerate(parties):
            rows, labels = data.x[own.held_out], data.y[own.held_out]
            each = summary["each"][number]
            each = newcomers[number] if each is None else each
            assert right(result, data, rows, labels, party=number) == each
            name = simulation.federation.partition.names[number]
            assert np.array_equal(result.predict(rows, party=name), result.predict(rows, party=str(number)))


def test_numbers_are_in_their_own_units(tmp_path):
    data = regression_data()
    made = run(data=data, runs=tmp_path, model="mlp(4)", rounds=4, seed=1)
    for result in (made, unalike.load(made.run_dir)):
        for which, figures in (("final", result.figures), ("selected", result.figures["selected"])):
            answers = result.predict(data.x_test, which=which)
            assert np.sqrt(((answers - data.y_test) ** 2).mean()) == pytest.approx(figures["rmse"], rel=1e-6)
        outputs = result.model(torch.from_numpy(data.x_test))
        assert np.allclose(outputs.numpy(), result.predict(data.x_test), rtol=1e-6)
        with pytest.raises(UserError, match="which have no probabilities"):
            result.predict_proba(data.x_test)


@pytest.mark.parametrize("dataset", ["heart", "digits", "synthetic"])
def test_the_module_gives_the_tasks_logits_bit_for_bit(dataset):
    result = run(dataset=dataset, model="mlp(8)", rounds=1, epochs=1, engine="sequential", seed=1)
    simulation = Simulation(result.spec, say=lambda line: None)
    data, task = simulation.federation.dataset, simulation.task
    w = task.parameters.flatten(result.models.shared("final"), task.dtype)
    rows = Rows(data.x_test, data.y_test, data, task.dtype, task.device)
    x, y = rows.take(torch.arange(len(rows)))
    expected = task.logits(w, Batch(x, y))
    found = result.model(torch.from_numpy(np.ascontiguousarray(data.x_test)))
    assert torch.equal(found, expected)
    assert not found.requires_grad
    assert not result.model.training


def contents(folder):
    """The files that a run leaves for those who use its models, and what seals them."""
    names = ("weights", "selected", "personal", "selected-personal")
    found = {name: folder / f"{name}.safetensors" for name in names}
    return {name: path.read_bytes() for name, path in found.items() if path.exists()} | {
        "model.json": (folder / "model.json").read_bytes()
    }


class Stop(Exception):
    pass


class StopsAfter(Watcher):
    def __init__(self, number):
        self.number = number

    def round_done(self, row):
        if row["round"] == self.number:
            raise Stop


@functools.cache
def selected_before_the_end(algorithm):
    """A spec whose selected round is neither the first nor the last, so that it has to be kept and can be lost."""
    for seed in range(20):
        spec = spec_of(rounds=7, algorithm=algorithm, seed=seed)
        if 2 <= run(spec).figures["selected"]["round"] <= 5:
            return spec
    raise AssertionError("no such seed")


@pytest.mark.parametrize("algorithm", ["fedavg", "ditto"])
def test_a_stopped_run_leaves_the_same_files(tmp_path, algorithm):
    spec = selected_before_the_end(algorithm)
    whole = contents(run(spec, runs=tmp_path / "whole").run_dir)
    assert {"selected", "model.json"} <= whole.keys() or {"selected-personal", "model.json"} <= whole.keys()
    for number in (2, 4, 7):
        with pytest.raises(Stop):
            run(spec, runs=tmp_path / str(number), watcher=StopsAfter(number), checkpoint_seconds=0.0)
        assert contents(run(spec, runs=tmp_path / str(number)).run_dir) == whole


def test_a_kill_between_any_two_files(tmp_path, monkeypatch):
    """None, one, or all but the last of the files of the end are written."""
    spec = selected_before_the_end("ditto")
    whole = contents(run(spec, runs=tmp_path / "whole").run_dir)
    write = RunDirectory.save_files
    for place in (0, 1, len(whole) - 1):

        def killed(self, files, place=place):
            write(self, dict([*files.items()][:place]) or {"lock": b""})
            raise Stop

        with monkeypatch.context() as patch:
            patch.setattr(RunDirectory, "save_files", killed)
            with pytest.raises(Stop):
                run(spec, runs=tmp_path / str(place))
        folder = tmp_path / str(place) / spec.folder
        with pytest.raises(UserError, match="not the folder of a finished run"):
            unalike.load(folder)
        assert contents(run(spec, runs=tmp_path / str(place)).run_dir) == whole


def test_a_killed_process_that_had_selected_a_later_round(tmp_path, monkeypatch):
    """Its checkpoint is of an earlier round: the selected one is played, and found, again."""
    spec = selected_before_the_end("fedavg")
    whole = contents(run(spec, runs=tmp_path / "whole").run_dir)
    save = RunDirectory.save_checkpoint
    monkeypatch.setattr(
        RunDirectory, "save_checkpoint", lambda self, one, keep=2: save(self, one) if one.round < 2 else None
    )
    with pytest.raises(Stop):
        run(spec, runs=tmp_path / "killed", watcher=StopsAfter(6), checkpoint_seconds=0.0)
    monkeypatch.undo()
    assert contents(run(spec, runs=tmp_path / "killed").run_dir) == whole


def test_a_lost_state_of_the_selected_round_costs_that_model_alone(tmp_path):
    spec = selected_before_the_end("fedavg")
    whole = run(spec)
    with pytest.raises(Stop):
        run(spec, runs=tmp_path, watcher=StopsAfter(6), checkpoint_seconds=0.0)
    state = tmp_path / spec.folder / "selected-state.safetensors"
    state.write_bytes(state.read_bytes()[:-4])
    made = run(spec, runs=tmp_path)
    assert made.figures["weights_sha256"] == whole.figures["weights_sha256"]
    x = unalike.load_dataset("heart").x_test
    assert np.array_equal(made.predict(x), whole.predict(x))
    with pytest.raises(UserError, match="keeps no selected model"):
        made.predict(x, which="selected")


def test_without_validation_rows_there_is_no_selected_model():
    result = run(spec_of(validation=0.0, rounds=1))
    with pytest.raises(UserError, match=r"--validation 0\.1"):
        result.trained("selected")


@pytest.mark.parametrize("name", ["model.json", "weights.safetensors", "personal.safetensors"])
@pytest.mark.parametrize("how", ["torn", "changed", "gone"])
def test_damage_is_told_and_mended(tmp_path, name, how):
    spec = spec_of(algorithm="ditto", rounds=2)
    made = run(spec, runs=tmp_path)
    before, path = contents(made.run_dir), made.run_dir / name
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    {"torn": lambda: path.write_bytes(data[:-9]), "changed": lambda: path.write_bytes(data), "gone": path.unlink}[
        how
    ]()
    with pytest.raises(UserError, match=name):
        unalike.load(made.run_dir)
    with pytest.raises(UserError, match=rf"{name}|has no model.json"):
        _ = made.personal(0) if name.startswith("personal") else made.model
    assert contents(run(spec, runs=tmp_path).run_dir) == before


def test_an_old_folder_says_what_to_do_and_that_is_right(tmp_path):
    spec = spec_of(rounds=2)
    made = run(spec, runs=tmp_path)
    before = contents(made.run_dir)
    (made.run_dir / "model.json").unlink()
    with pytest.raises(UserError, match=r"Remove its result.json and run it again with unalike run --spec"):
        _ = made.model
    (made.run_dir / "result.json").unlink()

    class Silent(Watcher):
        def round_done(self, row):
            raise AssertionError("a round was played again")

    run(spec, runs=tmp_path, watcher=Silent())
    assert contents(made.run_dir) == before


def test_models_that_take_too_much_room_are_not_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(kept, "MOST_BYTES", 1000)
    made = run(spec_of(algorithm="ditto", rounds=1), runs=tmp_path)
    assert not (made.run_dir / "personal.safetensors").exists()
    with pytest.raises(UserError, match="own models were not kept: 0 MB are more than 0"):
        made.personal(0)
    assert made.predict(unalike.load_dataset("heart").x_test[:2]).shape == (2,)


def test_models_that_parties_share_are_kept_once(tmp_path):
    made = run(spec_of(algorithm="ifca", rounds=1, dataset="digits", partition="iid", parties=8), runs=tmp_path)
    names = {name.partition("/")[0] for name in load_file(made.run_dir / "personal.safetensors")}
    assert len(names - {"parties", "all"}) <= 2


def test_parties_and_models_that_are_not_there():
    result = run(spec_of(rounds=1))
    for party in (4, "4", -1, "paris", ""):
        with pytest.raises(UserError, match=r"from 0 to 3, or one of cleveland"):
            result.personal(party)
    with pytest.raises(UserError, match="Unknown model 'best'"):
        result.trained("best")


def test_rows_that_do_not_fit():
    result = run(spec_of(rounds=1))
    x = unalike.load_dataset("heart").x_test
    with pytest.raises(UserError, match=r"rows of shape \(31,\), but the model reads rows of shape \(32,\)"):
        result.predict(x[:, 1:])
    with pytest.raises(UserError, match=r"Give one row as x\[None\]"):
        result.predict(x[0])
    with pytest.raises(UserError, match="NaN"):
        result.predict(np.where(x > 0, np.nan, x))
    with pytest.raises(UserError, match="no table of one's own"):
        result.predict("csv:new.csv")
    assert np.array_equal(result.predict(torch.from_numpy(x)), result.predict(x.tolist()))


def test_names_of_classes_that_are_numbers_are_numbers():
    result = run(dataset="digits", model="mlp(4)", rounds=1, epochs=1)
    data = unalike.load_dataset("digits")
    assert (result.predict(data.x_test) == data.y_test).mean() == result.accuracy


TABLE = "csv:patients.csv(label=outcome, party=hospital, missing=indicate)"


def patients(path, rows, seed, label=True, extra=()):
    rng = np.random.default_rng(seed)
    head = ["hospital", "age", "sex", *(["outcome"] if label else []), *extra]
    lines = [head]
    for _ in range(rows):
        age, sex = rng.normal(55, 9), rng.choice(["male", "female"])
        outcome = ["sick" if age + 9 * (sex == "male") > 60 else "well"] if label else []
        lines.append([rng.choice(["a", "b"]), f"{age:.1f}" if rng.random() > 0.05 else "", sex, *outcome, *extra])
    path.write_text("\n".join(",".join(map(str, line)) for line in lines) + "\n")


def test_a_table_is_coded_as_in_training_without_its_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    patients(tmp_path / "patients.csv", 200, 1)
    made = run(dataset=TABLE, partition="natural", model="mlp(4)", rounds=3, epochs=1, runs=tmp_path / "runs")
    data = unalike.load_dataset(TABLE)
    (tmp_path / "patients.csv").rename(tmp_path / "away.csv")
    loaded = unalike.load(made.spec.key[:6], runs=tmp_path / "runs")
    assert loaded.spec.dataset == made.spec.dataset
    assert right(loaded, data, data.x_test, data.y_test) == loaded.accuracy
    patients(tmp_path / "new.csv", 30, 2, label=False, extra=("note",))
    columns = read_table("new.csv")
    coded = data.schema.rows(columns, "error")
    assert np.array_equal(loaded.predict_proba("csv:new.csv"), loaded.predict_proba(coded))
    assert set(loaded.predict("new.csv")) <= {"sick", "well"}
    (tmp_path / "bad.csv").write_text("age,sex\n50,other\n")
    with pytest.raises(UserError, match=r"bad.csv: column sex: 'other' in line 2 is a category"):
        loaded.predict("csv:bad.csv")
    (tmp_path / "bad.csv").write_text("ages,sex\n50,male\n")
    with pytest.raises(UserError, match=r"column age: the model needs it.*is it 'ages'\?"):
        loaded.predict("csv:bad.csv")


def test_data_frames_and_labels_as_they_were_given(tmp_path):
    pandas = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    frame = pandas.DataFrame({"age": rng.normal(50, 9, 80), "sex": rng.choice(["m", "f"], 80)})
    for y in (frame["age"].to_numpy() > 50, np.where(frame["age"] > 50, "old", "young"), 3 + (frame["age"] > 50)):
        data = unalike.dataset(frame, np.asarray(y))
        made = run(dataset=data, model="mlp(4)", rounds=2, parties=2, runs=tmp_path)
        answers = unalike.load(made.run_dir).predict(frame)
        assert answers.dtype.kind == np.asarray(y).dtype.kind
        assert set(answers.tolist()) <= set(np.asarray(y).tolist())
    with pytest.raises(UserError, match="column sex: the model needs it"):
        made.predict(frame[["age"]])


class OwnModule(torch.nn.Module):
    """A net of one's own, as its author wrote it."""

    def __init__(self, shape, classes):
        super().__init__()
        self.out = torch.nn.Linear(4, classes)
        self.first = torch.nn.Linear(shape[0], 4)

    def forward(self, x):
        return self.out(torch.relu(self.first(x)))


def test_a_module_of_ones_own_comes_back_with_its_own_names(tmp_path):
    made = run(dataset="heart", model=OwnModule, rounds=1, runs=tmp_path)
    result = unalike.load(made.run_dir)
    (net,) = result.model.nets
    assert type(net) is OwnModule
    assert list(net.state_dict()) == ["out.weight", "out.bias", "first.weight", "first.bias"]
    data = unalike.load_dataset("heart")
    assert right(result, data, data.x_test, data.y_test) == result.accuracy
