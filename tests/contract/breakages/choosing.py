"""Rounds that are chosen on test rows, and the test that notices."""

from tests.contract.mutations import of_file
from tests.runs import test_selection

MUTATIONS = of_file(
    "runs/selection.py",
    (
        "the round is chosen on test rows while it trains",
        'row.get(f"validation_{self._score.key}")',
        "row.get(self._score.key)",
    ),
    ("the round is chosen on test rows afterwards", 'key = f"validation_{score.key}"', "key = score.key"),
)
CHECKS = [(test_selection.test_of_equal_rounds_the_earliest_is_selected_both_while_it_trains_and_afterwards,)]
