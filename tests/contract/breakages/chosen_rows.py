"""Test rows decide nothing: not which round is selected, nor what a server's student learns."""

from tests.algorithms.knowledge import test_feddf
from tests.contract.breakages.feddf import _patched
from tests.contract.mutations import of_file
from tests.runs import test_selection

MUTATIONS = [
    *of_file(
        "runs/selection.py",
        (
            "the round is chosen on test rows",
            'value = row.get(f"validation_{self._score.key}")',
            "value = row.get(self._score.key)",
        ),
        (
            "afterwards, the round is chosen on test rows",
            'key = f"validation_{score.key}"\n    evaluated',
            "key = score.key\n    evaluated",
        ),
    ),
    *of_file(
        "rounds/federation.py",
        (
            "public rows are test rows",
            "dataset.x[public], dataset.y[public]",
            "dataset.x_test[public % 40], dataset.y_test[public % 40]",
        ),
    ),
]
CHECKS = [
    (test_selection.test_of_equal_rounds_the_earliest_is_selected_both_while_it_trains_and_afterwards,),
    _patched(test_feddf.test_rows_to_stop_by_are_public_and_apart_from_those_to_learn_from),
]
