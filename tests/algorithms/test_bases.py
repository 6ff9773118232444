"""An algorithm inside another: it trains as it does alone, and what it needs is needed around it."""

import pytest

from tests.helpers import MODELLESS, NEEDS, net_algorithms
from unalike.algorithms import ALGORITHMS, Algorithm, FedAvg, algorithm
from unalike.algorithms.checked import _RULES, _SCRIPTS, checked
from unalike.errors import UserError
from unalike.own_code import is_own
from unalike.runs.run import run
from unalike.runs.small import small_dataset


@pytest.fixture
def around(monkeypatch):
    """An algorithm that leaves everything to its base."""
    monkeypatch.setattr(ALGORITHMS, "_entries", dict(ALGORITHMS._entries))

    def passed_on(name):
        return lambda self, *arguments: getattr(self.base, name)(*arguments)

    names = {name: passed_on(name) for name in [*_RULES, *_SCRIPTS]}
    names |= {
        "base": FedAvg(),
        "__annotations__": {"base": Algorithm},
        "__module__": __name__,
        "__doc__": "Around.",
    }
    algorithm("test-around")(type("Around", (Algorithm,), names))


SHIPPED = [
    entry.name
    for entry in net_algorithms()
    if not is_own(entry.cls) and not entry.cls.pools and entry.name not in MODELLESS
]


@pytest.mark.usefixtures("around")
@pytest.mark.parametrize("name", SHIPPED)
def test_an_algorithm_that_leaves_all_to_its_base_trains_as_the_base_does(name):
    fields = {"data": small_dataset(), "partition": "natural", "rounds": 3, "epochs": 1, "engine": "sequential"}
    fields |= {"public": 0.1, **NEEDS.get(name, {})}
    alone = run(algorithm=name, **fields).figures
    inside = run(algorithm=f"test-around(test-around({name}))", **fields).figures
    for key in ("accuracy", "loss", "train_loss", "bytes_up", "bytes_down"):
        assert inside[key] == (
            alone[key] if alone[key] is None else pytest.approx(alone[key], rel=1e-5, nan_ok=True)
        )
    for key in {"parties", "personal"} & alone.keys():
        assert inside[key]["each"] == alone[key]["each"]


@pytest.mark.usefixtures("around")
@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"algorithm": "test-around(scaffold)", "optimiser": "adam"}, "sgd"),
        ({"algorithm": "test-around(rfedavg)", "channel": "masked"}, "needs to see single uploads"),
        ({"algorithm": "test-around(test-around(moon))", "model": "logistic"}, "acts on features"),
    ],
)
def test_what_a_base_needs_is_needed_around_it(fields, message):
    with pytest.raises(UserError, match=message):
        run(data=small_dataset(), partition="natural", rounds=1, epochs=1, **fields)


@pytest.mark.usefixtures("around")
def test_what_a_base_needs_is_no_matter_of_the_class():
    assert checked(ALGORITHMS.build("test-around(rfedavg)")).needs_each
    assert not checked(ALGORITHMS.build("test-around")).needs_each
    assert not ALGORITHMS.entry("test-around").cls.needs_each


@pytest.mark.parametrize("base", ["moon", "rfedavg+", "fedrs", "fedaws", "apfl"])
@pytest.mark.parametrize("name", ["ditto", "partial"])
def test_a_base_whose_objective_would_be_lost_is_refused(name, base):
    with pytest.raises(UserError, match="has an objective or a model of its own"):
        ALGORITHMS.build(f"{name}(base={base})")
