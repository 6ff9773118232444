"""What can be wrong with FedRS and FedAwS, and the tests that notice."""

from tests.algorithms import test_fedaws as aws
from tests.algorithms import test_fedrs as rs
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/fedrs.py",
        (
            "the classes that are there are held back",
            "there + self.alpha * (1 - there)",
            "1 - there + self.alpha * there",
        ),
        ("absent classes are left out for ever", "there + self.alpha * (1 - there)", "there"),
        ("padding has labels", "batch.mean(hot.to(party.task.dtype))", "hot.to(party.task.dtype).mean(dim=0)"),
    ),
    *of_file(
        "algorithms/terms.py",
        ("scales are forgotten", "scored = logits if scales is None else logits * scales", "scored = logits"),
    ),
    *of_file(
        "algorithms/fedaws.py",
        ("features are pushed away", "(self.close - likeness)", "(likeness - self.close)"),
        ("the square is forgotten", ".clamp(min=0) ** 2)", ".clamp(min=0))"),
        ("features of any length", "(unit(features) * unit(rows)", "(features * unit(rows)"),
        ("fixed rows move", 'w if self.rows == "trained" else w.detach()', "w"),
        ("rows are averaged over those who do not have the class", " / share.where(share > 0, 1)[:, None]", ""),
        ("a class that nobody has", "share.where(share > 0, 1)[:, None]", "share[:, None]"),
        ("rows draw together", "rows - rate / 2**halved", "rows + rate / 2**halved"),
        ("a row is pushed by itself", "(gap - torch.diag(gap.diagonal()))", "gap"),
        ("each pair counts once", "gradient = 4 * (gap", "gradient = 2 * (gap"),
        (
            "steps are not halved",
            "least_distance(moved, margin) >= least, moved",
            "least_distance(moved, margin) >= 0, moved",
        ),
        ("the bias stays", 'w[task.slices["head"]] = 0', 'w[task.slices["head"]] *= 1'),
        ("rows of any length", "moved = unit(rows - rate", "moved = (rows - rate"),
        ("rows that are apart go on", "(margin - 1 + rows @ rows.T).clamp(min=0)", "(margin - 1 + rows @ rows.T)"),
    ),
]
CHECKS = [
    (rs.test_the_loss_is_equation_8_and_its_gradient_equals_finite_differences,),
    (rs.test_the_push_on_an_absent_class_grows_with_alpha_from_nothing,),
    (rs.test_labels_are_counted_over_real_rows_alone,),
    (aws.test_the_loss_is_the_papers_and_its_gradient_equals_finite_differences, 3),
    (aws.test_rows_of_other_classes_have_no_gradient_and_fixed_ones_none_at_all,),
    (aws.test_the_least_distance_never_falls_up_to_the_margin,),
    (aws.test_rows_that_are_apart_stay_and_close_ones_part,),
    (aws.test_a_step_is_that_of_the_regulariser,),
    (aws.test_a_class_that_nobody_has_keeps_its_row,),
    (aws.test_each_row_is_the_mean_of_those_who_have_its_class,),
    (aws.test_scores_are_cosines_but_for_the_features_length,),
]
