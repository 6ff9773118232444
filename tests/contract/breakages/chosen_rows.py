"""Public rows are training rows: a server must not learn from, or choose by, those that figures are made of."""

from tests.algorithms.knowledge import test_feddf
from tests.contract.breakages.feddf import _patched
from tests.contract.mutations import of_file

MUTATIONS = of_file(
    "rounds/federation.py",
    (
        "public rows are test rows",
        "dataset.x[public], dataset.y[public]",
        "dataset.x_test[public % 40], dataset.y_test[public % 40]",
    ),
)
CHECKS = [_patched(test_feddf.test_rows_to_stop_by_are_public_and_apart_from_those_to_learn_from)]
