"""What can be wrong with FedDF, and the tests that notice."""

import pytest

from tests.algorithms.knowledge import test_feddf as tests
from tests.contract.mutations import of_file

MUTATIONS = of_file(
    "algorithms/knowledge/feddf.py",
    ("the mean of the old model", 'server["w"] + replies.mean["delta"], int', 'server["w"], int'),
    ("teachers are updates", 'Member(task, server["w"] + each["delta"], ', 'Member(task, each["delta"], '),
    ("the same batches in every round", "task.generator(round, 2, which)", "task.generator(0, 2, which)"),
    ("one party learns from itself", "len(members) == 1 or not", "not"),
    ("the best is chosen on rows that it learns from", "validation=apart,", "validation=rows,"),
    ("rows to stop by are learnt from", "table(target, rows) if often", "table(target, task.public) if often"),
    ("the heat is lost", "Teachers(members, heat=self.heat)", "Teachers(members)"),
    ("students are means of all kinds", "if kinds[party] == kind]", "]"),
    (
        "parties of a kind count the same",
        'weight = sum(float(each["rows"]) for each in own)',
        "weight = len(own)",
    ),
    (
        "nets are taught by their own kind alone",
        "mean[: net.size], members,",
        "mean[: net.size], members[kind : kind + 1],",
    ),
    (
        "everybody gets the first net",
        "torch.arange(task.population) % len(task.nets)",
        "torch.arange(task.population) * 0",
    ),
)


def _patched(check, **arguments):
    """A test that wants pytest's monkeypatch."""

    def run():
        with pytest.MonkeyPatch.context() as patch:
            check(monkeypatch=patch, **arguments)

    run.__name__ = check.__name__
    return (run,)


CHECKS = [
    (tests.test_without_a_step_it_is_fedavg_to_the_bit, "sequential"),
    _patched(tests.test_one_party_moves_nothing),
    (tests.test_the_student_learns_the_mean_of_the_logits_from_the_average, 4, 5),
    _patched(tests.test_rows_to_stop_by_are_public_and_apart_from_those_to_learn_from),
    (tests.test_each_kind_of_net_has_a_student_that_all_kinds_teach, "sequential"),
    (tests.test_a_kinds_student_learns_from_the_models_of_the_others,),
]
