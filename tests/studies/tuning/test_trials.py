"""Which dimensions mean something for an algorithm, and what becomes of a trial's values."""

import pytest

from tests.studies.tuning.fake_trials import plan, study
from unalike.errors import UserError
from unalike.runs.spec import RunSpec
from unalike.studies.plan import plan_study
from unalike.studies.study_file import read_study
from unalike.studies.tuning.binding import Binding
from unalike.studies.tuning.space import parse_space

SPACE = ("lr=log(1e-3,1)", "optimiser.momentum=0,0.5,0.9", "algorithm.mu=log(1e-3,1)", "epochs=uniform(1,3)")


def bound(*texts, written="fedprox", **fields):
    return Binding(parse_space(texts), RunSpec.from_mapping({"algorithm": written, **fields}), written)


def test_every_algorithm_has_its_own_dimensions_and_the_same_budget():
    made = plan(SPACE, ("fedavg", "fedprox", "fedprox(mu=0.5)"), trials=5)
    names = [[one.name for one in search.dimensions] for search in made.tunings]
    assert names == [["lr", "optimiser.momentum", "epochs"], [one.split("=")[0] for one in SPACE], names[0]]
    assert len({search.allowance for search in made.tunings}) == 1
    assert len({search.spent for search in made.tunings}) == 1
    fixed = made.tunings[2].candidates[1].runs[0].spec
    assert fixed.algorithm == "fedprox(mu=0.5)"


def test_algorithms_try_the_same_learning_rates():
    made = plan(SPACE, ("fedavg", "fedprox"), trials=5)
    one, other = ([each.values["lr"] for each in search.candidates[1:]] for search in made.tunings)
    assert one == other
    assert len(set(one)) == 5


def test_a_trial_is_the_same_whatever_the_number_of_trials():
    few, many = (plan(SPACE, ("fedprox",), trials=count).tunings[0].candidates for count in (3, 8))
    assert [each.values for each in few] == [each.values for each in many[:4]]
    other = plan(SPACE, ("fedprox",), trials=3, draw_seed=1).tunings[0].candidates
    assert [each.values for each in few][1:] != [each.values for each in other][1:]


def test_a_trial_is_an_ordinary_run_with_all_its_rounds():
    made = plan(SPACE, ("fedprox",), trials=2, seeds=(7, 8), dataset="heart", partition="natural")
    for candidate in made.tunings[0].candidates:
        assert [run.spec.seed for run in candidate.runs] == [7, 8]
        assert {run.spec.rounds for run in candidate.runs} == {9}
    drawn = made.tunings[0].candidates[1]
    spec = drawn.runs[0].spec
    assert (spec.lr, spec.epochs, spec.steps) == (drawn.values["lr"], drawn.values["epochs"], None)
    assert f"momentum={float(drawn.values['optimiser.momentum'])}" in spec.optimiser
    assert spec.algorithm == f"fedprox(mu={drawn.values['algorithm.mu']})"


def test_a_small_space_is_tried_whole_and_no_point_twice():
    made = plan(("lr=0.1,0.2,0.3", "epochs=uniform(1,2)"), trials=50)
    (search,) = made.tunings
    points = {tuple(each.values.values()) for each in search.candidates[1:]}
    assert len(points) == len(search.candidates) - 1 == 6
    assert len(search.rungs) == 1  # the budget of fifty pays for all rounds of six


def test_nothing_to_tune_leaves_the_untuned_run():
    made = plan(("fedprox.mu=0.1,1",), ("fedavg", "fedprox"), trials=2)
    assert [len(search.candidates) for search in made.tunings] == [1, 3]
    assert made.tunings[0].how.startswith("nothing in the space")


def test_a_parameter_that_a_tried_part_lacks_is_left_out():
    both = bound("optimiser=sgd|adam", "optimiser.momentum=0.1,0.2")
    assert both.fields({"optimiser": "adam", "optimiser.momentum": 0.1})["optimiser"].startswith("adam")
    assert "momentum=0.2" in both.fields({"optimiser": "sgd", "optimiser.momentum": 0.2})["optimiser"]


def test_a_clip_of_a_channel_can_be_tuned():
    found = bound("channel.bound=0.5,2", channel="clip(1.0)+masked")
    assert found.fields({"channel.bound": 2})["channel"].startswith("clip(bound=2.0")
    assert "masked" in found.fields({"channel.bound": 2})["channel"]


@pytest.mark.parametrize(
    ("space", "said"),
    [
        (("learning_rate=1,2",), "Unknown field that can be tuned"),
        (("eta=log(0.01,1)",), "Did you mean 'model.eta'"),
        (("rounds=1,2",), "Unknown field that can be tuned"),
        (("seed=1,2",), "Unknown field that can be tuned"),
        (("algorithm=fedavg|fedprox",), "each is tuned by itself"),
        (("optimizer.momentum=0,1",), "optimiser"),
        (("fedprox.nu=0,1",), "parameter of fedprox"),
        (("algorithm.mu=0.1,1",), "no free parameter of fedavg"),
        (("optimiser.beta=0.1,1",), "no parameter beta"),
        (("channel.bound=0.1,1",), "--channel"),
        (("lr=0.1,1e99",), "The space of lr has 1e.99, which cannot be"),
        (("lr=-1,1",), "The space of lr has -1"),
        (("epochs=0,1",), "The space of epochs has 0"),
        (("epochs=uniform(0.5,2)",), "whole numbers"),
        (("model=mlp(4)|mpl(8)",), "The space of model has mpl"),
        (("optimiser.momentum=0.5,2",), "The space of optimiser.momentum has 2"),
    ],
)
def test_what_no_run_can_have_is_refused_before_anything_is_played(space, said):
    with pytest.raises(UserError, match=said) as caught:
        plan(space)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"seeds": (0, 1)}, "are for tuning and for reporting"),
        ({"seeds": (5, 5)}, "twice"),
        ({"seeds": ()}, "whole numbers"),
        ({"trials": 0}, "trials must be"),
        ({"budget": 2.5}, "budget must be"),
        ({"draw_seed": -1}, "draw_seed must be"),
        ({"lr": 0.1}, "lr is given and in the space"),
        ({"seed": 3}, "leave seed out"),
        ({"algorithms": ("fedavg", "fedavg")}, "twice"),
        ({"validation": 0.0}, "validation must be above 0"),
        ({"budget": 10}, "not enough for one trial"),
        ({"round": 9}, "rounds"),
    ],
)
def test_other_mistakes_are_refused(options, said):
    with pytest.raises(UserError, match=said):
        plan(**options)


def test_tuning_seeds_are_three_that_are_not_reported():
    assert study().search.seeds == (100, 101, 102)
    assert study(reporting=(100, 1)).search.seeds == (101, 102, 103)


FILE = """
    title = "x"
    seeds = [0, 1]
    [base]
    rounds = 9
    steps = 1
    [axes]
    algorithm = ["fedavg", "fedprox"]
    model = ["mlp(4)", "logistic"]
    [tune.space]
    lr = {low = 0.001, high = 1, log = true}
    algorithm.mu = [0.01, 0.1]
    [tuning]
    trials = 4
"""


def test_a_study_file_searches_in_every_combination():
    found = plan_study(read_study("x", FILE, "x.toml"))
    assert len(found.goals) == 8
    assert len(found.tunings) == 4
    assert found.total == 8 + sum(each.steps for each in found.tunings)
    assert all(goal.planned is None for goal in found.goals)
    spec = found.goals[-1].tuned("fedprox(mu=0.1)", {"lr": 0.5}).spec
    assert (spec.lr, spec.algorithm, spec.model, spec.seed) == (0.5, "fedprox(mu=0.1)", "logistic", 1)


def test_a_smaller_scale_has_as_many_trials_on_fewer_rounds():
    whole, small = (plan_study(read_study("x", FILE, "x.toml"), scale) for scale in (1.0, 0.4))
    assert [len(each.candidates) for each in small.tunings] == [len(each.candidates) for each in whole.tunings]
    assert {each.rungs[-1].round for each in small.tunings} == {4}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("trials = 4", "seeds = [1, 5]", r"x.toml: Seed\(s\) 1 are for tuning and for reporting"),
        ("trials = 4", "trials = 0", "x.toml: trials must be"),
        ("trials = 4", "budget = 'much'", "x.toml: budget must be"),
        (
            "lr = {low = 0.001, high = 1, log = true}",
            "model = ['mlp(4)']",
            "axes.model sets model, which is tuned",
        ),
        ("lr = {low = 0.001, high = 1, log = true}", "lt = [1, 2]", "x.toml: Unknown field"),
        ("[tune.space]", "[tune.fedprox]", "x.toml"),
    ],
)
def test_mistakes_in_the_file_name_it(old, new, said):
    with pytest.raises(UserError, match=said):
        plan_study(read_study("x", FILE.replace(old, new), "x.toml"))


def test_a_search_without_a_space_is_refused():
    text = "title = 'x'\n[tuning]\nbudget = 100\n"
    with pytest.raises(UserError, match=r"tune.space"):
        read_study("x", text, "x.toml")


def test_a_grid_beside_a_space_is_a_part_of_it():
    text = FILE.replace("algorithm.mu = [0.01, 0.1]", "[tune.fedprox]\nmu = [0.01, 0.1]")
    found = plan_study(read_study("x", text, "x.toml"))
    names = [[one.name for one in search.dimensions] for search in found.tunings]
    assert names == [["lr"], ["lr"], ["lr", "fedprox.mu"], ["lr", "fedprox.mu"]]
