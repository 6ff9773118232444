"""What a result says of itself."""

import dataclasses

import numpy as np
import pytest
from matplotlib.figure import Figure

import unalike
from unalike.errors import UserError


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    runs = tmp_path_factory.mktemp("runs")
    return unalike.run(
        dataset="heart", partition="natural", algorithm="fedprox(mu=0.1)", rounds=3, evaluate_every=2, runs=runs
    )


@pytest.fixture(scope="module")
def personal():
    return unalike.run(dataset="heart", partition="natural", algorithm="local", rounds=2)


def test_it_is_two_lines_that_say_what_and_how_good(result):
    what, how = repr(result).splitlines()
    assert what == "Result: fedprox(0.1) on heart, natural, seed 0"
    assert f"accuracy {100 * result.accuracy:.1f}%" in how
    assert "worst party" in how
    assert "after 3 rounds" in how
    assert str(result.run_dir) in how


def test_one_without_a_global_model_says_so(personal):
    assert "personal accuracy" in repr(personal)
    assert "kept in" not in repr(personal)


def test_its_curve_has_the_rounds_that_were_evaluated(result):
    assert [number for number, _ in result.curve] == [2, 3]
    assert result.curve[-1] == (3, result.accuracy)


def test_its_rounds_are_a_table(result):
    pytest.importorskip("pandas")
    assert list(result.rounds["round"]) == [1, 2, 3]
    assert result.rounds["accuracy"].iloc[-1] == result.accuracy
    assert result.rounds["parties.worst"].iloc[-1] == result.figures["parties"]["worst"]
    assert isinstance(result.rows, list)


def test_it_draws_on_the_axes_that_it_is_given(result):
    axes = Figure().subplots()
    assert result.plot(ax=axes) is axes
    assert list(axes.lines[0].get_xdata()) == [2, 3]
    assert axes.lines[0].get_ydata()[-1] == result.accuracy
    assert axes.get_ylabel() == "accuracy"
    worst = result.plot("parties.worst", Figure().subplots()).lines[0].get_ydata()[-1]
    assert worst == result.figures["parties"]["worst"]


def test_personal_models_are_drawn_where_there_is_no_global_one(personal):
    axes = personal.plot(ax=Figure().subplots())
    assert axes.lines[0].get_ydata()[-1] == personal.figures["personal"]["mean"]


@pytest.mark.parametrize("more", [{}, {"held_out": 0}, {"held_out": 0, "validation": 0}])
def test_without_test_rows_it_shows_what_comes_nearest(more):
    x = np.arange(80, dtype=np.float32).reshape(40, 2) / 40
    data = unalike.Dataset("mine", x, x.sum(axis=1) + 5, None, None, (), task="regression")
    result = unalike.run(data=data, rounds=3, parties=2, **more)
    assert result.score is None
    assert result.curve == []
    assert ("parties' rmse" if not more else "train loss") in repr(result)
    drawn = ["own, mean", "validation rmse", "train loss"][len(more)]
    assert result.plot(ax=Figure().subplots()).get_ylabel() == drawn
    assert "<polyline" in result._repr_html_()


def test_without_axes_it_makes_some(result):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    axes = result.plot()
    assert axes.figure.number in pyplot.get_fignums()
    pyplot.close(axes.figure)


def test_what_cannot_be_drawn_leaves_no_empty_figure(result):
    pyplot = pytest.importorskip("matplotlib.pyplot")
    before = pyplot.get_fignums()
    with pytest.raises(UserError):
        unalike.compare([result, unalike.run(dataset="heart", algorithm="local", rounds=1)]).plot("parties.worst")
    assert pyplot.get_fignums() == before


def test_a_wrong_figure_is_answered_with_the_nearest(result):
    with pytest.raises(UserError, match=r"parties\.worst"):
        result.plot("parties.worse")


def test_it_is_known_to_tables_as_its_folder_is(result):
    from unalike.runs.results import read_record

    kept = read_record(result.run_dir)
    here = dataclasses.replace(result.record, changed=kept.changed)
    assert (here.key, here.spec, here.value) == (kept.key, kept.spec, kept.value)
    assert len(here.rounds) == len(kept.rounds)
