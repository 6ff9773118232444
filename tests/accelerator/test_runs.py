"""Whole rounds on the pretend device have the processor's bits: nothing is mixed, nothing is left out."""

from itertools import combinations, product

import pytest

from tests.helpers import net_algorithms
from tests.models.test_every_model import RUNS

ENGINES = ("sequential", "vectorised")
NAMES = [each.name for each in net_algorithms() if each.cls.__module__.startswith("unalike.")]
OPTIMISERS = ("sgd(momentum=0.9)", "adam", "rmsprop(weight_decay=0.01)", "sgd(weight_decay=0.01)", "sgd")
CHANNELS = (None, "topk(0.5)", "quantise", "masked", "clip(1)+gauss(0.1)+masked", "ternary")
NETS = ("mlp(6,4)", "logistic", "test-layer-norm", "test-tanh", "test-norm-body")
ALGORITHMS = ("fedavg", "scaffold", "ditto(base=fedprox)", "qfedavg", "fednova")
SGD_ALONE = ("fednova",)


def turned(values, number):
    return values[number % len(values)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm(pretend, name, engine):
    """Optimisers and channels take turns: those of the neighbour are tried with the other engine."""
    number = NAMES.index(name) + 3 * ENGINES.index(engine)
    fields = {"optimiser": turned(OPTIMISERS, number), "lr": 0.01, "engine": engine}
    made = pretend("algorithm", name, turned(CHANNELS, number), **fields)
    assert made["same"]


FACTORS = (ALGORITHMS, ENGINES, OPTIMISERS, CHANNELS, NETS)


def pairwise(factors):
    """Few of all combinations, among which every two values of two factors are together at least once."""
    whole = list(product(*factors))
    missing = {pair for each in whole for pair in pairs_of(each)}
    chosen = []
    while missing:
        best = max(whole, key=lambda each: len(missing & pairs_of(each)))
        chosen.append(best)
        missing -= pairs_of(best)
    return chosen


def pairs_of(values):
    return set(combinations(enumerate(values), 2))


CASES = pairwise(FACTORS)


def test_every_two_values_meet():
    met = set().union(*map(pairs_of, CASES))
    for one, other in combinations(range(len(FACTORS)), 2):
        assert {((one, a), (other, b)) for a in FACTORS[one] for b in FACTORS[other]} <= met
    assert len(CASES) < 50


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_every_pair_of_choices(pretend, case):
    name, engine, optimiser, channel, net = case
    fields = {"engine": engine, "optimiser": optimiser, "model": net, "lr": 0.01}
    made = pretend("algorithm", name, channel, **fields)
    assert made["same"]
    assert made["engine"] == ("sequential" if net == "test-norm-body" else engine)


def test_dropout_draws_on_the_device_and_is_repeated(pretend):
    """With p = 1/2 the numbers that are kept are doubled: exactly, however that is computed."""
    one, threads = pretend("dropout", 1), pretend("dropout", 2)
    assert len({*one, *threads}) == 1


@pytest.mark.parametrize("name", RUNS)
def test_every_shipped_net(pretend, name):
    """An LSTM is computed by another operation than the processor's, which has other bits."""
    made = pretend("net", name, engine="vectorised")
    assert made["far"] < 1e-6 if name == "lstm" else made["same"], made
    assert made["engine"] == ("sequential" if name == "lstm" else "vectorised")


def test_batch_norm_between_convolutions(pretend):
    made = pretend("net", "resnet18", model="resnet18", engine="sequential")
    assert made["same"], made


def test_a_site_on_the_device_is_a_site_like_others(pretend):
    """Its state, its side of the channel, its own model and that model's tuning are at home on the device."""
    assert pretend("site", algorithm="ditto(base=scaffold)", channel="topk(0.5)", fine_tune=1)


def test_auto_takes_the_accelerator_and_the_record_has_its_name(pretend):
    there, gone, refused, second = pretend("automatic")
    assert (there, gone) == ("pretend", "cpu")
    assert refused == "This machine has no pretend device that PyTorch can use. Use --device cpu."
    assert second == "This machine has 1 pretend device(s), counted from 0, got 'pretend:1'."


def test_a_stack_waits_for_the_device_once_for_all_parties(pretend):
    """Each look at a number stops until all that was asked of the device is done."""
    assert pretend("waits", 2, engine="vectorised") == pretend("waits", 6, engine="vectorised")
