import dataclasses
import json
import re

import pytest
import safetensors.torch
import torch

import unalike
from unalike.errors import UserError
from unalike.models import MODELS
from unalike.runs.folder import RunDirectory
from unalike.runs.results import read_record
from unalike.runs.run import Watcher, run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

SPEC = RunSpec(dataset="heart", partition="natural", model="mlp(4)", rounds=6, epochs=1, seed=2)


class Stop(Exception):
    pass


class StopsAfter(Watcher):
    def __init__(self, number):
        self.number, self.said, self.rows = number, [], []

    def round_done(self, row):
        self.rows.append(row)
        if row["round"] == self.number:
            raise Stop

    def say(self, message):
        self.said.append(message)


def comparable(rows):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in rows]


def test_in_memory_and_recorded_are_the_same(tmp_path):
    memory, recorded = run(SPEC), run(SPEC, runs=tmp_path)
    assert memory.figures["weights_sha256"] == recorded.figures["weights_sha256"]
    assert comparable(memory.rows) == comparable(recorded.rows)
    assert memory.run_dir is None
    assert recorded.run_dir == tmp_path / SPEC.folder


def test_the_folder_holds_what_is_promised(tmp_path):
    result = run(SPEC, runs=tmp_path)
    folder = result.run_dir
    assert RunSpec.from_toml(folder / "spec.toml") == SPEC
    lines = [json.loads(line) for line in (folder / "rounds.jsonl").read_text().splitlines()]
    assert [line["round"] for line in lines] == [1, 2, 3, 4, 5, 6]
    needed = {"loss", "accuracy", "bytes_up", "bytes_down", "seconds", "parties"}
    assert all(needed <= line.keys() for line in lines)
    net = MODELS.build("mlp(4)").build((32,), 2)
    net.load_state_dict(safetensors.torch.load_file(folder / "weights.safetensors"))  # loads into plain PyTorch
    data = unalike.load_dataset("heart")
    correct = net(torch.from_numpy(data.x_test))[0].argmax(1) == torch.from_numpy(data.y_test)
    assert correct.double().mean().item() == pytest.approx(result.accuracy)
    assert list(folder.glob("checkpoint-*.safetensors"))
    figures = json.loads((folder / "result.json").read_text())
    assert figures["key"] == SPEC.key


@pytest.mark.parametrize("stop", [1, 3, 5])
@pytest.mark.parametrize("seconds", [0.0, 1000.0])
def test_resume_is_exact(tmp_path, stop, seconds):
    whole = run(SPEC)
    with pytest.raises(Stop):
        run(SPEC, runs=tmp_path, watcher=StopsAfter(stop), checkpoint_seconds=seconds)
    watcher = StopsAfter(99)
    resumed = run(SPEC, runs=tmp_path, watcher=watcher)
    assert resumed.figures["weights_sha256"] == whole.figures["weights_sha256"]
    assert comparable(resumed.rows) == comparable(whole.rows)
    assert f"after round {stop}" in watcher.said[0]
    assert [row["round"] for row in watcher.rows] == list(range(stop + 1, 7))


def test_a_finished_run_is_not_played_again(tmp_path, monkeypatch):
    first = run(SPEC, runs=tmp_path)
    monkeypatch.setattr(Simulation, "play_round", lambda self: pytest.fail("played again"))
    assert run(SPEC, runs=tmp_path).figures == first.figures


@pytest.mark.parametrize("damage", ["weights.safetensors", "result.json"])
def test_a_damaged_result_is_made_anew(tmp_path, damage):
    first = run(SPEC, runs=tmp_path)
    path = first.run_dir / damage
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)
    again = run(SPEC, runs=tmp_path)
    assert again.figures["weights_sha256"] == first.figures["weights_sha256"]
    assert path.read_bytes() != content


def test_a_damaged_checkpoint_falls_back_to_the_one_before(tmp_path):
    whole = run(SPEC)
    with pytest.raises(Stop):
        run(SPEC, runs=tmp_path, watcher=StopsAfter(4), checkpoint_seconds=0.0)
    newest = sorted((tmp_path / SPEC.folder).glob("checkpoint-*.safetensors"))[-1]
    newest.write_bytes(newest.read_bytes()[:-10])
    watcher = StopsAfter(99)
    resumed = run(SPEC, runs=tmp_path, watcher=watcher)
    assert any("damaged" in said for said in watcher.said)
    assert resumed.figures["weights_sha256"] == whole.figures["weights_sha256"]
    assert comparable(resumed.rows) == comparable(whole.rows)


def test_a_resumed_run_stays_on_its_engine(tmp_path):
    spec = RunSpec.from_mapping({**SPEC.to_dict(), "engine": "auto"})
    sequential = run(RunSpec.from_mapping({**SPEC.to_dict(), "engine": "sequential"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.engines.choose.SHORT", 1e9)  # a machine whose rule says sequential
        with pytest.raises(Stop):
            run(spec, runs=tmp_path, watcher=StopsAfter(3), checkpoint_seconds=0.0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("unalike.engines.choose.SHORT", 0.0)  # one whose rule says vectorised
        assert run(spec).figures["engine"] == "vectorised"
        resumed = run(spec, runs=tmp_path)
    assert resumed.figures["engine"] == "sequential"
    assert "checkpoint" in resumed.figures["why_this_engine"]
    assert resumed.figures["weights_sha256"] == sequential.figures["weights_sha256"]


def test_own_data_have_a_folder_of_their_own(tmp_path, monkeypatch):
    data = unalike.load_dataset("heart")
    with pytest.raises(Stop):
        run(SPEC, runs=tmp_path, data=data, watcher=StopsAfter(3), checkpoint_seconds=0.0)
    result = run(SPEC, runs=tmp_path, data=unalike.load_dataset("heart"))  # the same rows, given again
    assert result.spec.dataset.startswith("given(")
    assert result.figures["weights_sha256"] == run(SPEC).figures["weights_sha256"]
    assert [path.name for path in tmp_path.iterdir()] == [result.spec.folder]
    assert RunSpec.from_toml(result.run_dir / "spec.toml") == result.spec == run(SPEC, data=data).spec
    with monkeypatch.context() as patch:
        patch.setattr(Simulation, "play_round", lambda self: pytest.fail("played again"))
        assert run(result.spec, runs=tmp_path, data=data).figures == result.figures
    others = {
        "rows": dataclasses.replace(data, x=data.x + 1),
        "labels": dataclasses.replace(data, y=1 - data.y),
        "parties": dataclasses.replace(data, group=data.group[::-1].copy()),
        "scale": dataclasses.replace(data, scale=data.scale * 2),
    }
    for name, other in others.items():
        assert run(SPEC, data=other, runs=tmp_path).run_dir != result.run_dir, name
        with pytest.raises(UserError, match="Give the same rows again"):
            run(result.spec, data=other)
    assert len(list(tmp_path.iterdir())) == 5
    with pytest.raises(UserError, match=r"given by a Python program .* unalike\.dataset"):
        run(RunSpec.from_mapping({**result.spec.to_dict(), "seed": 3}), runs=tmp_path)


def test_threads_are_given_back():
    before = torch.get_num_threads()
    run(RunSpec.from_mapping({**SPEC.to_dict(), "rounds": 1, "threads": before + 1}))
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("seconds", [float("nan"), float("inf"), -1.0])
def test_seconds_that_are_none(tmp_path, seconds):
    with pytest.raises(UserError, match=f"--checkpoint-seconds must be .* got {seconds}"):
        run(SPEC, runs=tmp_path, checkpoint_seconds=seconds)
    assert not list(tmp_path.iterdir())


def test_runs_without_a_name():
    with pytest.raises(UserError, match="--runs must name a folder"):
        run(SPEC, runs="")


def test_fields_make_a_spec():
    result = unalike.run(dataset="heart", partition="natural", rounds=1, steps=1)
    assert result.spec == RunSpec(dataset="heart", partition="natural", rounds=1, steps=1)
    with pytest.raises(UserError, match="Did you mean 'rounds'"):
        unalike.run(round=1)


def test_learning_happens():
    """Not a figure of ours: a linear classifier by scikit-learn on the same patients is the yardstick."""
    from sklearn.linear_model import LogisticRegression

    data = unalike.load_dataset("heart")
    reference = LogisticRegression(max_iter=2000).fit(data.x, data.y).score(data.x_test, data.y_test)
    result = unalike.run(dataset="heart", partition="natural", rounds=40, steps=10, lr=0.02, seed=0)
    assert result.accuracy > reference - 0.05


def test_a_spec_that_cannot_be_built_leaves_no_folder(tmp_path):
    with pytest.raises(UserError, match="simple-cnn"):
        run(dataset="heart", model="simple-cnn", runs=tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_of_another_run_is_not_believed(tmp_path):
    other = RunSpec.from_mapping({**SPEC.to_dict(), "seed": 9})
    for spec in (SPEC, other):
        run(spec, runs=tmp_path)
    mine, foreign = tmp_path / SPEC.folder, tmp_path / other.folder
    expected = run(SPEC).figures["weights_sha256"]
    (mine / "result.json").unlink()
    for path in mine.glob("checkpoint-*"):
        path.unlink()
    for path in foreign.glob("checkpoint-*"):
        (mine / path.name).write_bytes(path.read_bytes())
    watcher = StopsAfter(99)
    assert run(SPEC, runs=tmp_path, watcher=watcher).figures["weights_sha256"] == expected
    assert any("another run" in said for said in watcher.said)


@pytest.mark.parametrize("origin", ["version", "data"])
def test_a_checkpoint_of_another_version_or_of_other_data_is_not_believed(tmp_path, monkeypatch, origin):
    with pytest.raises(Stop):
        run(SPEC, runs=tmp_path, watcher=StopsAfter(3), checkpoint_seconds=0.0)
    if origin == "version":
        monkeypatch.setattr(unalike, "__version__", "9.9")
    else:
        monkeypatch.setattr(unalike.Dataset, "digest", "other")
    watcher = StopsAfter(99)
    run(SPEC, runs=tmp_path, watcher=watcher)
    assert [row["round"] for row in watcher.rows] == [1, 2, 3, 4, 5, 6]
    assert any("damaged" in said for said in watcher.said)


@pytest.mark.parametrize("edit", ["gap", "end", "gone", "empty row", "double", "beyond"])
def test_edited_rounds_are_played_again(tmp_path, edit):
    whole = run(SPEC, runs=tmp_path)
    folder = tmp_path / SPEC.folder
    file = folder / "rounds.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    changed = {
        "gap": lines[:2] + lines[3:],
        "end": lines[:4],
        "gone": [],
        "empty row": [*lines[:2], '{"round": 3}\n', *lines[3:]],
        "double": [*lines[:3], lines[2], *lines[3:]],
        "beyond": [*lines, lines[-1].replace('"round": 6', '"round": 99')],
    }[edit]
    file.write_text("".join(changed))
    (folder / "result.json").unlink()
    again = run(SPEC, runs=tmp_path)
    for key in ("rounds", "bytes_up", "accuracy", "loss", "weights_sha256", "selected"):
        assert again.figures[key] == whole.figures[key]
    assert comparable(again.rows) == comparable(whole.rows)


def another_accuracy(text):
    return re.sub(r'"accuracy": [0-9.]+', '"accuracy": 0.95', text)


def another_last_key(text):
    return '"seconds_"'.join(text.rsplit('"seconds"', 1))


EDITS = {
    "an accuracy in the result": ("result.json", another_accuracy, True),
    "a key in the result": ("result.json", lambda text: text.replace('"degrees"', '"degree"'), True),
    **{
        f"{what} {'of a finished run' if finished else 'of a stopped run'}": ("rounds.jsonl", edit, finished)
        for finished in (True, False)
        for what, edit in {
            "an accuracy in a round": another_accuracy,
            "a key in a round": lambda text: text.replace('"bytes_up"', '"bytes_op"'),
            "a key in the last round": another_last_key,
        }.items()
    },
}


@pytest.mark.parametrize(("name", "edit", "finished"), EDITS.values(), ids=EDITS)
def test_edited_values_are_never_shown_and_the_run_is_mended(tmp_path, name, edit, finished):
    whole = run(SPEC, runs=tmp_path)
    folder = whole.run_dir
    if not finished:
        (folder / "result.json").unlink()
    path = folder / name
    changed = edit(path.read_text())
    assert changed != path.read_text()
    path.write_text(changed)
    watcher = StopsAfter(99)
    again = run(SPEC, runs=tmp_path, watcher=watcher)
    assert name in watcher.said[0]
    assert not any("\n" in said for said in watcher.said)
    exact = ("accuracy", "loss", "bytes_up", "weights_sha256", "weights_file_sha256", "selected", "parties")
    assert {key: again.figures[key] for key in exact} == {key: whole.figures[key] for key in exact}
    assert comparable(again.rows) == comparable(whole.rows)
    assert (folder / f"{name}.damaged").read_text() == changed
    silent = StopsAfter(99)
    assert run(SPEC, runs=tmp_path, watcher=silent).figures == again.figures
    assert (silent.said, silent.rows) == ([], [])


def test_rows_of_other_data_are_not_kept(tmp_path, monkeypatch):
    """The checkpoint is refused; the rows that were recorded with it are not of this run either."""
    with pytest.raises(Stop):
        run(SPEC, runs=tmp_path, watcher=StopsAfter(3), checkpoint_seconds=0.0)
    spoilt = unalike.load_dataset("heart")
    flipped = dataclasses.replace(spoilt, y=1 - spoilt.y, y_test=1 - spoilt.y_test)
    found = run(SPEC, runs=tmp_path, load=lambda text: flipped)
    assert comparable(found.rows) == comparable(run(SPEC, data=flipped).rows)


def test_identical_runs_have_identical_files_of_weights(tmp_path):
    files = [run(SPEC, runs=tmp_path / name).run_dir / "weights.safetensors" for name in "abcde"]
    assert len({file.read_bytes() for file in files}) == 1


def test_a_finished_run_needs_no_lock(tmp_path):
    first = run(SPEC, runs=tmp_path)
    with RunDirectory.open(tmp_path / SPEC.folder):  # somebody else is in there
        assert run(SPEC, runs=tmp_path).figures == first.figures


def test_threads_after_a_fallback_are_those_of_a_run_that_goes_on(monkeypatch):
    """Otherwise sums inside an operation would have other bits after a stop than without one."""

    def fails(self, workers, orders):
        raise RuntimeError("no vmap rule")

    monkeypatch.setattr("unalike.engines.vectorised.Vectorised.answer", fails)
    seen = []

    class Looks(Watcher):
        def round_done(self, row):
            seen.append(torch.get_num_threads())

    fields = {"rounds": 2, "threads": 3, "engine": "vectorised"}
    result = run(RunSpec.from_mapping({**SPEC.to_dict(), **fields}), watcher=Looks())
    assert "vmap" in result.figures["why_this_engine"]
    assert seen == [1, 1]


def test_a_failure_is_forgotten_when_the_run_gets_further(tmp_path):
    from unalike.cli.store import read_runs
    from unalike.runs.run import record_failure

    record_failure(tmp_path, SPEC, "data not found", final=False)
    assert [each.state for each in read_runs(tmp_path)] == ["failed"]
    with pytest.raises(Stop):
        run(SPEC, runs=tmp_path, watcher=StopsAfter(2), checkpoint_seconds=0.0)
    assert [each.state for each in read_runs(tmp_path)] == ["stopped"]


def test_a_run_of_a_time_before_an_option_goes_on(tmp_path):
    fields = {"dataset": "digits", "model": "mlp(4)", "rounds": 3, "steps": 2, "engine": "sequential"}
    whole = run(**fields)
    with pytest.raises(Stop):
        run(**fields, runs=tmp_path, watcher=StopsAfter(2))
    (folder,) = tmp_path.iterdir()
    spec = folder / "spec.toml"
    spec.write_text("".join(line for line in spec.read_text().splitlines(True) if not line.startswith("augment")))
    watcher = StopsAfter(99)
    later = run(**fields, runs=tmp_path, watcher=watcher)
    assert "Going on after round 2 of 3." in watcher.said
    assert later.figures["weights_sha256"] == whole.figures["weights_sha256"]
    assert read_record(folder).spec["augment"] == "none"
    assert read_record(folder).state == "finished"


def test_data_and_the_name_of_a_data_set():
    with pytest.raises(UserError, match="given data and the data set 'digits'"):
        run(data=unalike.load_dataset("wine"), dataset="digits", rounds=1)
