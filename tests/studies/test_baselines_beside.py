"""One flag or key puts the baselines beside every algorithm of a study, and means over the last rounds."""

from __future__ import annotations

import pytest

from unalike.errors import UserError
from unalike.runs.by_party import ending, is_personal, on_test_set, over_parties
from unalike.runs.results import Line, Record
from unalike.studies.plan import plan_study
from unalike.studies.study_file import load_study, read_study


def names(text, *, flag=False):
    """The algorithms of a study's runs, with the learning rate of each."""
    study = read_study("mine", f"title = 'x'\n{text}", "mine.toml")
    assert study.baselines is not flag
    return [(goal.planned.spec.algorithm, goal.planned.spec.lr) for goal in plan_study(study).goals]


def test_every_setting_gets_the_baselines_that_it_lacks():
    found = names("baselines = true\n[axes]\nlr = [0.1, 0.2]\nalgorithm = ['scaffold', 'fedavg-tuned(epochs=3)']")
    for lr in (0.1, 0.2):
        own = [name.partition("(")[0] for name, rate in found if rate == lr]
        assert sorted(own) == ["fedavg", "fedavg-tuned", "local", "pooled", "scaffold"]
    assert ("fedavg-tuned(epochs=3)", 0.1) in found


def test_baselines_that_are_there_in_any_spelling_are_not_there_twice():
    found = names("baselines = true\n[axes]\nalgorithm = [{name = 'fedavg'}, 'local', 'pooled()']")
    assert len(found) == 4
    assert len(names("baselines = true")) == 4


def test_a_run_that_tunes_has_no_tuned_fedavg_and_nets_that_differ_only_train_alone():
    assert len(names("baselines = true\n[base]\nfine_tune = 1")) == 3
    two = "baselines = true\n[base]\nmodel = ['mlp(4)', 'mlp(5)']\n[axes]\nalgorithm = ['local']"
    assert len(names(two)) == 1


def test_the_flag_says_the_same():
    assert not load_study("quick").baselines
    assert load_study("quick", baselines=True).baselines


@pytest.mark.parametrize("text", ["last", "last 0", "best 10", "last -1", "last ten"])
def test_a_figure_is_the_last_rounds(text):
    with pytest.raises(UserError, match=r'mine.toml: figure must be "last" and a number of rounds'):
        read_study("mine", f"title = 'x'\nfigure = '{text}'", "mine.toml")
    assert read_study("mine", "title = 'x'\nfigure = 'last 10'", "mine.toml").last == 10
    with pytest.raises(UserError, match="baselines must be true or false, got 'yes'"):
        read_study("mine", "title = 'x'\nbaselines = 'yes'", "mine.toml")


def record(rows, seed=0):
    """A finished run whose rounds have these personal means (None: not evaluated)."""
    rounds = [
        {"round": number, "accuracy": value / 2, "personal": {"mean": value}}
        if value is not None
        else {"round": number}
        for number, value in enumerate(rows, 1)
    ]
    return Record("k", {"seed": seed}, "finished", {**rounds[-1], "newcomers": {"mean": 0.25}}, tuple(rounds))


def test_figures_are_means_over_the_last_rounds_that_were_evaluated():
    line = Line("x", (record([0.0, 0.2, None, 0.4, 0.6]), record([1.0, 0.0, 0.0, 0.0, 0.3], seed=1)))
    assert over_parties(line, "own rows").mean == pytest.approx(100 * (0.6 + 0.3) / 2)
    assert over_parties(line, "own rows", 3).mean == pytest.approx(100 * (0.4 + 0.1) / 2)
    assert on_test_set(line, 3).mean == pytest.approx(50 * (0.4 + 0.1) / 2)
    assert [row["round"] for row in ending(line.records[0], 2)] == [4, 5]
    assert over_parties(line, "worst tenth") is None
    assert over_parties(line, "newcomers").mean == 25.0
    assert over_parties(line, "newcomers").seeds == 2
    assert is_personal(line)
    assert not is_personal(Line("x", ()))
