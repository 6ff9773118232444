"""Whole rounds on the pretend device have the processor's bits: nothing is mixed, nothing is left out."""

from itertools import combinations, product

import pytest

from tests.helpers import net_algorithms
from tests.models.test_every_model import RUNS
from unalike.algorithms import ALGORITHMS as ALGORITHMS_BY_NAME

ENGINES = ("sequential", "vectorised")
NAMES = [each.name for each in net_algorithms() if each.cls.__module__.startswith("unalike.")]
SGD = ("sgd(momentum=0.9)", "sgd(weight_decay=0.01)", "sgd")
ADAPTIVE = ("adam", "rmsprop(weight_decay=0.01)")
CHANNELS = (None, "topk(0.5)", "quantise", "masked(range=1024, bits=64)", "clip(1)+gauss(0.1)+masked", "ternary")
NETS = ("mlp(6,4)", "logistic", "test-layer-norm", "test-tanh", "test-norm-body")
ALGORITHMS = ("fedavg", "scaffold", "ditto(base=fedprox)", "qfedavg", "fednova")


def optimisers(algorithm):
    """Those that it can be trained with."""
    return SGD if ALGORITHMS_BY_NAME.build(algorithm).needs_sgd else (*SGD, *ADAPTIVE)


def carried(algorithm, channel):
    """Whether the channel takes the algorithm's uploads."""
    needs = ALGORITHMS_BY_NAME.build(algorithm)
    noisy = "gauss" in str(channel)
    return not ((needs.needs_each and (noisy or "masked" in str(channel))) or (needs.needs_exact and noisy))


def turned(values, number):
    return values[number % len(values)]


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", NAMES)
def test_every_algorithm(pretend, name, engine):
    """Optimisers and channels take turns: those of the neighbour are tried with the other engine."""
    number = NAMES.index(name) + 3 * ENGINES.index(engine)
    fields = {"optimiser": turned(optimisers(name), number), "lr": 0.01, "engine": engine}
    made = pretend("algorithm", name, turned(CHANNELS, number), **fields)
    assert made["same"]


FACTORS = (ALGORITHMS, ENGINES, (*SGD, *ADAPTIVE), CHANNELS, NETS)


def pairs_of(values):
    return set(combinations(enumerate(values), 2))


WHOLE = [each for each in product(*FACTORS) if each[2] in optimisers(each[0]) and carried(each[0], each[3])]
PAIRS = set().union(*map(pairs_of, WHOLE))


def pairwise():
    """Few of all combinations, among which every two values of two factors are together at least once."""
    missing = set(PAIRS)
    while missing:
        best = max(WHOLE, key=lambda each: len(missing & pairs_of(each)))
        yield best
        missing -= pairs_of(best)


CASES = list(pairwise())


def test_every_two_choices_meet():
    assert set().union(*map(pairs_of, CASES)) == PAIRS
    in_all = sum(len(one) * len(other) for one, other in combinations(FACTORS, 2))
    refused = sum(not carried(name, channel) for name in ALGORITHMS for channel in CHANNELS)
    refused += len(ADAPTIVE) * sum(optimisers(name) == SGD for name in ALGORITHMS)
    assert len(PAIRS) == in_all - refused
    assert len(CASES) < 50


@pytest.mark.parametrize("case", CASES, ids=lambda case: " ".join(map(str, case)))
def test_every_pair_of_choices(pretend, case):
    name, engine, optimiser, channel, net = case
    fields = {"engine": engine, "optimiser": optimiser, "model": net, "lr": 0.01}
    if net == "test-norm-body":
        fields["batch_size"] = 64  # a batch of one row has no statistics
    made = pretend("algorithm", name, channel, **fields)
    assert made["same"]
    assert made["channel"] == channel
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


def test_a_run_in_a_folder_goes_on_after_a_stop_to_the_same_bits(pretend):
    """States, dropout's numbers and what a channel has kept are as they would have been without the stop."""
    cpu, there, stopped = pretend("kept_run")
    assert [each.pop("device") for each in (cpu, there, stopped)] == ["cpu", "pretend", "pretend"]
    assert cpu == there == stopped
