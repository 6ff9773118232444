"""``check_algorithm`` fails where an algorithm breaks the contract: each class here breaks one promise."""

from itertools import count

import numpy as np
import pytest
import torch

from unalike.algorithms import Algorithm, ByParty, Phase, algorithm
from unalike.errors import UserError
from unalike.runs.check import (
    check_adapt,
    check_algorithm,
    check_engines_agree,
    check_own_rows,
    check_phases,
    check_resume,
)


@algorithm("broken-mutates-payload")
class MutatesPayload(Algorithm):
    def upload(self, party, w):
        party.received["w"].add_(1.0)
        return {"delta": w - party.received["w"]}, party.state


@algorithm("broken-mutates-state")
class MutatesState(Algorithm):
    def init_party(self, task, w):
        return {"seen": torch.zeros(1)}

    def upload(self, party, w):
        party.state["seen"].add_(1.0)
        return {"delta": w - party.received["w"]}, party.state


@algorithm("broken-plain-mean-of-batch")
class ForgetsTheMask(Algorithm):
    """Averages over padding too."""

    def loss(self, party, w, batch):
        return party.task.loss(w, batch) + 0.1 * party.task.logits(w, batch).mean()


_MEMORY = []


@algorithm("broken-remembers-outside")
class RemembersOutside(Algorithm):
    """State that no checkpoint sees."""

    def fold(self, task, server, replies):
        _MEMORY.append(1)
        return {"w": server["w"] + replies.mean["delta"] * (1 + 0.01 * len(_MEMORY))}


@algorithm("broken-branches")
class BranchesOnValues(Algorithm):
    def correct(self, party, w, grad):
        return grad / grad.norm() if grad.norm() > 1 else grad


@algorithm("broken-counts-padding")
class CountsPadding(Algorithm):
    """Takes the padded width of a batch for its number of rows."""

    def loss(self, party, w, batch):
        return party.task.loss(w, batch) * len(batch.y)


@algorithm("broken-draws-outside")
class DrawsOutside(Algorithm):
    """Random numbers that no seed repeats."""

    def fold(self, task, server, replies):
        return {"w": server["w"] + replies.mean["delta"] * np.random.default_rng().uniform()}


@algorithm("broken-remembers-in-the-object")
class RemembersInTheObject(Algorithm):
    """A state that every run starts anew, but that a resumed one has lost."""

    def fold(self, task, server, replies):
        object.__setattr__(self, "_seen", getattr(self, "_seen", 0) + 1)
        return {"w": server["w"] + replies.mean["delta"] / self._seen}


_CALLS = count()


@algorithm("broken-phases-that-count")
class PhasesThatCount(Algorithm):
    """Local work that depends on how often it was asked for."""

    def phases(self, task, round):
        return (Phase(steps=1 + next(_CALLS) % 2),)


@algorithm("broken-adapts-by-chance")
class AdaptsByChance(Algorithm):
    def adapt(self, task):
        return (Phase(steps=1 + next(_CALLS)),)


_SENT = {}


@algorithm("broken-looks-at-others-rows")
class LooksAtOthersRows(Algorithm):
    """A party's model is pulled to the rows of all parties, which it was never sent."""

    def init_server(self, task, w):
        return {"w": w, "u": w.expand(task.population, -1).clone()}

    def send(self, task, server):
        _SENT["all"] = server["u"]
        return {"w": server["w"], "u": ByParty(server["u"], torch.arange(task.population))}

    def upload(self, party, w):
        return {"delta": w - party.received["w"] + 0.1 * _SENT["all"].mean(dim=0)}, party.state


@algorithm("broken-adapting-leaves-a-trace")
class AdaptingLeavesATrace(Algorithm):
    """A party that tries its model moves the server's."""

    def adapt(self, task):
        return (Phase(steps=1),)

    def personal(self, party):
        return party.received["w"].add_(0.01)


PADDED = "With whole batches they agree: a short batch is padded in a stack.*Average over rows with batch.mean"


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken-mutates-payload", "in place|They differ with whole batches too: look for .*an in-place change"),
        ("broken-mutates-state", "in place|They differ with whole batches too: look for .*an in-place change"),
        ("broken-plain-mean-of-batch", f"sequential and stacked differ by .* {PADDED}"),
        ("broken-counts-padding", f"sequential and stacked differ by .* {PADDED}"),
        ("broken-remembers-outside", "Two runs with one seed differ.*keeps a state in the class or in a module"),
        ("broken-draws-outside", "Two runs with one seed differ.*draws random numbers outside of the streams"),
        ("broken-remembers-in-the-object", "resumed differs .*Something that a later round needs is in no state"),
        ("broken-phases-that-count", "phases of round 0 are .*A site works them out itself"),
        ("broken-adapts-by-chance", "adapt says other phases"),
        (
            "broken-looks-at-others-rows",
            "changed with what other parties are sent.*its own row of a ByParty alone",
        ),
    ],
)
def test_is_caught_with_what_to_look_at(name, message):
    said = []
    with pytest.raises(AssertionError, match=message) as caught:
        check_algorithm(name, said.append)
    assert str(caught.value).startswith(f"{name}: ")
    assert "\n" not in str(caught.value).split("\nassert")[0]
    assert not said


@pytest.mark.parametrize(
    ("name", "check", "message"),
    [
        ("broken-adapting-leaves-a-trace", check_adapt, "training goes another way where models are adapted"),
        (
            "broken-looks-at-others-rows",
            check_own_rows,
            r"party \d's delta changed with what other parties are sent",
        ),
        ("broken-phases-that-count", check_phases, "asked again"),
        ("broken-draws-outside", check_resume, "Two runs with one seed differ on the same engine"),
        ("broken-plain-mean-of-batch", check_engines_agree, "padding is averaged or counted"),
    ],
)
def test_each_check_catches_what_it_is_for_and_nothing_else(name, check, message):
    with pytest.raises(AssertionError, match=message):
        check(name)
    check("fedavg")
    check("per-fedavg" if check is check_adapt else "fedamp")


def test_a_branch_on_values_cannot_be_stacked():
    with pytest.raises(UserError, match=r"BranchesOnValues.correct failed .*branches on a tensor"):
        check_algorithm("broken-branches")


@algorithm("broken-reads-plain-mean")
class ReadsTheWrongMean(Algorithm):
    def fold(self, task, server, replies):
        return {"w": server["w"] + replies.plain_mean["delta"]}


@algorithm("broken-reads-each")
class ReadsEach(Algorithm):
    def fold(self, task, server, replies):
        return {"w": replies.each[0]["delta"]}


def test_a_key_is_combined_in_the_declared_way_only():
    with pytest.raises(UserError, match=r"ReadsTheWrongMean.fold failed .*not listed in the algorithm's `plain`"):
        check_algorithm("broken-reads-plain-mean")


def test_single_uploads_need_saying_so():
    with pytest.raises(UserError, match="needs_each"):
        check_algorithm("broken-reads-each")
