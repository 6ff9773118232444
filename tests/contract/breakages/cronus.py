"""What can be wrong with Cronus, and the tests that notice."""

from tests.algorithms.knowledge import test_cronus as tests
from tests.contract.mutations import of_file

MUTATIONS = of_file(
    "algorithms/knowledge/cronus.py",
    ("nobody is removed", "for _ in range(count):", "for _ in range(0):"),
    (
        "the nearest is removed",
        "torch.where(kept, along, -1).argmax",
        "torch.where(kept, -along, -9e99).argmax",
    ),
    ("the direction in which they vary least", "most.eigenvectors[..., -1]", "most.eigenvectors[..., 0]"),
    (
        "those who were removed still count",
        "share = (kept / kept.sum(dim=0)).to(points.dtype)\n        away",
        "share = (kept / kept.sum(dim=0) * 0 + 1 / len(kept)).to(points.dtype)\n        away",
    ),
    ("the removed are removed again", "torch.where(kept, along, -1)", "along"),
    ("equal points are removed", "max(spread, 1e-18)", "-1"),
    (
        "the plain mean",
        'return torch.einsum("kp,kpd->pd", share, points).to(given), kept',
        "return points.mean(dim=0).to(given), kept",
    ),
    ("in another type", ".to(given), kept", ", kept"),
    ("labels of public rows are looked at", "torch.where(public < 0, party", "torch.where(public < 99, party"),
    ("own rows are learnt by the mean", "torch.where(public < 0, party", "torch.where(public < -99, party"),
    ("the mean of another row", "[public.clamp(min=0)]", "[public.clamp(min=0).flip(0)]"),
    ("logits are sent", 'party.state["w"], batch).softmax(dim=-1)', 'party.state["w"], batch)'),
    ("removals are counted in another order", "(~kept).sum(dim=1)", "(~kept).sum(dim=1).flip(0)"),
    ("nobody trains alone first", "if self.alone:\n", "if False:\n"),
)
CHECKS = [
    (tests.test_the_filter_is_numpys_row_by_row, 3),
    (tests.test_nobody_is_removed_where_all_agree_or_differ_little,),
    (tests.test_own_rows_are_learnt_by_label_and_public_ones_by_the_mean,),
    (tests.test_who_is_removed_is_counted_by_party,),
    (tests.test_without_outliers_it_is_the_plain_mean_of_scores, "sequential"),
    (tests.test_first_everybody_trains_alone,),
]
