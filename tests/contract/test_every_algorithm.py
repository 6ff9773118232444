"""Every registered algorithm passes the same checks on all engines."""

import pytest

from tests.contract import paper_algorithms
from tests.helpers import NEEDS, LayerNormBody, NormBody, TanhBody, net_algorithms
from unalike.runs.check import check_algorithm

assert all((LayerNormBody, NormBody, TanhBody))  # nets that are registered
OURS = ("unalike.", "tests.contract.")
REGISTERED = [
    entry.name
    for entry in net_algorithms()
    if entry.cls.__module__.startswith(OURS) and not entry.name.startswith("broken-")
]
PAPERS = paper_algorithms.NAMES
NORM = {"model": "test-norm-body", "batch_size": 64}
SETTINGS = {
    "momentum": {},
    "steps": {"epochs": None, "steps": 5},
    "drop-last": {"drop_last": True, "lr_decay": 0.9},
    "all-parties": {"sample": 1.0, "optimiser": "sgd(weight_decay=0.01)"},
}
THREE_NETS = {"model": "mlp(6,4)|mlp(8)|logistic"}
VARIANTS = {
    "ifca(option=gradient)": {},
    "ifca(clusters=3)": {"newcomers": 0.34, "fine_tune": 1},
    "fesem(least=4)": {"channel": "masked", "sample": 1.0},
    "per-fedavg(order=hf)": {},
    "per-fedavg(order=exact)": {},
    "feddyn(weights=size)": {},
    "pfedme(beta=2)": {"newcomers": 0.34},
    "ditto(base=scaffold(option=i), steps=2)": {"newcomers": 0.34},
    "ditto(base=fedprox(mu=0.5))": NORM,
    "fedper(2, base=fedprox(mu=0.5))": {"newcomers": 0.34},
    "lg-fedavg(base=scaffold)": NORM,
    "lg-fedavg-ensemble(1, base=scaffold)": {"newcomers": 0.34},
    "partial(own=('body.0.bias', 'head'), own_epochs=1, base=fednova)": {"newcomers": 0.34},
    "partial(own=())": {},
    "fedbn": {"model": "test-layer-norm"},
    "pfedme(around=local)": {"newcomers": 0.34},
    "fedmd(part=1, distance=squared)": THREE_NETS,
    "feddf-nets(batches=5)": THREE_NETS,
    "fd(gamma=0.5)": {**THREE_NETS, "channel": "masked", "sample": 1.0},
    "cronus(outliers=0.4, alone=0)": {**THREE_NETS, "newcomers": 0.34},
    "def-kt(pairs=2)": {"sample": 1.0, "model": "mlp(6,4)", "optimiser": "sgd"},
    "f2a(noise=3, steps=2)": THREE_NETS,
    "fedgan(noise=3, fill=0.5, after=1)": NORM,
    "dense(epochs=1, makes=2, learns=2)": NORM,
    "faug(base=scaffold, steps=2)": {"newcomers": 0.34},
    "apfl(learn=false)": NORM,
    "fedrep(2)": {"fine_tune": 1},
    "fedamp": {"newcomers": 0.34},
    "cfl(eps1=9, eps2=0, across=1)": {"newcomers": 0.34},
    "share(base=scaffold, alpha=0.5)": NORM,
    "fedmix(groups=2, least=1)": {"newcomers": 0.34},
    "fedmix(least=2)": NORM,
    "astraea(gamma=3, alpha=1, passes=2)": {"sample": 1.0},
    "hybrid-fl(givers=(1, 5), rows=7)": NORM,
    "fl+hc(rounds=1, threshold=0.5)": {"sample": 1.0},
    "kmeans-models(k=3, epochs=1, trim=0.2)": {},
}


def test_the_papers_are_there():
    shipped = {"fedavg", "fedprox", "scaffold", "fednova", "qfedavg", "rfedavg", "rfedavg+", "moon"}
    shipped |= {"fedavgm", "fedadagrad", "fedadam", "fedyogi"}
    shipped |= {"ditto", "fedbabu", "fedbn", "fedper", "fedrep", "lg-fedavg", "partial"}
    assert {*shipped, *PAPERS} <= set(REGISTERED)


PACKAGES = ("personal", "clustered", "knowledge", "data", "generated")
FAMILIES = tuple(f"unalike.algorithms.{family}" for family in PACKAGES)
MANY = [
    entry.name
    for entry in sorted(net_algorithms(), key=lambda entry: entry.cls.__module__)
    if entry.cls.__module__.startswith(FAMILIES)
]


def settings_of(name):
    """All settings; of the families of many algorithms each plays one, the next setting for the next name.

    Presets of one class are neighbours in the list and play all four between them. Playing all takes minutes.
    """
    return (list(SETTINGS)[MANY.index(name) % len(SETTINGS)],) if name in MANY else tuple(SETTINGS)


@pytest.mark.parametrize(("name", "setting"), [(name, each) for name in REGISTERED for each in settings_of(name)])
def test_holds_the_contract(name, setting):
    check_algorithm(name, **SETTINGS[setting] | NEEDS.get(name, {}))


def test_all_settings_are_played_by_every_large_family():
    for family in FAMILIES:
        names = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith(family)]
        played = {each for name in names for each in settings_of(name)}
        assert len(played) == min(len(names), len(SETTINGS))


@pytest.mark.parametrize("text", VARIANTS)
def test_so_do_variants_and_nets_that_differ(text):
    check_algorithm(text, **VARIANTS[text])


def test_success_is_said():
    said = []
    check_algorithm("ditto", said.append)
    assert len(said) == 1
    assert said[0].startswith("ditto holds the contract: engines agree, ")


@pytest.mark.parametrize("optimiser", ["rmsprop(weight_decay=0.01)", "adam(weight_decay=0.01)"])
@pytest.mark.parametrize("text", ["fedprox(mu=0.5)", "ditto(lam=0.5)", "fedrep(2)"])
def test_adaptive_optimisers_too(text, optimiser):
    check_algorithm(text, optimiser=optimiser, lr=0.01)
