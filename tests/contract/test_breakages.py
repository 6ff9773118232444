"""``check_algorithm`` fails where an algorithm breaks the contract: each class here breaks one promise."""

import pytest
import torch

from unalike.algorithms import Algorithm, algorithm
from unalike.errors import UserError
from unalike.runs.check import check_algorithm


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


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("broken-mutates-payload", "in place|differ"),
        ("broken-mutates-state", "in place|differ"),
        ("broken-plain-mean-of-batch", "differ"),
        ("broken-remembers-outside", "differ"),
        ("broken-counts-padding", "differ"),
    ],
)
def test_is_caught(name, message):
    with pytest.raises(AssertionError, match=message):
        check_algorithm(name)


def test_a_branch_on_values_cannot_be_stacked():
    with pytest.raises(UserError, match=r"BranchesOnValues.correct failed .*data-dependent"):
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
