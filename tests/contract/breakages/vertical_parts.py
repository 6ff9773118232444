"""What breaks who has which columns of whom, and the tests that notice."""

import pytest

from tests.contract.mutations import of_file
from tests.partition import test_blocks
from tests.runs import test_column_cast

MUTATIONS = [
    *of_file(
        "partition/blocks.py",
        (
            "columns are in no order",
            "block = _cut(source, places, columns)",
            "block = _cut(source, places, columns[::-1])",
        ),
        (
            "the test set is the training set",
            "source = dataset.x_test if test else dataset.x",
            "source = dataset.x",
        ),
        (
            "labels are as the data set has them",
            "if not partition.distortions:\n        return dataset.y[rows]",
            "if True:\n        return dataset.y[rows]",
        ),
        (
            "strangers are looked up",
            "if (places >= len(known)).any() or (known[places] != rows).any():",
            "if False:",
        ),
        (
            "all know whom one knows",
            "np.setdiff1d(partition.rows[party], common_rows(partition))",
            "np.asarray(partition.rows[party])",
        ),
        (
            "mistakes are about the first columns",
            "within = np.searchsorted(own, attribute)",
            "within = np.arange(len(attribute))",
        ),
        (
            "columns have one name",
            'f"{dataset.features[column]} at {name}" if times[column] > 1 else',
            "dataset.features[column] if times[column] > 1 else",
        ),
    ),
    *of_file(
        "runs/column_cast.py",
        (
            "all have the labels",
            "data.y[places] if number == self.terms.label_holder else",
            "data.y[places] if True else",
        ),
        (
            "validation rows are trained on",
            "np.split(np.arange(len(places)), ends)",
            "np.split(np.arange(len(places)), ends * [0, 1] + [len(places), 0])",
        ),
        (
            "images are as they are stored",
            "x = x if self._as_is else scaled(x, data)\n        labels",
            "x = x\n        labels",
        ),
        (
            "people whom one knows are left out",
            "places: Array = np.concatenate([common.train, common.validation, apart])",
            "places: Array = np.concatenate([common.train, common.validation, apart[:0]])",
        ),
        (
            "alone the label holder reads the first columns",
            "self._readable(arrays, terms, self.columns[holder])",
            "self._readable(arrays, terms, np.arange(width))",
        ),
        ("nobody need be common", "if not len(common):", "if False:"),
    ),
]


def patched(check, *arguments):
    """A check that changes something for its own time."""
    with pytest.MonkeyPatch.context() as patch:
        check(*arguments, patch)


CHECKS = [
    (test_blocks.test_a_value_does_not_depend_on_which_rows_are_asked_for,),
    (test_blocks.test_some_values_of_shared_columns_are_another_persons,),
    (test_blocks.test_distortions_are_the_partys_own,),
    (test_blocks.test_blocks_side_by_side_where_parties_differ,),
    (test_column_cast.test_each_party_has_its_columns_of_the_same_people_and_one_the_labels,),
    (patched, test_column_cast.test_people_whom_not_all_know_are_apart),
    (test_column_cast.test_images_are_scaled_as_nets_see_them,),
    (test_column_cast.test_alone_reads_the_label_holders_columns,),
]
