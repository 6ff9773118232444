"""Parties that work elsewhere: the bits of one process, whoever answers, whoever dies, whatever the order."""

import pytest
from torch.nn import functional

from tests.contract import paper_algorithms  # registers Ditto, ...
from tests.contract.test_every_algorithm import NEEDS
from tests.engines.many.desk import Desk
from tests.helpers import net_algorithms
from unalike.engines.many.cluster import connected
from unalike.engines.many.machines import Machines
from unalike.errors import UserError
from unalike.runs import host, many
from unalike.runs.small import play, small_simulation

assert paper_algorithms.NAMES
SHIPPED = [entry.name for entry in net_algorithms() if entry.cls.__module__.startswith("unalike.")]
CHANNELS = ("clip(0.5)+gauss(0.1)", "topk(0.3)+quantise(8)", "clip(1.0)+masked(64)", "ternary", "encrypted")


@pytest.fixture(autouse=True)
def nowhere(monkeypatch):
    monkeypatch.setattr(host, "_where", lambda: "here")
    monkeypatch.setattr(Machines, "check_here", lambda self: None)


def elsewhere(monkeypatch, text, rounds=2, *, desk=None, workers=2, **fields):
    """A simulation after some rounds whose parties worked at a desk, and what was said."""
    desk, said = desk or Desk(), []
    monkeypatch.setattr(many, "connected", desk.connected)
    simulation = small_simulation(text, **{"evaluate_every": 9, **fields})
    with many.working_on(Machines(workers=workers), simulation, said.append):
        play(simulation, rounds)
    return simulation, said


def alone(text, rounds=2, **fields):
    return play(small_simulation(text, **{"evaluate_every": 9, **fields}), rounds)


@pytest.mark.parametrize("name", SHIPPED)
def test_every_algorithm_has_the_bits_of_one_process(monkeypatch, name):
    fields = {"engine": "sequential", **NEEDS.get(name, {})}
    simulation, _ = elsewhere(monkeypatch, name, **fields)
    assert simulation.elsewhere.told()["workers"]["blocks"] > 0
    assert simulation.state.digest() == alone(name, **fields).state.digest()


@pytest.mark.parametrize("engine", ["sequential", "vectorised", "compiled"])
@pytest.mark.parametrize("channel", CHANNELS)
def test_every_channel_on_every_engine(monkeypatch, engine, channel):
    fields = {"engine": engine, "channel": channel}
    simulation, _ = elsewhere(monkeypatch, "scaffold", **fields)
    assert simulation.state.digest() == alone("scaffold", **fields).state.digest()


@pytest.mark.parametrize("name", ["fedavg", "rfedavg", "qfedavg", "ditto", "fedrep"])
@pytest.mark.parametrize("engine", ["vectorised", "compiled"])
def test_stacks_and_kernels(monkeypatch, name, engine):
    fields = {"engine": engine, **NEEDS.get(name, {})}
    simulation, _ = elsewhere(monkeypatch, name, **fields)
    assert simulation.state.digest() == alone(name, **fields).state.digest()


def test_a_dead_worker_costs_its_blocks_and_no_bit(monkeypatch):
    expected = alone("scaffold", engine="sequential").state.digest()
    for seed in range(5):
        desk = Desk(seed, dies_at={2, 5})
        simulation, said = elsewhere(monkeypatch, "scaffold", desk=desk, engine="sequential")
        told = simulation.elsewhere.told()["workers"]
        assert told["lost_workers"] == 2
        assert told["lost_blocks"] >= 2
        assert desk.started == 4  # two were replaced
        assert sum("lost" in line for line in said) == 2
        assert simulation.state.digest() == expected


def test_a_block_that_kills_whoever_has_it_ends_the_run(monkeypatch):
    desk = Desk(dies_at=range(1, 100))
    with pytest.raises(UserError, match="3 workers were lost with the same block"):
        elsewhere(monkeypatch, "fedavg", desk=desk, workers=1, engine="sequential")


def test_other_arithmetic_is_refused_or_said(monkeypatch):
    real = host.prove
    monkeypatch.setattr(host, "prove", lambda simulation: host.replace(real(simulation), digest="other"))
    with pytest.raises(UserError, match=r"computes other bits .*ATEN_CPU_CAPABILITY"):
        elsewhere(monkeypatch, "fedavg", engine="sequential")
    desk, said = Desk(), []
    monkeypatch.setattr(many, "connected", desk.connected)
    simulation = small_simulation("fedavg", engine="sequential")
    with many.working_on(Machines(workers=2, mixed=True), simulation, said.append):
        play(simulation, 1)
    assert simulation.elsewhere.told()["workers"]["mixed"] is True
    assert any("computes other bits" in line for line in said)


def test_other_rows_are_refused(monkeypatch):
    real = host.prove
    monkeypatch.setattr(host, "prove", lambda simulation: host.replace(real(simulation), data_sha256="other"))
    with pytest.raises(UserError, match="other rows"):
        elsewhere(monkeypatch, "fedavg", engine="sequential")


def test_the_proof_notices_other_kernels(monkeypatch):
    simulation = small_simulation("fedavg", engine="sequential")
    first = host.prove(simulation)
    assert host.prove(small_simulation("fedavg", engine="sequential")).digest == first.digest
    linear = functional.linear
    monkeypatch.setattr(functional, "linear", lambda x, w, b=None: linear(x, w, b) * (1 + 2**-20))
    assert host.prove(simulation).digest != first.digest


def test_a_mistake_is_told_as_in_one_process_and_not_tried_again(monkeypatch):
    # A rate at which float32 overflows: the parties of a block find it, in one process and elsewhere.
    fields = {"engine": "sequential", "channel": "quantise(8)", "lr": 1e15}
    desk = Desk()
    with pytest.raises(UserError) as there:
        elsewhere(monkeypatch, "fedavg", desk=desk, rounds=4, **fields)
    with pytest.raises(UserError) as here:
        alone("fedavg", rounds=4, **fields)
    assert str(there.value) == str(here.value)
    assert desk.started == 2


def test_an_engine_that_falls_back_does_so_for_all(monkeypatch):
    monkeypatch.setattr("unalike.engines.vectorised._Stack.answer", _cannot)
    simulation, said = elsewhere(monkeypatch, "fedavg", rounds=3, engine="vectorised")
    again = alone("fedavg", rounds=3, engine="vectorised")
    assert simulation.engine_name == again.engine_name == "sequential"
    assert simulation.why_this_engine == again.why_this_engine
    assert simulation.state.digest() == again.state.digest()
    assert sum("on the sequential engine" in line for line in said) == 1


def _cannot(self):
    raise RuntimeError("vmap cannot do this")


@pytest.mark.parametrize("value", [0, -1, 5000, 1.5, True])
def test_numbers_of_workers_that_mean_nothing(value):
    with pytest.raises(UserError, match="--workers must be from 1 to 4,096"):
        Machines(workers=value)


def test_options_without_workers_are_refused():
    assert Machines.said(None, None, None) is None
    for fields in ({"cpus": 2.0}, {"cpus": None, "mixed": True}):
        with pytest.raises(UserError, match="is for workers"):
            Machines.said(None, None, **fields)


def test_protocols_train_in_one_process():
    from unalike.runs.playing import playable
    from unalike.runs.spec import RunSpec

    trees = playable(RunSpec(dataset="heart", partition="natural", model="trees", algorithm="histogram"))
    with (
        pytest.raises(UserError, match="histogram trains in one process"),
        many.working_on(Machines(workers=2), trees, print),
    ):
        pass


def test_an_address_where_nothing_is_takes_one_line():
    pytest.importorskip("ray")
    with (
        pytest.raises(UserError, match=r"Nothing answers at --cluster 127\.0\.0\.1:1"),
        connected(Machines(cluster="127.0.0.1:1"), 1, 0),
    ):
        pass
    with pytest.raises(UserError, match="must be HOST:PORT or auto"), connected(Machines(cluster="here"), 1, 0):
        pass
