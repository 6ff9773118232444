"""What breaks protocols of trees, and the tests that notice."""

from tests.algorithms.trees import test_histogram, test_whole_trees
from tests.contract.mutations import of_file
from unalike.algorithms.trees.alone import LocalTrees
from unalike.algorithms.trees.bagging import BaggedTrees
from unalike.algorithms.trees.cyclic import CyclicTrees
from unalike.models.trees import Trees

HOME = "algorithms/trees/"
PATIENT = LocalTrees(), CyclicTrees()
MUTATIONS = [
    *of_file(
        "algorithms/protocol.py",
        ("any type is taken", "if array.dtype != dtype or not fits:", "if not fits:"),
    ),
    *of_file(
        HOME + "histogram.py",
        ("the last round's trees are not used", "if turn.round > 1:\n", "if turn.round > 9:\n"),
        ("small parties add nothing", "max(1, me.least_rows)", "max(40, me.least_rows)"),
        ("losses are another round's", 'server["losses"][round - 1]', 'server["losses"][round]'),
    ),
    *of_file(
        HOME + "boosting.py",
        ("the trees of two rounds ago are told", "(round - 2) * count + k", "max(0, round - 3) * count + k"),
        ("patience is one too short", "known - 1 - best < patience", "known - best < patience"),
        (
            "the worst trees are kept",
            'int(np.argmin(kept["losses"])) * self',
            '(int(np.argmin(kept["losses"])) + 1) * self',
        ),
    ),
    *of_file(
        HOME + "agreement.py",
        ("all rows begin at nothing", "np.zeros_like(state[name]) + base", "np.zeros_like(state[name])"),
        ("any column may be asked for", "(column < terms.features).all()", "True"),
    ),
    *of_file(
        HOME + "told.py",
        ("splits may change", "if (old[was] != new[was]).any():", "if False:"),
        ("small nodes are answered for", "if fewest < settings.least_rows:", "if False:"),
        ("rows need not add up", "if (tree.rows[left] + tree.rows[right] != tree.rows[at]).any():", "if False:"),
        ("inner nodes may be asked for", "and trees[k].left[node] < 0)", ")"),
    ),
    *of_file(
        HOME + "own_rows.py",
        ("missing values stay where they are", "x[np.isnan(x[:, column]), column] = fill[column]", "pass"),
        ("validation rows stay behind", "add_values(seen[:, k % seen.shape[1]]", "add_values(seen[:, 0] * 1"),
        ("all outputs have the first one's trees", "margins[:, k % margins.shape[1]]", "margins[:, 0]"),
    ),
    *of_file(
        HOME + "shelf.py",
        ("all trees draw the same columns", '"columns", tree)', '"columns", 0)'),
        ("trees are a place too early", "enumerate(trees, start=first)", "enumerate(trees, start=first - 1)"),
    ),
    *of_file(
        HOME + "counted.py",
        ("roots are not counted", "nodes, told = len(trees), 0", "nodes, told = 0, 0"),
        ("counts are left out", "cuts.slots * channels_of(settings)", "cuts.slots * 2"),
    ),
    *of_file(
        HOME + "whole.py",
        ("a party counts no rows", "[len(me.rows.train)]", "[1]"),
        ("the last trees are forgotten", "if turn.round == 1:", "if turn.round >= 1:"),
    ),
    *of_file(
        HOME + "bagging.py",
        ("trees are added up", "value=tree.value * share", "value=tree.value"),
        ("rows never count", 'if self.weights == "rows"', "if False"),
    ),
    *of_file(
        HOME + "cyclic.py",
        ("the first party grows all trees", "(turn.round - 1) % me.terms.parties\n", "0\n"),
    ),
    *of_file(
        HOME + "alone.py",
        ("trees are not used", "state = used(me, state, trees) | with_trees(", "state = state | with_trees("),
        ("all begin at nothing", "name: state[name] + base for", "name: state[name] for"),
    ),
]
CHECKS = [
    (test_whole_trees.test_bagging_adds_the_mean_of_what_each_party_would,),
    (test_whole_trees.test_bagging_by_rows_listens_to_large_parties,),
    (test_whole_trees.test_cyclic_trees_are_those_of_the_party_whose_turn_it_is,),
    (test_whole_trees.test_alone_is_sums_with_one_party_and_nothing_is_said,),
    *((test_whole_trees.test_one_party_has_the_trees_of_sums, one, 3) for one in (BaggedTrees(), CyclicTrees())),
    *((test_whole_trees.test_patience_ends_training_and_keeps_the_best, one) for one in PATIENT),
    (test_whole_trees.test_so_many_trees_in_vain_end_it_and_no_fewer, [9, 5, 6], False),
    (
        test_histogram.test_parties_count_only_in_buckets_that_may_be_asked_for,
        test_histogram.changed("column", -1, 99),
        "buckets that are none",
    ),
    (test_histogram.test_each_tree_draws_its_own_columns,),
    (test_histogram.test_trees_are_those_of_the_core_on_all_rows,),
    (test_histogram.test_few_missing_values_are_moved_and_predicted_alike,),
    (test_histogram.test_a_party_with_more_rows_than_all_is_told_a_lie,),
    *((test_histogram.test_parties_refuse_what_the_server_may_not_ask, lie) for lie in test_histogram.LIES),
    (
        test_histogram.test_the_model_is_the_same_whoever_holds_which_row,
        3,
        Trees(depth=3, bins=8, least_rows=5, patience=2),
    ),
    *(
        (test_histogram.test_a_whole_round_has_the_bits_and_the_bytes_of_the_conversation, name)
        for name in test_histogram.SETTINGS
    ),
]
