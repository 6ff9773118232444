"""One-line mutations of what objectives declare: mean features, a teacher, a contrast."""

from tests.algorithms import test_moon, test_rfedavg, test_rfedavg_plus, test_terms
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/terms.py",
        ("the square of the gap is forgotten", "lam * gap.dot(gap)", "lam * gap.norm()"),
        ("padding enters the mean feature", "batch.mean(features) - target", "features.mean(dim=0) - target"),
        ("features are pushed away", "fit + lam * gap", "fit - lam * gap"),
        ("the other models are trained too", "track=False).detach(), dim", "track=False), dim"),
        (
            "the other models leave a trace",
            "batch, track=False).detach(), dim",
            "batch, track=True).detach(), dim",
        ),
        ("times the heat of the contrast", "dim=-1) / heat, dim=-1)[..., 0]", "dim=-1) * heat, dim=-1)[..., 0]"),
        ("the sign of the contrast", "return -functional", "return functional"),
        (
            "padding enters the contrast",
            "mu * batch.mean(_contrast(task, models, heat, features, batch))",
            "mu * _contrast(task, models, heat, features, batch).mean()",
        ),
        ("the heat is not made good", "lam * heat**2 * batch", "lam * batch"),
        ("the teacher learns", "(fixed.detach() / heat)", "(fixed / heat)"),
        ("the student teaches", "(told.exp() * (told -", "(logits.softmax(dim=-1) * (told -"),
        ("only the teacher is heated", "(logits / heat).log_softmax", "logits.log_softmax"),
        ("a table is read from its start", "teacher[batch.index]", "teacher[: len(batch.y)]"),
        ("labels are read from their start", "y=labels[batch.index]", "y=labels[: len(batch.y)]"),
        ("the teacher leaves a trace", "task.logits(teacher, batch, track=False)", "task.logits(teacher, batch)"),
    ),
    *of_file(
        "engines/compiled/engine.py",
        ("compiled nets learn the rows' own labels", "if labels is None:", "if labels is None or len(labels):"),
        (
            "labels of parts are read by their number",
            "labels[torch.from_numpy(seen.places)]",
            "labels[: len(seen.index)]",
        ),
    ),
]
CHECKS = [
    (test_rfedavg.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, [1, 1, 1, 1, 1], 3),
    (test_rfedavg_plus.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, 5.0, 1.0, 3),
    (test_moon.test_the_loss_is_equation_4_and_its_gradient_equals_finite_differences, 0.2, 3),
    (test_moon.test_the_two_other_models_are_frozen,),
    (test_moon.test_frozen_models_leave_the_running_statistics_alone,),
    (test_terms.test_teaching_is_the_divergence_by_hand, "model", 3),
    (test_terms.test_teaching_is_the_divergence_by_hand, "table", 0),
    *(
        (test_terms.test_labels_of_an_algorithms_own_are_learnt_in_place_of_the_rows, e)
        for e in ("sequential", "compiled")
    ),
    (test_terms.test_a_teacher_is_not_taught,),
    (test_terms.test_a_teacher_leaves_the_running_statistics_alone,),
]
