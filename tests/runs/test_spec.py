import dataclasses
import importlib
import statistics
import sys
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from unalike.algorithms import ALGORITHMS, Algorithm, FedAvg, algorithm
from unalike.data import DATASETS, load_dataset
from unalike.errors import UserError
from unalike.models.model import register_model
from unalike.own_code import source_of
from unalike.runs.run import run
from unalike.runs.spec import DEFAULT_EPOCHS, DEFAULT_MODEL, DEFAULTS, RunSpec
from unalike.toml import read_toml


def test_texts_become_canonical_so_that_equal_runs_have_equal_keys():
    assert RunSpec(algorithm="fedprox").key == RunSpec(algorithm="fedprox( mu = 0.01 )").key
    assert RunSpec(partition="label-dirichlet(1)").key == RunSpec(partition="label-dirichlet(beta=1.0)").key
    assert RunSpec().key == RunSpec(epochs=DEFAULT_EPOCHS, model=DEFAULT_MODEL, optimiser="sgd(0.5)").key
    assert RunSpec(lr=1).key == RunSpec(lr=1.0).key


@pytest.mark.parametrize(
    "change",
    [
        {"dataset": "heart"}, {"partition": "natural"}, {"parties": 3}, {"model": "mlp(8)"},
        {"algorithm": "fedprox"}, {"rounds": 3}, {"epochs": 3}, {"steps": 10}, {"batch_size": 7},
        {"drop_last": True}, {"optimiser": "adam"}, {"lr": 0.5}, {"lr_decay": 0.9}, {"sample": 0.5},
        {"cohort": "clustered", "sample": 0.5},
        {"public": 0.1}, {"augment": "crop-flip"}, {"batch_norm": "local"},
        {"validation": 0.2}, {"held_out": 0.2},
        {"fine_tune": 1}, {"newcomers": 0.2}, {"test_by": "labels"},
        {"evaluate_parties": 3},
        {"evaluate_every": 2}, {"seed": 1}, {"engine": "sequential"}, {"dtype": "float64"}, {"threads": 2},
        {"init": __file__}, {"freeze": "body.0"},
        {"device": "cuda"}, {"channel": "quantise"}, {"score": "auroc"}, {"loss": "squared-error"},
    ],
    ids=lambda change: next(iter(change)),
)  # fmt: skip
def test_whatever_decides_the_outcome_is_in_the_key(change):
    _, *needed = change
    assert RunSpec.from_mapping(change).key != RunSpec.from_mapping({name: change[name] for name in needed}).key


def test_the_list_above_is_complete():
    changed = test_whatever_decides_the_outcome_is_in_the_key.pytestmark[0].args[1]
    assert {key for change in changed for key in change} == {f.name for f in RunSpec.options()}


def test_toml_round_trip(tmp_path):
    spec = RunSpec(algorithm="fedprox(0.5)", partition="label-dirichlet(0.1)", parties=7, lr=1e-05, drop_last=True)
    path = tmp_path / "spec.toml"
    path.write_text(spec.to_toml())
    assert RunSpec.from_toml(path) == spec
    assert RunSpec.from_toml(path, lr=0.5) == dataclasses.replace(spec, lr=0.5)


def test_tables_and_overrides(tmp_path):
    path = tmp_path / "spec.toml"
    path.write_text('epochs = 3\n[algorithm]\nname = "fedprox"\nmu = 0.25\n')
    assert RunSpec.from_toml(path).algorithm == "fedprox(mu=0.25)"
    assert RunSpec.from_toml(path, steps=5).epochs is None


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rounds": 0}, "rounds must be from 1 to 10,000,000, got 0"),
        ({"rounds": 1.5}, "rounds must be a whole number, got 1.5"),
        ({"rounds": True}, "whole number"),
        ({"round": 3}, "Did you mean 'rounds'"),
        ({"algoritm": "fedavg"}, "Did you mean 'algorithm'"),
        ({"algorithm": "fedagv"}, "Did you mean 'fedavg'"),
        ({"algorithm": "fedprox(nu=1)"}, "Did you mean 'mu'"),
        ({"algorithm": {"mu": 1}}, "needs a name"),
        ({"epochs": 1, "steps": 1}, "one of the two"),
        ({"sample": 0}, "sample must be above 0"),
        ({"sample": 1.5}, "at most 1"),
        ({"lr": -1}, "lr must be from 1e-20 to 1e\\+20, got -1"),
        ({"lr": 1e100}, "lr must be from 1e-20 to 1e\\+20, got 1e\\+100"),
        ({"lr": 1e-300}, "lr must be from 1e-20"),
        ({"lr": float("nan")}, "lr must be a number, got nan"),
        ({"lr_decay": -1}, "lr_decay must be a positive number"),
        ({"lr_decay": 1e300, "rounds": 3}, "the learning rate of round 2 is more than 1e\\+20"),
        ({"lr": 1.0, "lr_decay": 10, "rounds": 22}, "the learning rate of round 22 is more"),
        ({"lr": 1e-20, "lr_decay": 1e20, "rounds": 4}, "the learning rate of round 4 is more"),
        ({"optimiser": "sgd(weight_decay=1e300)"}, "weight_decay must be at least 0 and below 1e"),
        ({"optimiser": "adam(epsilon=1e300)"}, "epsilon must be at least"),
        ({"rounds": 10**5000}, "rounds must be a whole number, got a number of thousands of digits"),
        ({"lr": 10**5000}, "lr must be a number, got a number of thousands of digits"),
        ({"dataset": 10**5000}, "dataset must be text, got a number of thousands"),
        ({"engine": 10**5000}, "engine must be text, got a number of thousands"),
        ({"model": {"name": "mlp", "hidden": 10**5000}}, "model mlp has a number of thousands of digits"),
        ({"model": "mlp(0x" + "f" * 5000 + ")"}, "hidden must be a whole number, got a number of thousands"),
        ({"seed": -1}, "seed"),
        ({"public": 1}, "public"),
        ({"fine_tune": -1}, "fine_tune must be from 0 to 10,000 epochs, got -1"),
        ({"newcomers": 1.0}, "newcomers must be at least 0 and below 1, got 1.0"),
        ({"test_by": "rows"}, "held-out"),
        ({"validation": 0.6, "held_out": 0.4}, "below 1 together"),
        ({"engine": "fast"}, "Unknown engine 'fast'. Known: auto, compiled, prepared, sequential, vectorised"),
        ({"dtype": "float16"}, "float32"),
        ({"drop_last": "yes"}, "true or false"),
        ({"partition": "label-dirichlet"}, "needs beta"),
        ({"partition": "label-dirichlet(0.1"}, "Cannot read"),
        ({"dataset": 3}, "Cannot read the data set"),
        ({"dataset": 3.5}, "text"),
    ],
)
def test_mistakes_get_one_line(values, message):
    with pytest.raises(UserError, match=message) as caught:
        RunSpec.from_mapping(values)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rounds = ", "not a TOML file"),
        ("rouns = 3", "Did you mean 'rounds'"),
        (f"rounds = {'9' * 5000}", "value has 5000 digits"),
        (f"rounds = 0x{'f' * 5000}", "rounds has a whole number of more than 64 bits"),
        (f"[model]\nname = 'mlp'\nhidden = [3, {2**63}]", "model has a whole number of more than 64 bits"),
        (f"a = {'[' * 5000}{']' * 5000}", "nested too deep"),
        ("lr = nan", "lr must be a number, got nan"),
        ("lr = inf", "lr must be a number, got inf"),
    ],
)
def test_bad_files(tmp_path, text, message):
    path = tmp_path / "spec.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message):
        RunSpec.from_toml(path)
    with pytest.raises(UserError, match="Cannot read"):
        RunSpec.from_toml(tmp_path / "absent.toml")


def test_a_part_from_outside_is_in_the_key_with_its_code(tmp_path, monkeypatch):
    @algorithm("test-mine")
    class Mine(Algorithm):
        """Somebody's own."""

    assert RunSpec().code is None
    first = RunSpec(algorithm="test-mine")
    assert first.code
    monkeypatch.setattr("unalike.runs.spec.source_of", lambda cls: "changed")
    assert RunSpec(algorithm="test-mine").key != first.key


def test_a_parts_code_is_its_file_and_those_beside_it_not_the_library_nor_the_environment(tmp_path, monkeypatch):
    folders = {"helper": ".", "packaged": ".venv/lib/site-packages", "ours": "src/unalike"}
    for name, folder in folders.items():
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / f"{name}.py").write_text(f"def {name}(): pass\n")
        monkeypatch.syspath_prepend(tmp_path / folder)
    (tmp_path / "mine.py").write_text("import helper, packaged, ours\nclass Mine: pass\n")
    monkeypatch.setattr("unalike.own_code.__file__", str(tmp_path / "src/unalike/own_code.py"))
    found = source_of(importlib.import_module("mine").Mine)
    for name in ("mine", *folders):
        monkeypatch.delitem(sys.modules, name)
    assert "class Mine" in found
    assert "def helper" in found
    assert "def packaged" not in found
    assert "def ours" not in found


OF_FILES = ("sent140", "shakespeare")  # a spec reads their content, as that of data sets that need a path


def needs_a_path(entry):
    return any(field.default is field.default_factory is dataclasses.MISSING for field in entry.parameters)


@pytest.mark.parametrize(
    "name", [entry.name for entry in DATASETS if entry.name not in OF_FILES and not needs_a_path(entry)]
)
def test_defaults_without_torch_are_those_of_a_spec(name):
    assert RunSpec.defaults(name) == RunSpec(dataset=name).to_dict()


def final(**fields):
    """The mean accuracy on the test rows over three seeds, everything else as by default."""
    return statistics.fmean(run(**fields, seed=seed, evaluate_every=50).accuracy for seed in range(3))


@pytest.mark.parametrize(
    ("name", "partition"),
    [("heart", "natural"), ("heart", "label-dirichlet(0.1)"), ("breast-cancer", "iid")],
)
def test_a_first_run_is_about_as_good_as_logistic_regression_on_the_pooled_rows(name, partition):
    data = load_dataset(name)
    scaler = StandardScaler().fit(data.x)
    pooled = LogisticRegression(max_iter=5000).fit(scaler.transform(data.x), data.y)
    reference = pooled.score(scaler.transform(data.x_test), data.y_test)
    assert final(dataset=name, partition=partition) >= reference - 0.03


def test_after_a_few_rounds_even_parties_are_ahead_of_skewed_ones():
    even, skewed = (final(partition=partition, rounds=10) for partition in ("iid", "label-dirichlet(0.1)"))
    assert even > skewed
    assert even > 0.8


def test_a_learning_rate_that_is_not_given_fits_the_optimiser():
    assert RunSpec().lr == 0.1
    assert RunSpec(optimiser="adam").lr == RunSpec(optimiser="rmsprop(alpha=0.9)").lr == 0.001
    assert RunSpec(optimiser="adam", lr=0.1).lr == 0.1
    assert RunSpec(optimiser="adam").key == RunSpec(optimiser="adam", lr=0.001).key
    with pytest.raises(UserError, match="Did you mean 'adam'"):
        RunSpec(optimiser="adm")


@dataclass(frozen=True)
class LaterSpec(RunSpec):
    """A spec with an option that was added later."""

    patience: int = dataclasses.field(default=3, metadata={"help": "rounds to wait"})


@pytest.mark.parametrize(
    "fields", [{}, {"dataset": "heart", "partition": "natural", "optimiser": "adam", "steps": 3}]
)
def test_an_option_that_is_added_later_leaves_old_runs_where_they_are(fields):
    old = RunSpec(**fields)
    assert LaterSpec(**fields).key == old.key
    assert LaterSpec(**fields, patience=4).key != old.key
    assert LaterSpec(**fields).same_run(old.to_toml())
    assert not LaterSpec(**fields, patience=4).same_run(old.to_toml())
    assert not old.same_run("rounds = ")


def register_later(name, **defaults):
    names = {"__annotations__": dict.fromkeys(defaults, float), "__module__": __name__, **defaults}
    algorithm(name)(type("TestGrows", (Algorithm,), names))


def test_a_parameter_that_a_part_gets_later_leaves_old_runs_where_they_are(monkeypatch):
    monkeypatch.setattr(RunSpec, "_fingerprint", lambda self: None)

    register_later("test-later", mu=0.1)
    usual, other = RunSpec(algorithm="test-later").key, RunSpec(algorithm="test-later(mu=0.2)").key
    register_later("test-later", mu=0.1, nu=5.0)
    assert RunSpec(algorithm="test-later").key == usual
    assert RunSpec(algorithm="test-later(mu=0.2)").key == other
    assert len({usual, other, RunSpec(algorithm="test-later(nu=4)").key}) == 3


@pytest.fixture
def around(monkeypatch):
    """An algorithm around another, and whatever else the test registers, for this test alone."""
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))

    @algorithm("test-around")
    class Around(Algorithm):
        """Its base is another algorithm."""

        base: Algorithm = FedAvg()
        lam: float = 0.1


@pytest.mark.usefixtures("around")
def test_an_algorithm_in_an_algorithm_is_written_out(tmp_path):
    written = "test-around(base=scaffold(option='i', server_lr=1.0, weights='size'), lam=0.1)"
    spec = RunSpec(algorithm="test-around(base=scaffold(option=i))")
    assert spec.algorithm == written
    (tmp_path / "spec.toml").write_text(spec.to_toml())
    assert RunSpec.from_toml(tmp_path / "spec.toml") == spec
    (tmp_path / "spec.toml").write_text(
        '[algorithm]\nname = "test-around"\nbase = {name = "scaffold", option = "i"}\n'
    )
    assert RunSpec.from_toml(tmp_path / "spec.toml").key == spec.key
    with pytest.raises(UserError, match=r"Unknown algorithm 'scafold'. Did you mean 'scaffold'"):
        RunSpec(algorithm="test-around(base=scafold)")


@pytest.mark.usefixtures("around")
def test_the_default_base_may_be_left_out():
    texts = ["test-around", "test-around(fedavg)", "test-around(base=fedavg(), lam=0.1)"]
    assert len({RunSpec(algorithm=text).key for text in texts}) == 1
    assert RunSpec(algorithm="test-around(fedprox)").key != RunSpec(algorithm="test-around").key


@pytest.mark.usefixtures("around")
def test_a_parameter_that_a_base_gets_later_leaves_old_runs_where_they_are(monkeypatch):
    monkeypatch.setattr(RunSpec, "_fingerprint", lambda self: None)

    def keys():
        texts = ["test-around(test-base)", "test-around(test-base(mu=0.2))", "test-around(test-around(test-base))"]
        return [RunSpec(algorithm=text).key for text in texts]

    register_later("test-base", mu=0.1)
    before = keys()
    register_later("test-base", mu=0.1, nu=5.0)
    assert keys() == before
    assert RunSpec(algorithm="test-around(test-base(nu=4))").key not in before


@pytest.mark.usefixtures("around")
def test_own_code_in_a_base_is_in_the_key(monkeypatch):
    register_later("test-own-base")
    sources = {"TestGrows": "first"}
    monkeypatch.setattr("unalike.runs.spec.source_of", lambda cls: sources.get(cls.__name__, ""))
    texts = ["test-around(test-own-base)", "test-around(test-around(test-own-base))"]
    before = [RunSpec(algorithm=text).key for text in texts]
    other = RunSpec(algorithm="test-around").key
    sources["TestGrows"] = "changed"
    assert not set(before) & {RunSpec(algorithm=text).key for text in texts}
    assert RunSpec(algorithm="test-around").key == other


def test_several_models_are_one_text():
    spec = RunSpec(model="mlp(32) | mlp(64,32)|logistic")
    assert spec.model == "mlp(32)|mlp(64,32)|logistic"
    listed = RunSpec.from_mapping({"model": ["mlp(32)", {"name": "mlp", "hidden": [64, 32]}, "logistic"]})
    assert listed == spec
    assert RunSpec.from_mapping({"model": ["mlp(32)"]}) == RunSpec(model="mlp(32)")
    assert RunSpec.from_mapping(read_toml(spec.to_toml(), "it")) == spec
    orders = [
        "mlp(32)|mlp(64,32)|logistic",
        "mlp(32)|logistic|mlp(64,32)",
        "mlp(32)|mlp(64,32)",
        "mlp(32)|mlp(32)",
        "mlp(32)",
    ]
    assert len({RunSpec(model=text).key for text in orders}) == len(orders)


def test_the_code_of_each_of_several_models_is_in_the_key(monkeypatch):
    @register_model("test-own-model")
    class OwnModel:
        """Somebody's own."""

    first = RunSpec(model="mlp(32)|test-own-model")
    assert first.code
    monkeypatch.setattr("unalike.runs.spec.source_of", lambda cls: "changed")
    assert RunSpec(model="mlp(32)|test-own-model").key != first.key


@pytest.mark.parametrize(
    ("model", "message"),
    [
        ("mlp(32)||logistic", r"The model 'mlp\(32\)\|\|logistic' has an empty part"),
        (["mlp(32)", ""], "has an empty part"),
        ("mlp(32)|logistik", "Unknown model 'logistik'. Did you mean 'logistic'"),
        ([], r"model must be text, a torch module, its class or a function, got \[\]"),
        (["mlp(32)", 3], "model must be text, a torch module, its class or a function, got 3"),
    ],
)
def test_mistakes_in_several_models_get_one_line(model, message):
    with pytest.raises(UserError, match=message) as caught:
        RunSpec.from_mapping({"model": model})
    assert "\n" not in str(caught.value)


CHOICES = {
    "dataset": ["digits", "heart", "wine"],
    "partition": ["iid", "natural", "label-dirichlet(0.1)", "label-dirichlet(0.1)+feature-noise(0.1)"],
    "parties": [None, 4, 10],
    "model": [None, "mlp(64)", "mlp(32)", "logistic"],
    "algorithm": ["fedavg", "fedprox", "fedprox(mu=0.5)", "scaffold"],
    "epochs": [None, 1, 2],
    "optimiser": ["sgd", "sgd(momentum=0.5)", "adam"],
    "lr": [None, 0.1, 0.001],
    "channel": [None, "masked", "clip(1.0)+masked"],
    "seed": [0, 1],
    "drop_last": [False, True],
}


@given(*[st.fixed_dictionaries({}, optional={k: st.sampled_from(v) for k, v in CHOICES.items()})] * 2)
def test_keys_are_the_same_just_where_runs_are(first, second):
    specs = RunSpec(**first), RunSpec(**second)
    assert (specs[0].key == specs[1].key) == (specs[0].to_dict() == specs[1].to_dict())


def test_other_defaults_are_other_runs(monkeypatch):
    before = RunSpec().key
    monkeypatch.setattr("unalike.runs.spec.DEFAULTS", DEFAULTS + 1)
    assert RunSpec().key != before
