"""Mistakes in an algorithm of one's own are one line that names the method, under ``run`` and the check."""

import inspect
import re

import pytest
import torch

from unalike.algorithms import ALGORITHMS, Algorithm, Ask, FedAvg, algorithm
from unalike.algorithms.checked import _RULES, _SCRIPTS, checked
from unalike.algorithms.contract import ByParty, Phase
from unalike.errors import UserError
from unalike.runs.check import check_algorithm
from unalike.runs.run import run
from unalike.runs.small import small_dataset, small_simulation

ENGINES = ("sequential", "vectorised", "compiled")
METHODS = [*_RULES, *_SCRIPTS]
NAME = "broken-mine"
ROUND = ("measure", "report", "offer")
"""Methods that FedAvg's own round does not come by."""


def _measures(self, task, server):
    seen = yield Ask("measure", self.send(task, server))
    assert seen is not None
    yield Ask("offer", self.send(task, server))
    replies = yield Ask("train", self.send(task, server))
    return self.fold(task, server, replies)


def mine(**methods):
    """Register an algorithm with these methods."""
    if set(methods) & set(ROUND):
        methods.setdefault("round", _measures)
        methods.setdefault(
            "measure", lambda self, party, batch: {"loss": party.task.loss(party.received["w"], batch)}
        )
    if "keep" in methods:
        methods.setdefault("phases", lambda self, task, round: (Phase("first"), Phase("second")))
    return algorithm(NAME)(type("Mine", (Algorithm,), methods | {"__module__": __name__, "__doc__": "Mine."}))


def mistake(engine="sequential"):
    """The line that a run on the engine ends in."""
    with pytest.raises(UserError) as caught:
        run(
            data=small_dataset(),
            partition="natural",
            algorithm=NAME,
            rounds=1,
            epochs=1,
            engine=engine,
            model="mlp(4)",
        )
    line = str(caught.value)
    assert "\n" not in line
    assert len(line) < 500
    return line


def agreed():
    """The same line on every engine and from ``check_algorithm``."""
    lines = {mistake(engine) for engine in ENGINES}
    assert len(lines) == 1, lines
    with pytest.raises(UserError) as caught:
        check_algorithm(NAME, model="mlp(4)", partition="natural")
    (line,) = lines
    assert str(caught.value).split(" got ")[0].split(":")[0] == line.split(" got ")[0].split(":")[0]
    return line


def contract(method):
    return ", ".join(list(inspect.signature(getattr(Algorithm, method)).parameters)[1:])


def test_every_method_of_the_contract_is_checked():
    public = {name for name, value in vars(Algorithm).items() if inspect.isfunction(value) and name[0] != "_"}
    assert public == set(METHODS)


@pytest.mark.parametrize("method", METHODS)
def test_a_wrong_signature(method):
    mine(**{method: lambda self: None})
    line = agreed()
    assert line.startswith(f"Mine.{method} (test_checked.py, line ")
    assert f"takes (), but is called with ({contract(method)})" in line
    assert line.endswith(f"Write def {method}(self, {contract(method)}).")


@pytest.mark.parametrize("method", METHODS)
def test_one_argument_too_many_or_none_at_all(method):
    names = contract(method).split(", ")
    function = eval(f"lambda self, {', '.join(names)}, more: None")
    mine(**{method: function})
    assert "missing a required argument: 'more'" in mistake()
    mine(**{method: 1.0})
    assert mistake() == f"Mine.{method} must be a method. Write def {method}(self, {contract(method)})."


def test_further_arguments_with_defaults_and_other_names_are_fine():
    mine(weight=lambda self, me, factor=1.0: me.size * factor, fold=lambda self, *all: Algorithm.fold(self, *all))
    check_algorithm(NAME)


MAY_BE_NONE = {"global_model", "proximal", "linear", "beside", "near", "teach", "contrast", "scales"}
MAY_BE_NONE |= {"ahead", "pace", "labels"}


@pytest.mark.parametrize("method", sorted(set(METHODS) - MAY_BE_NONE - set(_SCRIPTS)))
def test_nothing_returned(method):
    names = contract(method)
    mine(**{method: eval(f"lambda self, {names}: None")})
    line = agreed()
    assert line.startswith(f"Mine.{method} (<string>, line 1) must return ")
    assert line.endswith("got None.")


def no_state(self, party, w):
    return {"delta": w - party.received["w"]}


WRONG = {
    "a vector as state": (
        "init_server",
        lambda self, task, w: w,
        "a dict of named tensors.*got a tensor of shape",
    ),
    "floats as state": ("init_party", lambda self, task, w: {"a": 1.0}, r"got \{'a': a float\}"),
    "numbers as names": ("init_party", lambda self, task, w: {3: w}, r"got \{3: a tensor of shape"),
    "a payload of floats": ("send", lambda self, task, server: {"w": 1.5}, r"got \{'w': a float\}"),
    "a list": ("fold", lambda self, task, server, replies: [server["w"]], r"got \[a tensor of shape \(\d+,\)\]"),
    "no state": ("upload", no_state, r"two dicts .* got \{'delta': a tensor of shape \(\d+,\)\}"),
    "three": ("upload", lambda self, party, w: ({}, {}, {}), r"got \(\{\}, \{\}, \{\}\)"),
    "a float in it": (
        "upload",
        lambda self, party, w: ({"delta": 0.5}, {}),
        r"got \(\{'delta': a float\}, \{\}\)",
    ),
    "a number as report": ("report", lambda self, party: party.size, "got a tensor of shape"),
    "a number as measure": ("measure", lambda self, party, batch: batch.x.sum(), "got a tensor of shape"),
    "a short model": (
        "global_model",
        lambda self, task, server: server["w"][:3],
        r"of the net's \d+ weights, several of them \[k, \d+\], or None, got a tensor of shape \(3,\)",
    ),
    "a short personal model": (
        "personal",
        lambda self, party: party.received["w"][:3],
        r"of the net's \d+ weights, got a tensor of shape \(3,\)",
    ),
    "a float as weight": (
        "weight",
        lambda self, party: 1.0,
        "one number as a tensor, such as party.size, got a float",
    ),
    "weights": ("weight", lambda self, party: party.received["w"], "one number"),
    "no vector to start": (
        "start",
        lambda self, party: party.size,
        r"a vector \(torch.float32\) of weights, got a tensor of shape \(\)",
    ),
    "all to start": ("start", lambda self, party: party.received, r"got \{'w': a tensor"),
    "only a centre": ("proximal", lambda self, party: party.received["w"], "None, or mu .* and a vector"),
    "a number as centre": ("proximal", lambda self, party: (0.1, 0.0), r"got \(a float, a float\)"),
    "a number as slope": ("linear", lambda self, party: 0.5, r"None, or a vector \(torch.float32\), got a float"),
    "a share for each weight": (
        "beside",
        lambda self, party: party.received["w"],
        "None, or the share of a second model: a number, got a tensor",
    ),
    "a loss for each row": (
        "loss",
        lambda self, party, w, batch: party.task.logits(w, batch),
        r"one number.*got a tensor of shape \(\d+, 3\)",
    ),
    "a loss without gradient": (
        "loss",
        lambda self, party, w, batch: party.task.loss(w, batch).detach(),
        "without a gradient",
    ),
    "another gradient": (
        "correct",
        lambda self, party, w, grad: grad[:2],
        r"like grad, torch.Size\(\[\d+\]\), got a tensor of shape \(2,\)",
    ),
    "a state of another type": (
        "init_server",
        lambda self, task, w: {"w": w.double()},
        r"w of torch.float32, got \{'w': a tensor of shape \(\d+,\) of torch.float64\}",
    ),
    "a model of another type": (
        "global_model",
        lambda self, task, server: server["w"].double(),
        r"a vector \(torch.float32\) of .*, got a tensor of shape \(\d+,\) of torch.float64",
    ),
    "a personal model of another type": (
        "personal",
        lambda self, party: party.received["w"].double(),
        r"a vector \(torch.float32\) of .*, got a tensor of shape \(\d+,\) of torch.float64",
    ),
    "a start of another type": ("start", lambda self, party: party.received["w"].double(), "of torch.float64"),
    "a slope of another type": ("linear", lambda self, party: party.received["w"].double(), "of torch.float64"),
    "a centre of another type": (
        "proximal",
        lambda self, party: (0.1, party.received["w"].double()),
        "of torch.float64",
    ),
    "a phase alone": (
        "phases",
        lambda self, task, round: Phase(),
        "a tuple of one Phase or more.*, got Phase\\(\\)",
    ),
    "no phase": ("phases", lambda self, task, round: (), r"a tuple of one Phase or more.*, got \(\)"),
    "epochs and steps": (
        "phases",
        lambda self, task, round: (Phase(epochs=1, steps=1),),
        "not both.*epochs=1, steps=1",
    ),
    "no steps": ("phases", lambda self, task, round: (Phase(steps=0),), "steps above 0.*steps=0"),
    "half an epoch": ("phases", lambda self, task, round: (Phase(epochs=0.5),), "above 0.*epochs=0.5"),
    "rows of others": (
        "phases",
        lambda self, task, round: (Phase(rows="test"),),
        "own, public or own.public.*rows='test'",
    ),
    "a yes for epochs": (
        "phases",
        lambda self, task, round: (Phase(epochs=True),),
        "steps above 0.*epochs=True",
    ),
    "a strength too many": (
        "proximal",
        lambda self, party: (torch.ones(3), party.received["w"]),
        "None, or mu .a number, or one for each weight. and a vector",
    ),
    "too few rows": (
        "send",
        lambda self, task, server: {"w": ByParty(server["w"][None], torch.zeros(2, dtype=torch.int64))},
        r"for each of the 6 parties.*which=\[0, 0\]",
    ),
    "no such part": (
        "phases",
        lambda self, task, round: (Phase(trains="haed"),),
        r"a part of the net .*, got \(Phase\(trains='haed'\)\)",
    ),
    "a list of phases to adapt": ("adapt", lambda self, task: [Phase()], r"a tuple of Phase.*, got \[Phase\(\)\]"),
    "no such part to adapt": ("adapt", lambda self, task: (Phase(trains="haed"),), "a part of the net"),
    "a list by party": ("send", lambda self, task, server: {"w": [server["w"]]}, "or of ByParty"),
    "a row that is not there": (
        "send",
        lambda self, task, server: {"w": ByParty(server["w"][None], torch.arange(6))},
        r"ByParty.* where a party gets a row.*which=\[0, 1, 2, 3, 4, 5\]",
    ),
    "phases of which the first is lost": (
        "phases",
        lambda self, task, round: (Phase("one"), Phase("two")),
        r"returns 2 phases, but Mine has no keep\. Each phase begins at start\(party\)",
    ),
    "no generator": ("round", lambda self, task, server: server, "a generator: yield an Ask"),
}


@pytest.mark.parametrize(("method", "function", "message"), WRONG.values(), ids=WRONG)
def test_a_wrong_value(method, function, message):
    mine(**{method: function})
    for engine in ENGINES:
        line = mistake(engine)
        assert line.startswith(f"Mine.{method} (test_checked.py, line ")
        assert re.search(message, line), line
    with pytest.raises(UserError, match=message):
        check_algorithm(NAME)


def _yields(*asks, end=None):
    def round(self, task, server):
        for ask in asks:
            yield ask(self.send(task, server)) if callable(ask) else ask
        return end

    return round


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (_yields({"w": 1.0}), r"must yield each exchange as an Ask\(kind, payload\), got {'w': a float}"),
        (_yields(None), "must yield each exchange as an Ask.*got None"),
        (_yields(lambda payload: Ask("trian", payload)), "one of train, measure, measure.train.*got 'trian'"),
        (_yields(lambda payload: Ask("train", [1])), r"payload is a dict of named tensors.*, got \[a int\]"),
        (_yields(lambda payload: Ask("measure", payload, rows="test")), "one of train, validation, public, got"),
        (_yields(lambda payload: Ask("train", payload, to=[0])), "`to` is None or a tuple of .*, got"),
        (_yields(lambda payload: Ask("train", payload, to=())), "`to` is None or a tuple of"),
        (_yields(lambda payload: Ask("train", payload)), "must return the server's state, a dict.*got None"),
        (_yields(lambda payload: Ask("train", payload), end=3), "must return the server's state.*got a int"),
        (_yields(lambda payload: Ask("train", payload), end={}), "changed the server's state from .* to {}"),
    ],
)
@pytest.mark.parametrize("method", ["round", "prepare"])
def test_exchanges_that_are_misused(method, function, message):
    mine(**{method: function})
    for engine in ENGINES:
        mistake(engine)
    with pytest.raises(UserError, match=message):
        check_algorithm(NAME)


def test_a_key_that_nobody_uploads():
    mine(upload=lambda self, party, w: ({"dleta": w - party.received["w"]}, party.state))
    line = agreed()
    assert line.startswith("Mine.fold failed (inherited from Algorithm): ")
    assert "no party uploaded 'delta': upload or report returned 'dleta'." in line


@pytest.mark.parametrize(
    ("methods", "message"),
    [
        (
            {"init_server": lambda self, task, w: {"v": w}},
            "Mine.send failed .*KeyError: 'w'. Given: server has 'v'",
        ),
        (
            {"upload": lambda self, party, w: ({"delta": party.state["c"]}, {})},
            r"Mine.upload failed \(test_checked.py, line \d+\): KeyError: 'c'. Given: .*party.state has nothing",
        ),
        (
            {"send": lambda self, task, server: {"weights": server["w"]}},
            r"Mine.start failed \(inherited from Algorithm\): .*party.received has 'weights'",
        ),
    ],
)
def test_a_key_that_is_not_there(methods, message):
    mine(**methods)
    with pytest.raises(UserError, match=message):
        small_simulation(NAME, engine="sequential").play_round()
    agreed()


def _helper(vector):
    return vector[:2] + vector[:3]  # THE LINE


class _Bug:
    def fold(self, task, server, replies):
        return {"w": _helper(server["w"])}


def test_a_bug_names_its_line_and_keeps_its_cause():
    mine(fold=_Bug.fold)
    lines = inspect.getsource(inspect.getmodule(_Bug)).splitlines()
    number = next(n for n, text in enumerate(lines, 1) if text.endswith("# THE LINE"))
    assert agreed().startswith(
        f"Mine.fold failed (test_checked.py, line {number}): RuntimeError: The size of tensor"
    )
    with pytest.raises(UserError) as caught:
        small_simulation(NAME).play_round()
    assert isinstance(caught.value.__cause__, RuntimeError)


def test_a_very_long_reason_is_cut():
    def fold(self, task, server, replies):
        raise ValueError("\n".join(["many lines"] * 1000))

    mine(fold=fold)
    assert mistake().endswith("lines ma...")


def test_keys_that_are_added_to_what_was_given():
    def fold(self, task, server, replies):
        server["more"] = server["w"]
        return server

    mine(fold=fold)
    assert "changed the server's state" in agreed()

    def upload(self, party, w):
        party.state["more"] = w
        return {"delta": w - party.received["w"]}, party.state

    mine(upload=upload)
    assert "the state of party 0 changed" in mistake()
    assert "the state of party 0 changed" in mistake("vectorised")


def test_a_class_that_inherits_nothing():
    algorithm(NAME)(type("Mine", (), {"__module__": __name__, "__doc__": "Mine."}))
    assert mistake() == "Mine is no Algorithm. Write: class Mine(Algorithm), from unalike import Algorithm."


def test_a_loss_that_cannot_be_stacked_still_runs_one_by_one():
    """The checks must not come between an engine and its fallback."""

    def correct(self, party, w, grad):
        return grad / grad.norm() if grad.norm() > 1 else grad

    mine(correct=correct)
    result = run(data=small_dataset(), partition="natural", algorithm=NAME, rounds=1, engine="vectorised")
    assert result.figures["engine"] == "sequential"
    with pytest.raises(UserError, match=r"Mine.correct failed \(test_checked.py, line \d+\): .*Use torch\.where"):
        check_algorithm(NAME)


def test_algorithms_of_this_package_are_as_they_were(monkeypatch):
    """A bug of ours is no mistake of the user's."""
    shipped = ALGORITHMS.build("fedavg")
    assert checked(shipped) is shipped
    assert not vars(shipped)

    def fold(self, task, server, replies):
        raise ZeroDivisionError

    monkeypatch.setattr(FedAvg, "fold", fold)
    with pytest.raises(ZeroDivisionError):
        small_simulation("fedavg").play_round()


def test_checks_change_no_bit():
    simulations = []
    mine()
    for name in (NAME, "fedavg"):
        simulation = small_simulation(name)
        for _ in range(2):
            simulation.state, _ = simulation.play_round()
        simulations.append(simulation)
    assert torch.equal(*(simulation.state.server["w"] for simulation in simulations))
    assert ALGORITHMS.describe(simulations[0].algorithm) == NAME


def test_a_state_in_the_algorithm_itself():
    def fold(self, task, server, replies):
        self.velocity = replies.mean["delta"]
        return server

    mine(fold=fold)
    assert re.match(
        r"Mine.fold failed \(test_checked.py, line \d+\): FrozenInstanceError: .*belongs into a state", mistake()
    )


def test_what_is_sent_is_said_in_the_words_that_sites_consent_to():
    mine(sends="everything")
    assert mistake().startswith("Mine.sends must be one of nothing, updates, scores on public rows, ")
    assert mistake().endswith("got 'everything'.")
