"""What can be wrong with distillation on the server, and the tests that notice."""

import torch

from tests.algorithms.knowledge import test_distil as tests
from tests.contract.mutations import of_file
from unalike.algorithms.knowledge.distil import Course

MUTATIONS = of_file(
    "algorithms/knowledge/distil.py",
    ("the rate does not fall", "/ 2 if self.decay", "/ 2 if False"),
    ("the heat is not made good", "course.heat**2 * functional", "functional"),
    ("only the target is heated", "cross_entropy(told / course.heat, target)", "cross_entropy(told, target)"),
    ("the ensemble is not heated", "(self.logits(batch) / self.heat).softmax", "self.logits(batch).softmax"),
    ("all members count the same", "if self.weights is None:", "if True:"),
    ("the mean of logits in place of scores", 'if self.mean == "logits":', "if True:"),
    ("the target is another row's", "else target[batch.index]", "else target[: len(batch.y)]"),
    ("the same batch in every step", "else next(drawn)", "else next(_drawn(rows, course.size, generator))"),
    (
        "batches in the order of the rows",
        "torch.randperm(len(rows.y), generator=generator), size",
        "torch.arange(len(rows.y)), size",
    ),
    (
        "nobody's stream",
        "torch.randperm(len(rows.y), generator=generator), size",
        "torch.randperm(len(rows.y)), size",
    ),
    ("weights do not decay", "gradient + course.weight_decay * student", "gradient"),
    ("no momentum", "first.mul_(course.momentum)", "first.mul_(0)"),
    ("Adam's first mean is biased", "first / (1 - 0.9 ** (step + 1))", "first"),
    ("Adam's second mean is biased", "second / (1 - 0.999 ** (step + 1))", "second"),
    ("the start is changed in place", "student = w.detach().clone()", "student = w.detach()"),
    ("the latest is kept, not the best", "if loss < self._loss or step == 0:", "if True:"),
    ("the worst is kept", "if loss < self._loss or step == 0:", "if loss > self._loss or step == 0:"),
    ("it never ends early", "return 0 < self._patience <= step - self._step", "return False"),
    ("the end is not looked at", "    best.enough(student, course.batches)", "    pass"),
    (
        "the student's statistics are a fresh net's",
        "replace(batch, buffers=buffers, training=False))\n        given",
        "replace(batch, training=False))\n        given",
    ),
    (
        "statistics of the batch",
        "replace(batch, buffers=buffers, training=False))\n        given",
        "replace(batch, buffers=buffers, training=True))\n        given",
    ),
    (
        "rows to stop by are learnt from",
        "return taken(rows, order[count:].sort()",
        "return taken(rows, order[: 3 * count].sort()",
    ),
    ("made rows have no gradient where the net is compiled", "if batch.x.requires_grad and", "if False and"),
)
ADAM, SGD = (
    (lambda p: torch.optim.Adam(p, lr=1e-3)),
    (lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01)),
)
CHECKS = [
    (tests.test_it_is_pytorchs_optimiser_under_a_cosine_on_the_divergence, Course(), ADAM),
    (
        tests.test_it_is_pytorchs_optimiser_under_a_cosine_on_the_divergence,
        Course(optimiser="sgd", lr=0.1, momentum=0.9, weight_decay=0.01),
        SGD,
    ),
    (tests.test_an_ensemble_has_the_mean_of_logits_or_of_scores,),
    (tests.test_a_table_is_what_is_said_of_each_row_and_is_read_at_its_own_place,),
    (tests.test_each_pass_has_all_rows_once_and_is_drawn_by_the_stream_alone,),
    (tests.test_gradients_reach_rows_that_are_made_also_where_the_net_is_compiled,),
    (tests.test_no_step_is_no_change_and_a_student_that_agrees_stays,),
    (tests.test_the_best_on_validation_rows_is_kept_and_patience_ends_it,),
    (tests.test_running_statistics_are_used_and_left_alone,),
    (tests.test_rows_to_stop_by_are_none_of_those_to_learn_from,),
]
