"""CFL broken on purpose, and the tests that notice."""

from tests.algorithms.clustered import test_splits
from tests.contract.mutations import of_file

_CHILD = 'after["w"][child] = server["w"][node]'
_STEP = 'total = total + server["update"][number] * server["size"][number]'

MUTATIONS = [
    *of_file(
        "algorithms/clustered/splits.py",
        ("complete linkage", '"single"))', '"complete"))'),
        ("distances where similarities are meant", "squareform((1 - similar)", "squareform((1 + similar)"),
        ("positions within a group as party numbers", "[members[place] for place in part]", "list(part)"),
        ("a group splits before the criterion", "and self.stands_still(server, members)", ""),
        ("the largest update does not matter", "and bool(largest > self.eps2)", ""),
        ("a mean that is large", "bool(mean < self.eps1) and", "bool(mean > self.eps1) and"),
        ("relative to nothing", "self.eps1 * largest)", "self.eps1)"),
        ("parts that agree are split", "if similarity <= self.across", "if True"),
        ("nobody is waited for", "if int(heard.sum()) == expected else []", ""),
        ("updates of the parent's time count", '(server["latest"] > server["born"][node])', "mine"),
        ("newcomers are waited for", "int(mine.sum()) if node else population", "int(mine.sum())"),
        ("the last two nodes stay unused", "count(server) + 2 <= self.most", "count(server) + 2 < self.most"),
    ),
    *of_file(
        "algorithms/clustered/nodes.py",
        ("uniform means", _STEP, _STEP.replace('["size"][number]', '["size"][numbers[0]]')),
        ("inner nodes are forgotten", _CHILD, f'{_CHILD}; after["w"][node] = 0'),
        ("children begin anew", _CHILD, f"{_CHILD} * 0"),
        (
            "everybody gets the root's model",
            'ByParty(server["w"], server["group"])',
            'ByParty(server["w"], server["group"] * 0)',
        ),
        ("all nodes are children of the root", 'after["parent"][child] = node', 'after["parent"][child] = 0'),
        ("one step for all groups", "if group[number] == node]", "]"),
        (
            "directions have lengths",
            'directions(server["update"][list(members)])',
            'server["update"][list(members)]',
        ),
    ),
]
CHECKS = [
    (test_splits.test_bipartition_of_a_chain,),
    (test_splits.test_party_numbers_are_right_after_the_second_split,),
    (test_splits.test_inner_nodes_keep_the_model_that_they_had,),
    (test_splits.test_a_group_splits_in_the_first_round_in_which_the_criterion_holds, 0.3, 0.4),
    (test_splits.test_a_group_splits_in_the_first_round_in_which_the_criterion_holds, 0.3, 50.0),
    (test_splits.test_relative_thresholds_do_not_depend_on_the_scale,),
    (test_splits.test_parts_that_agree_stay_together,),
    (test_splits.test_absent_parties_are_waited_for,),
    (test_splits.test_a_full_tree_is_not_split,),
    (test_splits.test_newcomers_stay_at_the_root,),
]
