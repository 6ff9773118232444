"""One-line mutations of Mixup, NaiveMix and FedMix; among them what published code has wrong."""

from tests.algorithms.data import test_means, test_mixup
from tests.contract.mutations import of_file
from unalike.algorithms import FedMix, NaiveMix

MUTATIONS = [
    *of_file(
        "algorithms/data/means.py",
        (
            "the third term is too small by the batch size",
            "self.lam * (1 - self.lam) * slope",
            "self.lam * (1 - self.lam) * slope / len(batch.y)",
        ),
        (
            "the slope of a logit in place of the loss's",
            "return plain.loss_of(logits, batch), logits",
            "return batch.mean(logits.gather(1, batch.y[:, None])[:, 0]), logits",
        ),
        ("the slope is not at the shrunk rows", "own, (shrunk.x,)", "own, (batch.x,)"),
        ("the slope is left out", "+ self.lam * (1 - self.lam) * slope", "+ 0 * slope"),
        ("running statistics stand still", "if plain.buffers.size:", "if False:"),
        (
            "rows are not shrunk",
            "x=(1 - self.lam) * batch.x + self.lam * mean",
            "x=batch.x + self.lam * mean",
        ),
        ("small groups are told", "// self.groups >= self.least", "// self.groups >= 1"),
        ("untold means are drawn", "there.cumsum(dim=0)", "there.new_ones(len(there)).cumsum(dim=0)"),
        ("always the first mean", "batch.uniform(1) * upto", "0 * batch.uniform(1) * upto"),
        ("means are summed", "dealt.sum(dim=1, keepdim=True).clamp(min=1)", "1"),
        ("groups follow the table", "group[noise.uniform(party.key", "group[0 * noise.uniform(party.key"),
        ("nobody's means are a start", "not task.rehearsing and", "False and"),
        ("labels are those of one class", "share @ labels,", "(share @ labels).round(),"),
    ),
    *of_file(
        "algorithms/data/mixing.py",
        ("a mixed label's parts are added up alike", "* shares).sum", ").sum"),
        ("shares are uniform, whatever alpha is", "/ alpha) * angle**2", ") * angle**2"),
    ),
    *of_file(
        "algorithms/data/mixup.py",
        (
            "padding is mixed with",
            "(len(y) if batch.mask is None else batch.mask.sum())",
            "len(y)",
        ),
        ("labels are not mixed", "replace(batch, y=y[other])", "batch"),
        ("rows are not mixed", "+ lam * x[other]", "+ lam * x"),
    ),
    *of_file(
        "models/batch.py",
        ("the same numbers in every step", "noise.key_of_step(self.key, self.step)", "self.key"),
    ),
]
NAIVE, FIRST = NaiveMix(0.2), FedMix(0.2)
CHECKS = [
    (test_means.test_the_loss_and_its_gradient_are_the_papers_row_by_row, NAIVE, False, None),
    (test_means.test_the_loss_and_its_gradient_are_the_papers_row_by_row, FIRST, True, 6),
    (test_means.test_batch_norms_statistics_are_those_of_the_shrunk_rows,),
    (test_means.test_each_party_sends_the_mean_of_its_rows_once, "naivemix", "sequential"),
    (test_means.test_groups_share_a_partys_rows_out_and_each_row_is_in_one,),
    (test_means.test_a_group_of_fewer_rows_than_least_is_not_told_and_never_drawn, "fedmix"),
    (test_means.test_where_nobody_has_enough_rows_nothing_is_trained, "naivemix"),
    (test_mixup.test_shares_are_from_the_symmetric_beta, 0.2),
    (test_mixup.test_the_loss_is_that_of_mixed_rows_and_labels, 6, 0),
    (test_mixup.test_every_step_draws_another_share,),
]
