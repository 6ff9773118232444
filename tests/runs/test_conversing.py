"""Protocols as runs: folder, figures and resume as nets have them, and one model for any split of rows."""

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.runs.toy_protocol import ToyPerceptron
from unalike.algorithms.protocol import NOTHING
from unalike.data import Dataset
from unalike.errors import UserError
from unalike.runs.conversing import Conversing
from unalike.runs.folder import RunDirectory
from unalike.runs.paused import Paused
from unalike.runs.playable import is_over
from unalike.runs.playing import playable
from unalike.runs.record import read_run
from unalike.runs.results import read_record
from unalike.runs.row_cast import APART, MERGED
from unalike.runs.run import Watcher, run
from unalike.runs.simulation import Simulation
from unalike.runs.small import small_dataset
from unalike.runs.spec import RunSpec

TOY = {"algorithm": "toy-perceptron", "model": "toy-linear", "partition": "natural", "rounds": 6}
TREES = {"algorithm": "histogram", "model": "trees(depth=2, bins=8, least_rows=2)", "partition": "natural"}
WHOLE = {"validation": 0.0, "held_out": 0.0}


def small(**fields):
    return run(data=small_dataset(), **{**TOY, **fields})


def comparable(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def numbers():
    """Numbers to predict, and some parties."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(120, 4)).astype(np.float32)
    y = 50 + 20 * (x @ np.array([1.0, -2.0, 0.5, 0.0])) + rng.normal(size=120)
    group = np.repeat([0, 1, 2], [20, 40, 60])
    names = ("a", "b", "c")
    return Dataset("numbers", x[:100], y[:100], x[100:], y[100:], (), (), group[:100], names, task="regression")


@pytest.mark.parametrize("settings", [TOY, {**TOY, "algorithm": "toy-quick"}, {**TREES, "rounds": 3}])
def test_every_split_of_rows_gives_the_same_model_on_both_engines(settings):
    found = set()
    for partition in ("natural", "iid", "label-dirichlet(0.3)"):
        parties = {} if partition == "natural" else {"parties": 4}
        for engine in (MERGED, APART):
            made = small(**settings | WHOLE | parties | {"partition": partition, "engine": engine}).figures
            found.add((made["model_sha256"], made["server_sha256"], made["accuracy"], made["engine"] == engine))
    assert len(found) == 1
    assert next(iter(found))[3]


@pytest.mark.parametrize("algorithm", ["toy-perceptron", "toy-quick", "histogram"])
def test_both_engines_count_the_same_bytes(algorithm):
    settings = TREES if algorithm == "histogram" else TOY | {"algorithm": algorithm}
    merged, apart = (small(**settings | {"rounds": 3, "engine": engine}) for engine in (MERGED, APART))
    assert comparable(merged.rows) == comparable(apart.rows)
    assert merged.figures["bytes_up"] > merged.figures["bytes_down"] > 0 or algorithm != "histogram"


def test_masks_change_neither_model_nor_engine_and_cost_keys():
    plain = small(**WHOLE)
    for engine in (MERGED, APART):
        masked = small(**WHOLE, channel="masked", engine=engine).figures
        assert masked["model_sha256"] == plain.figures["model_sha256"]
        assert masked["traffic"]["up"] == {**plain.figures["traffic"]["up"], "keys": 6 * 96}
        assert masked["bytes_down"] == plain.figures["bytes_down"] + 6 * 5 * 96


def test_figures_are_those_that_nets_have():
    ours = small().figures
    nets = run(data=small_dataset(), partition="natural", model="mlp(4)", rounds=2).figures
    assert nets.keys() - ours.keys() == set()
    assert ours.keys() - nets.keys() == {"model_sha256"}
    assert ours["parties"]["count"] == nets["parties"]["count"]


def test_scores_are_those_of_the_model_on_the_test_rows():
    """By hand: the perceptron of the server's steps, on the rows of the global test set."""
    played = playable(RunSpec(**TOY), data=small_dataset(), say=print)
    assert isinstance(played, Conversing)
    while not is_over(played):
        played.state, row = played.play_round()
    data, steps = played.federation.dataset, played.state.server["steps"].numpy().sum(axis=0)
    x = np.hstack([np.rint(np.float64(data.x_test) * 256), np.full((len(data.y_test), 1), 256)])
    assert row["accuracy"] == np.mean((x @ steps).argmax(axis=1) == data.y_test)
    rows = np.concatenate([party.validation for party in played.federation.parties])
    x = np.hstack([np.rint(np.float64(data.x[rows]) * 256), np.full((len(rows), 1), 256)])
    assert row["validation_accuracy"] == np.mean((x @ steps).argmax(axis=1) == data.y[rows])


def test_numbers_are_scored_in_their_own_units():
    found = run(data=numbers(), **{**TOY, "rounds": 40}).figures
    assert found["target"]["scale"] == pytest.approx(float(numbers().target.scale))
    assert 0.5 < found["rmse"] < 25
    assert found["rmse"] / found["target"]["scale"] == pytest.approx(np.sqrt(found["loss"]), rel=1e-6)
    boosted = run(data=numbers(), **{**TREES, "rounds": 30}).figures
    assert boosted["rmse"] < found["target"]["scale"]


def test_parties_that_train_alone_have_models_of_their_own(tmp_path):
    made = small(algorithm="toy-alone", runs=tmp_path).figures
    assert (made["accuracy"], made["bytes_up"], made["engine"]) == (None, 0, APART)
    assert len(made["personal"]["each"]) == 6
    assert "model_sha256" not in made
    local = small(algorithm="local", model="trees(depth=2, bins=8, least_rows=2)", rounds=2)
    assert local.figures["personal"]["count"] == 5
    assert local.figures["accuracy"] is None


def test_pooled_trees_are_those_of_sums_and_nothing_is_sent():
    pooled, sums = (small(**{**TREES, "algorithm": name, "rounds": 3}).figures for name in ("pooled", "histogram"))
    assert pooled["model_sha256"] == sums["model_sha256"]
    assert (pooled["bytes_up"], pooled["bytes_down"]) == (0, 0)
    assert sums["bytes_up"]


def test_newcomers_never_train_and_are_reported_apart():
    made = small(newcomers=0.34).figures
    everybody = small().figures
    assert made["newcomers"]["count"] + made["parties"]["count"] == everybody["parties"]["count"]
    assert made["model_sha256"] != everybody["model_sha256"]
    assert made["bytes_up"] < everybody["bytes_up"]


def test_rows_that_parties_draw_themselves_are_not_merged():
    said = []

    class Told(Watcher):
        def say(self, message):
            said.append(message)

    made = small(model="toy-linear(rows=0.5)", engine=MERGED, watcher=Told()).figures
    assert (made["engine"], made["why_this_engine"]) == (
        APART,
        "each party draws its own share of rows for a tree",
    )
    assert said == ["toy-perceptron is played party by party: each party draws its own share of rows for a tree."]


class Ends(ToyPerceptron):
    """Ends after its third round."""

    def finished(self, server):
        return "three are enough" if server["grown"][0] >= 3 else None


@pytest.fixture
def _ends_early(monkeypatch):
    monkeypatch.setattr(ToyPerceptron, "finished", Ends.finished)


@pytest.mark.usefixtures("_ends_early")
def test_a_run_that_ends_early_is_finished_everywhere(tmp_path):
    made = small(runs=tmp_path, evaluate_every=4)
    assert made.figures["stopped"] == {"round": 3, "why": "three are enough"}
    assert (made.figures["rounds"], len(made.rows)) == (3, 3)
    assert "auroc" in made.rows[-1], "the last round is evaluated, whichever it is"
    record = read_record(made.run_dir)
    assert (record.state, len(record.rounds)) == ("finished", 3)
    again = small(runs=tmp_path, evaluate_every=4)
    assert again.figures["weights_sha256"] == made.figures["weights_sha256"]
    (made.run_dir / "result.json").unlink()  # killed before its result was written: no round is played again
    after = small(runs=tmp_path, evaluate_every=4)
    assert {k: v for k, v in after.figures.items() if k != "seconds"} == {
        k: v for k, v in made.figures.items() if k != "seconds"
    }
    assert isinstance(small(runs=tmp_path / "other", evaluate_every=4, until=5).figures, dict)


def test_stopped_after_a_round_it_goes_on_to_the_same_bits(tmp_path):
    whole = small(runs=tmp_path / "whole")
    first = small(runs=tmp_path / "parts", until=2)
    assert isinstance(first, Paused)
    done = small(runs=tmp_path / "parts")
    assert comparable(done.rows) == comparable(whole.rows)
    left_out = {"seconds", "data_sha256"}
    assert {k: v for k, v in done.figures.items() if k not in left_out} == {
        k: v for k, v in whole.figures.items() if k not in left_out
    }
    files = ["model.json", "weights.safetensors"]
    assert [(done.run_dir / name).read_bytes() for name in files] == [
        (whole.run_dir / name).read_bytes() for name in files
    ]


def test_a_checkpoint_says_which_engine_it_is_of(tmp_path):
    """Merged and apart keep different states: a run goes on as it began."""
    spec = RunSpec(**TREES, rounds=4, engine=APART)
    data = small_dataset()
    run(spec, runs=tmp_path, data=data, until=2)
    said = []
    with RunDirectory.open(next(tmp_path.iterdir())) as folder:
        saved = folder.load_checkpoint(said.append)
    assert saved.meta["engine"] == APART
    assert sum(name.startswith("party/") for name in saved.tensors) > 6


def test_after_kill_9_it_goes_on_to_the_same_bits(tmp_path):
    code = (
        "import sys, time; sys.path.insert(0, sys.argv[2]); import tests.runs.toy_protocol\n"
        "from unalike.runs.conversing import Conversing\n"
        "from unalike.runs.run import run\n"
        "from unalike.runs.small import small_dataset\n"
        "import json; settings, play = json.loads(sys.argv[3]), Conversing.play_round\n"
        "Conversing.play_round = lambda self: (time.sleep(0.05), play(self))[1]\n"
        "run(data=small_dataset(), runs=sys.argv[1], checkpoint_seconds=0, **settings)\n"
    )
    root = str(Path(__file__).parents[2])
    settings = {**TREES, "rounds": 40}
    killed = subprocess.Popen([sys.executable, "-c", code, str(tmp_path / "killed"), root, json.dumps(settings)])
    while killed.poll() is None and not list((tmp_path / "killed").glob("*/checkpoint-000003*")):
        time.sleep(0.01)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    rounds = len(read_run(next((tmp_path / "killed").iterdir())).rounds)
    assert 3 <= rounds < 40
    done, straight = (small(**settings, runs=tmp_path / where) for where in ("killed", "straight"))
    assert comparable(done.rows) == comparable(straight.rows)
    assert done.figures["weights_sha256"] == straight.figures["weights_sha256"]


def test_a_protocol_that_changes_its_layout_is_told_so(monkeypatch):
    def lead(self, me, state, turn, inbox):
        return {**state, "more": state["rows"]}, NOTHING

    monkeypatch.setattr(ToyPerceptron, "lead", lead)
    with pytest.raises(UserError, match="changed what is kept as server/more"):
        small()


def test_rows_that_no_tree_can_read_are_refused():
    tokens = replace(
        small_dataset(), x=np.ones((125, 5), np.int64), x_test=np.ones((40, 5), np.int64), kind="tokens"
    )
    with pytest.raises(UserError, match="reads numbers, but the rows of small are tokens"):
        run(data=tokens, **TOY)
    with pytest.raises(UserError, match="splits columns, but toy-perceptron needs whole rows"):
        small(partition="vertical(2)")


def test_nets_are_still_simulated():
    assert isinstance(playable(RunSpec(partition="natural"), data=small_dataset(), say=print), Simulation)
