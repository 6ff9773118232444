"""A search with runs that are really trained: rounds are counted, budgets are equal, what was chosen is played."""

from pathlib import Path

import pytest

import unalike
from tests.studies.tuning.fake_trials import finish, look, study
from unalike.errors import UserError
from unalike.runs.result import Result
from unalike.runs.run import run
from unalike.runs.simulation import Simulation
from unalike.studies.plan import plan_study
from unalike.studies.study import study_results
from unalike.studies.study_file import read_study
from unalike.studies.tuning.result import TunedAlgorithm
from unalike.studies.tuning.tune import tuning_plan, tuning_result

SMALL = {
    "dataset": "heart",
    "partition": "natural",
    "model": "mlp(4)",
    "rounds": 3,
    "steps": 1,
    "engine": "sequential",
}
SPACE = {"lr": "log(1e-2, 1)", "algorithm.mu": [0.1, 1.0]}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Two algorithms, tuned in this process, and the rounds that were played."""
    runs, numbers, play = tmp_path_factory.mktemp("tuned"), [], Simulation.play_round

    def counted(self):
        numbers.append((self.spec.key, self.state.round + 1))
        return play(self)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Simulation, "play_round", counted)
        options = {"algorithms": ["fedavg", "fedprox"], "trials": 3, "seeds": [100, 101], **SMALL}
        result = unalike.tune(SPACE, runs=runs, **options)
        once = list(numbers)
        again = unalike.tune(SPACE, runs=runs, **options)
    return result, once, again, numbers


def test_no_round_is_played_twice_and_again_none_at_all(found):
    result, once, again, both = found
    assert len(once) == len(set(once)) == sum(one.rounds for one in result.tuned)
    assert both == once
    assert again.to_dict() == result.to_dict()


def test_every_algorithm_has_the_same_budget_and_spends_it(found):
    result = found[0]
    searches = [one.search for one in result.tuned]
    assert len({(each.allowance, each.spent, each.parties) for each in searches}) == 1
    untuned = 2 * 3
    assert {one.rounds for one in result.tuned} == {searches[0].spent + untuned}


def test_the_winner_is_told_beside_the_untuned_run_on_the_same_seeds(found):
    result = found[0]
    for one in result.tuned:
        assert one.score >= one.untuned
        assert all(value in one.why for value in ("untuned", "100, 101", "lr log(0.01, 1)"))
        record = one.record()
        assert {"trials", "budget", "space", "seeds", "rungs", "rounds_played", "score"} <= record.keys()
        assert (record["trials"], record["parties"]) == (3, 4)
    assert result.best.score == max(one.score for one in result.tuned)


def test_a_trial_that_came_to_its_end_is_a_finished_run(found):
    one = found[0].tuned[1]
    spec = one.chosen.runs[0].spec
    assert isinstance(run(spec, runs=found[0].runs, until=1), Result)
    assert found[0].spec(100, "fedprox") == spec


def test_what_was_chosen_is_a_study_with_the_reporting_seeds(found):
    result = found[0]
    chosen = read_study("chosen", result.to_toml(), "chosen.toml")
    goals = plan_study(chosen).goals
    assert [goal.planned.spec for goal in goals] == [
        result.spec(seed, one.algorithm) for one in result.tuned for seed in (0, 1, 2)
    ]
    for goal in goals:
        run(goal.planned.spec, runs=result.runs)
    results = study_results(chosen, result.runs)
    (setting,) = results.settings  # though learning rates differ
    assert [len(line.finished) for line in setting.lines] == [3, 3]
    assert set(results.tuned) == {"fedavg", "fedprox"}
    assert results.tuned["fedprox"].how == result.tuned[1].why
    assert results.tuned["fedprox"].validation["untuned"] == pytest.approx(result.tuned[1].untuned)


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("seeds = [\n    0,", "seeds = [\n    101,", "for tuning and for reporting"),
        ("[axes]", "[axes]\nlr = [0.1]", "axes.lr sets lr, which is tuned"),
        ('why = "', 'rounds = 3\nwhy = "', "nothing that is tuned"),
        ('why = "', 'why = 3\nlost = "', "chosen"),
    ],
)
def test_a_study_of_chosen_values_that_was_spoilt_is_refused(found, old, new, said):
    text = found[0].to_toml()
    assert old in text
    with pytest.raises(UserError, match=said):
        read_study("chosen", text.replace(old, new, 1), "chosen.toml")


def test_an_algorithm_that_was_not_tuned_has_no_spec(found):
    with pytest.raises(UserError, match="was not tuned"):
        found[0].spec(0, "scaffold")


def test_rows_of_your_own(tmp_path):
    data = unalike.load_dataset("heart")
    result = unalike.tune(
        {"lr": [0.01, 0.1]}, data=data, runs=tmp_path, seeds=[9], **{**SMALL, "dataset": "digits"}
    )
    assert result.study.base["dataset"].startswith("given(")
    assert len(result.tuned[0].trials) == 3


def test_rows_that_other_processes_do_not_have_are_refused(tmp_path):
    with pytest.raises(UserError, match="Other processes do not have these data"):
        unalike.tune({"lr": [0.1, 0.2]}, data=unalike.load_dataset("heart"), runs=tmp_path, workers=2)


def test_a_diverging_trial_loses(tmp_path):
    result = unalike.tune({"lr": [0.1, 1e6]}, runs=tmp_path, seeds=[9], **SMALL)
    (one,) = result.tuned
    bad = next(each.number for each in one.trials[1:] if each.values["lr"] == 1e6)
    assert one.winner != bad
    assert one.score is not None


def test_missing_data_are_said_in_a_line(tmp_path):
    with pytest.raises(UserError, match="data not found"):
        unalike.tune({"lr": [0.1, 1.0]}, runs=tmp_path, dataset="csv:nowhere.csv(label=y)")


def test_epsilon_is_summed_over_all_runs(tmp_path):
    made = tuning_plan(study(("lr=0.1,0.2,0.3",), trials=3, seeds=(100, 101), channel="clip(1.0)+gauss(0.8)"))
    finish(made, tmp_path)
    (search,) = made.tunings
    seen = look(tmp_path)

    def with_epsilon(planned):
        record = seen(planned)
        for row in record.rounds:
            row["epsilon"] = 0.5 * row["round"]
        return record

    one = TunedAlgorithm(search, {each.key: with_epsilon(each) for each in search.runs()})
    epsilon, delta = one.epsilon
    assert epsilon == pytest.approx(0.5 * one.rounds)
    assert delta == pytest.approx(len({each.key for each in search.runs()}) * 1e-5)
    assert one.record()["epsilon"] == epsilon
    assert "noise" not in one.why


def test_without_noise_there_is_no_epsilon(tmp_path):
    searched = study(("lr=0.1,0.2",), trials=2, seeds=(100,))
    made = tuning_plan(searched)
    finish(made, Path(tmp_path))
    assert tuning_result(searched, made, tmp_path).tuned[0].epsilon is None
