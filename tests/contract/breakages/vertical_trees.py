"""What breaks boosted trees of split columns, and the tests that notice."""

import pytest

from tests.algorithms.vertical import test_secureboost
from tests.contract.mutations import of_file
from tests.vertical import test_candidates, test_gradient_code, test_instance_space

HOME = "algorithms/vertical/"
MUTATIONS = [
    *of_file(
        HOME + "secureboost.py",
        (
            "the first trees look at all columns",
            'self.first == "own" and round == 1',
            'self.first == "own" and round == 0',
        ),
        ("one party is never alone", "(guest + round - 1) % terms.parties,)", "(guest + round) % terms.parties,)"),
    ),
    *of_file(
        HOME + "boost_guest.py",
        ("rows need not have the sums that were sent", "check(host, same,", "check(host, True,"),
        ("leaves say nothing", "margins[:, k] += leaf_values(growing, building.tree)", "margins[:, k] += 0"),
    ),
    *of_file(
        HOME + "boost_host.py",
        (
            "splits have the same numbers in all trees",
            'self.me.secret("numbers of splits", *place)',
            'self.me.secret("numbers of splits", 0)',
        ),
        ("the last of equals is chosen", "int(np.argmin(order[own[:, 1]]))", "int(np.argmax(order[own[:, 1]]))"),
        (
            "nodes without rows are summed",
            "len(wanted) and len(sizes) == len(wanted) and min(sizes)",
            "len(sizes) == len(wanted)",
        ),
    ),
    *of_file(
        HOME + "boost_sealed.py",
        (
            "all trees have one key",
            'self.me.secret("keys of a tree", *place)',
            'self.me.secret("keys of a tree", 0)',
        ),
        (
            "hosts' rounds may use own columns",
            "return allowed if self.me.number in self.owners else",
            "return allowed if True else",
        ),
    ),
    *of_file(
        HOME + "boost_rows.py",
        (
            "all columns may be split on",
            "permutation(count)[most:]] = False",
            "permutation(count)[count:]] = False",
        ),
        ("rows are begun at nothing", "state[name] + base for name", "state[name] for name"),
    ),
    *of_file(
        HOME + "boost_predict.py",
        ("columns are those of the party", 'columns[party][table["feature"][theirs]]', 'table["feature"][theirs]'),
        ("missing values all go left", 'gap = bool(state["missing_left"][at] > 0)', "gap = True"),
    ),
    *of_file(
        "vertical/candidates.py",
        (
            "missing rows never go left",
            "np.where(self.missing_left[:, None], hist[end - 1], 0)",
            "0 * hist[end - 1]",
        ),
        ("the frequent bin is empty", "total * inverse(others, modulus) % modulus", "number(1)"),
    ),
    *of_file(
        "vertical/gradient_code.py",
        (
            "sums run into each other",
            "(rows * int(most * 2**SHIFT)).bit_length() + 1",
            "(rows * int(most * 2**SHIFT)).bit_length() - 1",
        ),
    ),
    *of_file(
        "vertical/joint_building.py",
        (
            "later parties win among equals",
            "better = (gain > best) & (gain > LEAST_GAIN)",
            "better = (gain >= best) & (gain > LEAST_GAIN)",
        ),
    ),
    *of_file(
        "vertical/instance_space.py",
        ("a node that is there is split again", "or ends[left] or ends[right]", ""),
        ("zeros behind are not looked at", "or bits[length:].any()", ""),
    ),
]


def patched(check, *arguments):
    """A check that changes something for its own time, such as the least length of keys."""
    with pytest.MonkeyPatch.context() as patch:
        check(*arguments, patch)


TRUE = test_secureboost.test_trees_are_those_of_joint_training_to_the_bit
HOST = test_secureboost.test_a_host_that_says_what_cannot_be_is_named
GUEST = test_secureboost.test_a_label_holder_that_says_what_cannot_be_is_named
CHECKS = [
    (test_instance_space.test_splits_of_nodes_that_are_not_there_are_refused,),
    (test_instance_space.test_bits_of_other_lengths_are_refused,),
    (test_gradient_code.test_the_greatest_sums_are_taken_apart,),
    (test_candidates.test_nodes_of_no_or_one_row_have_sums_too, 1),
    *((patched, HOST, name) for name in ("a split that is not the best",)),
    *((patched, GUEST, name) for name in ("nodes without rows",)),
    (patched, test_secureboost.test_rows_that_go_left_have_the_sums_that_were_sent),
    (patched, TRUE, "numbers"),
    (patched, TRUE, "counts"),
    (patched, TRUE, "a share of columns"),
    (patched, test_secureboost.test_the_joined_model_reads_columns_wherever_the_table_has_them),
    (patched, test_secureboost.test_ties_go_to_the_lowest_party_column_and_bin, 0),
    *(
        (patched, test_secureboost.test_rounds_may_be_on_one_partys_columns, *case)
        for case in (({"mix": True}, [1, 2, 0, 1]), ({"first": "own"}, [1, [0, 1, 2], [0, 1, 2], [0, 1, 2]]))
    ),
    (patched, test_secureboost.test_predictions_of_wrong_bits_are_refused),
    (patched, test_secureboost.test_predicting_together_gives_the_bits_of_the_joined_model_and_of_training, 0, 2),
    (patched, test_secureboost.test_every_tree_has_a_key_of_its_own_and_sums_leave_under_numbers_of_their_own),
]
