"""A study's TOML file: what it means, and one line for every mistake."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import net_algorithms
from unalike.errors import UserError
from unalike.studies.plan import plan_study
from unalike.studies.study_file import built_in_studies, load_study, read_study

BUILT_IN = {
    "personal-mnist",
    "knowledge-mnist",
    "few-rounds",
    "cohorts-cifar",
    "single-label",
    "ifca-rotated",
    "fedrep-cifar",
    "fedrep-cifar-net",
    "niid-table3",
    "niid-local-epochs",
    "niid-batch-size",
    "niid-models",
    "niid-partial",
    "rfedavg-silo",
    "rfedavg-device",
    "rfedavg-parameters",
    "rfedavg-efficiency",
    "rfedavg-fairness",
    "cfl-tree",
    "trees-noniid",
    "vertical-noniid",
    "quick",
}


def read(text: str):
    return read_study("mine", text, "mine.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("= 3", "is not a TOML file"),
        ("seeds = [0]", "title is missing"),
        ("title = 3", "title must be text, got 3"),
        ("title = 'x'\ntitel = 'y'", "titel is not known. Did you mean 'title'?"),
        ("title = 'x'\nseeds = []", "seeds must be a list of whole numbers"),
        ("title = 'x'\nseeds = [0.5]", "seeds must be a list of whole numbers"),
        ("title = 'x'\nseeds = [true]", "seeds must be a list of whole numbers"),
        ("title = 'x'\nseeds = [1, 1]", "seeds has a seed twice"),
        ("title = 'x'\nseeds = 3", "seeds must be a list, got 3"),
        ("title = 'x'\ntarget = 90", "target must be above 0 and at most 1, got 90"),
        ("title = 'x'\ntarget = true", "target must be a number"),
        ("title = 'x'\ntarget = 90\n[base]\nscore = 'accuracy'", "target must be above 0 and at most 1, got 90"),
        ("title = 'x'\ntarget = inf\n[base]\nscore = 'rmse'", "target must be a number, got inf"),
        ("title = 'x'\ntarget = 90\n[axes]\nscore = ['rmse', 'accuracy']", "target must be above 0 and at most 1"),
        ("title = 'x'\npublished = 'table9'", "published must be one of niid-bench-table3"),
        ("title = 'x'\npublished_setting = 'a'", "published_setting needs a table"),
        (
            "title = 'x'\npublished = 'rfedavg-tables1-2'",
            "published_setting must be one of cross-silo, cross-device",
        ),
        (
            "title = 'x'\npublished = 'niid-bench-table3'\npublished_setting = 'a'",
            "published_setting must be left out: niid-bench-table3 has no parts, got 'a'",
        ),
        ("title = 'x'\n[base]\nround = 3", "base.round is not known. Did you mean 'rounds'?"),
        ("title = 'x'\n[base]\nseed = 3", "base.seed must not be there"),
        ("title = 'x'\n[base]\ncode = 'x'", "base.code is not known"),
        ("title = 'x'\n[axes]\nlr = []", "axes.lr must be a list that is not empty"),
        ("title = 'x'\n[axes]\nlr = 0.1", "axes.lr must be a list that is not empty"),
        ("title = 'x'\n[axes]\nspeed = [1]", "axes.speed is no field of a run's spec"),
        ("title = 'x'\n[axes]\nround = [1]", "axes.round is no field of a run's spec. Did you mean 'rounds'?"),
        ("title = 'x'\n[axes]\nseed = [1]", "axes.seed must not set seed"),
        ("title = 'x'\n[[axes.case]]\nlearning = 1", "axes.case.learning is not known"),
        ("title = 'x'\n[[axes.case]]\nlr = []", "axes.case.lr is an empty list"),
        ("title = 'x'\n[axes]\ncase = [{}]", "axes.case has an empty table"),
        ("title = 'x'\n[axes]\nlr = [1]\n[[axes.case]]\nlr = 1", "axes.case sets lr, which axes.lr sets too"),
        ("title = 'x'\n[tune.fedprux]\nmu = [1]", "tune.fedprux is no algorithm"),
        ("title = 'x'\n[tune.fedprox]\nnu = [1]", "tune.fedprox.nu is not known. Did you mean 'mu'?"),
        ("title = 'x'\n[tune.fedprox]\nmu = []", "tune.fedprox.mu must be a list that is not empty"),
        ("title = 'x'\n[tune.fedprox]\nmu = [1, 1]", "tune.fedprox.mu has a value twice"),
        ("title = 'x'\n[tune]\nfedprox = {}", "tune.fedprox must be a table"),
        ("title = 'x'\n[tuning]\nseeds = []", "tuning.seeds must be a list of whole numbers"),
        ("title = 'x'\n[tuning]\nalgorithm = 'x'", "tuning.algorithm is not known"),
        ("title = 'x'\n[tune.fedprox]\nmu = [1]\n[tuning]\nvalidation = 0", "tuning.validation must be above 0"),
        (
            "title = 'x'\n[[axes.case]]\nlr = 1\ntuning = 5",
            "axes.case.tuning must be a table, as in [tuning], got 5",
        ),
        ("title = 'x'\n[[axes.case]]\nlr = 1\ntuning.round = 5", "axes.case.tuning.round is not known. Did you"),
        (
            "title = 'x'\n[[axes.case]]\nlr = 1\ntuning.validation = 0",
            "axes.case.tuning.validation must be above",
        ),
        ("title = 'x'\n[[axes.case]]\nlr = 1\ntuning.seeds = [1]", "axes.case.tuning.seeds must not be there"),
        ('title = " \\u001b "', "title is missing"),
        (f"a = {'[' * 5000}{']' * 5000}", "nested too deep"),
        (f"target = {'9' * 5000}", "value has 5000 digits"),
        (f"target = 0x{'f' * 5000}", "target has a whole number of more than 64 bits"),
        ("title = 'x'\n[[notes]]\nnote = 'x'", "notes (1) needs exactly"),
    ],
)
def test_mistakes_are_one_line_that_names_the_file(text, said):
    with pytest.raises(UserError) as error:
        read(text)
    message = str(error.value)
    assert message.startswith("mine.toml")
    assert said in message
    assert "\n" not in message


def test_a_title_is_one_line_that_can_be_printed():
    assert read('title = "a\\n b\\u001b[31m ω"').title == "a b [31m ω"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[axes]\nalgorithm = ['fedavg', 'fedavg()']", "the same run twice: fedavg() on digits, iid, seed 0"),
        ("[axes]\nalgorithm = ['fedprux']", "Unknown algorithm 'fedprux'. Did you mean 'fedprox'?"),
        ("[axes]\nlr = [-1]", "lr must be from 1e-20 to 1e+20, got -1"),
        ("[base]\nepochs = 1\nsteps = 1", "epochs"),
        (
            f"seeds = {list(range(1100))}\n[axes]\nlr = {list(range(1, 1100))}",
            "make 1,208,900 runs, at most 1,000,000",
        ),
    ],
)
def test_mistakes_of_the_runs_themselves(text, said):
    with pytest.raises(UserError) as error:
        plan_study(read(f"title = 'x'\n{text}"))
    assert str(error.value).startswith("mine.toml: ")
    assert said in str(error.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("rounds = 'ten'", "rounds must be a whole number, got 'ten'"),
        ("rounds = [1, 2]", "rounds must be a whole number"),
        ("rounds = true", "rounds must be a whole number"),
        ("public = 'a tenth'", "public must be a number, got 'a tenth'"),
    ],
)
@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_what_is_no_number_is_one_line_at_any_scale(text, said, scale):
    with pytest.raises(UserError) as error:
        plan_study(read(f"title = 'x'\n[base]\n{text}"), scale)
    assert said in str(error.value)


def test_no_such_study(tmp_path):
    with pytest.raises(UserError, match=r"There is no study 'quik'.*Did you mean 'quick'"):
        load_study("quik")
    with pytest.raises(UserError, match="There is no study"):
        load_study(tmp_path / "none.toml")
    (tmp_path / "bytes.toml").write_bytes(b"\xff\xfe")
    with pytest.raises(UserError, match="is not a TOML file"):
        load_study(tmp_path / "bytes.toml")


def test_axes_are_multiplied_and_win_over_the_base():
    study = read("""
        title = "x"
        seeds = [3, 4]
        [base]
        epochs = 5
        [axes]
        lr = [0.1, 0.2]
        [[axes.case]]
        dataset = "digits"
        partition = ["iid", "label-count(2)"]
        steps = 3
        [[axes.case]]
        dataset = "heart"
        partition = "natural"
    """)
    specs = [goal.planned.spec for goal in plan_study(study).goals]
    assert len(specs) == 2 * 3 * 2
    assert {(s.dataset, s.steps, s.epochs) for s in specs} == {
        ("digits", 3, None),
        ("heart(missing='indicate')", None, 5),
    }
    assert {(s.lr, s.seed) for s in specs} == {(0.1, 3), (0.1, 4), (0.2, 3), (0.2, 4)}


def test_a_part_may_be_a_table_and_a_star_is_every_algorithm():
    study = read("title = 'x'\n[axes]\nalgorithm = [{name = 'fedprox', mu = 0.5}]")
    assert plan_study(study).goals[0].planned.spec.algorithm == "fedprox(mu=0.5)"
    every = plan_study(read("title = 'x'\n[axes]\nalgorithm = ['*']")).goals
    names = {goal.planned.spec.algorithm.split("(")[0] for goal in every if goal.planned}
    assert names == {entry.name for entry in net_algorithms()}


def test_the_quick_study_is_small():
    """It is what the README tells a newcomer to run, and the number that docs/studies.md gives."""
    assert plan_study(load_study("quick")).total == 120


@settings(max_examples=25, deadline=None)
@given(
    st.lists(st.sampled_from([0.01, 0.02, 0.03, 0.04]), min_size=1, unique=True),
    st.lists(st.integers(1, 9), min_size=1, max_size=3, unique=True),
    st.lists(st.integers(0, 99), min_size=1, max_size=3, unique=True),
)
def test_as_many_runs_as_the_product(rates, batches, seeds):
    study = read(f"title = 'x'\nseeds = {seeds}\n[axes]\nlr = {rates}\nbatch_size = {batches}")
    plan = plan_study(study)
    keys = [goal.planned.key for goal in plan.goals]
    assert len(keys) == len(set(keys)) == plan.total == len(rates) * len(batches) * len(seeds)


@pytest.mark.parametrize("name", sorted(BUILT_IN))
def test_built_in_studies_can_be_planned(name, tmp_path, monkeypatch):
    """Also where no data are at hand: the runs are in the plan, with what is missing."""
    monkeypatch.setenv("UNALIKE_DATA", str(tmp_path))
    study = load_study(name)
    assert study.title == built_in_studies()[name]
    assert len(study.about) > 100
    plan = plan_study(study)
    for goal in plan.goals:
        if goal.planned is not None and goal.planned.spec is None:
            assert goal.planned.problem.startswith("data not found: ")
            assert goal.fields["dataset"] == "sent140"


def test_the_built_in_studies_are_all_there():
    assert set(built_in_studies()) == BUILT_IN


def test_listing_needs_no_torch():
    code = "import sys, unalike.studies.study_file as it; it.built_in_studies(); assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_the_file_in_the_docs_is_a_study():
    page = Path(__file__).parents[2] / "docs" / "studies.md"
    (text,) = re.findall(r"```toml\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)
    assert plan_study(read(text)).total == 3 * 2 * 3 * 3 + 2 * 3 * 4
