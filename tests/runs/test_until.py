"""A run that is stopped after a round goes on from there: no round twice, the same bits, the same folder."""

import dataclasses

import pytest

from unalike.errors import UserError
from unalike.runs.paused import Paused
from unalike.runs.result import Result
from unalike.runs.results import read_record
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.runs.spec import RunSpec

SPEC = RunSpec(dataset="heart", partition="natural", model="mlp(4)", rounds=6, epochs=1, seed=2)


@pytest.fixture
def played(monkeypatch):
    """The numbers of the rounds that were really played."""
    numbers, play = [], Simulation.play_round

    def counted(self):
        numbers.append(self.state.round + 1)
        return play(self)

    monkeypatch.setattr(Simulation, "play_round", counted)
    return numbers


def comparable(rows):
    return [{name: value for name, value in row.items() if name != "seconds"} for row in rows]


def test_rung_by_rung_is_the_whole_run_and_no_round_is_played_twice(tmp_path, played):
    first = run(SPEC, runs=tmp_path, until=2)
    assert (first.round, first.rounds_left, first.run_dir) == (2, 4, tmp_path / SPEC.folder)
    second = run(SPEC, runs=tmp_path, until=5)
    assert second.round == 5
    whole = run(SPEC, runs=tmp_path)
    assert played == [1, 2, 3, 4, 5, 6]
    assert isinstance(whole, Result)
    straight = run(SPEC, runs=tmp_path / "other")
    assert whole.figures["weights_sha256"] == straight.figures["weights_sha256"]
    assert comparable(whole.rows) == comparable(straight.rows)
    assert [path.name for path in tmp_path.iterdir() if path.name != "other"] == [SPEC.folder]


def test_what_is_not_finished_does_not_look_finished(tmp_path):
    stopped = run(SPEC, runs=tmp_path, until=3)
    assert isinstance(stopped, Paused)
    assert not isinstance(stopped, Result)
    assert not {"figures", "score", "accuracy"} & set(dir(stopped))
    assert not (stopped.run_dir / "result.json").exists()
    assert not (stopped.run_dir / "weights.safetensors").exists()
    record = read_record(stopped.run_dir)
    assert (record.state, len(record.rounds)) == ("unfinished", 3)


def test_a_run_that_is_further_says_so_and_plays_nothing(tmp_path, played):
    run(SPEC, runs=tmp_path, until=4)
    again = run(SPEC, runs=tmp_path, until=2)
    assert (again.round, len(again.rows)) == (4, 4)
    assert played == [1, 2, 3, 4]
    assert isinstance(run(SPEC, runs=tmp_path, until=6), Result)
    assert isinstance(run(SPEC, runs=tmp_path, until=1), Result)  # it is finished, whatever is asked for
    assert played == [1, 2, 3, 4, 5, 6]


def test_the_last_round_is_evaluated_as_that_of_the_whole_run(tmp_path):
    spec = dataclasses.replace(SPEC, evaluate_every=4)
    stopped = run(spec, runs=tmp_path, until=3)
    assert all("accuracy" not in row for row in stopped.rows)


@pytest.mark.parametrize("until", [0, 7, -1, True, 2.5, "3"])
def test_a_round_that_the_run_does_not_have_is_refused(tmp_path, until):
    with pytest.raises(UserError, match="until must be a round from 1 to 6"):
        run(SPEC, runs=tmp_path, until=until)
    assert not list(tmp_path.iterdir())


def test_a_stop_without_a_folder_is_refused():
    with pytest.raises(UserError, match="runs=FOLDER"):
        run(SPEC, until=2)
