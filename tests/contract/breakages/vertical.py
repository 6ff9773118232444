"""What breaks linear models of split columns, and the tests that notice."""

from tests.algorithms.vertical import test_batches, test_fedbcd, test_linear, test_quasi_newton
from tests.contract.mutations import of_file
from tests.vertical import test_grid

HOME = "algorithms/vertical/"
MUTATIONS = [
    *of_file(
        HOME + "batches.py",
        ("half a pass is left out", "np.floor(number + 0.5)", "np.floor(number)"),
        ("steps are as long in all rounds", "lr_decay ** (round - 1)", "lr_decay**0"),
        ("two classes have two scores", "classes in (0, 2)", "classes in (0, 9)"),
    ),
    *of_file(
        HOME + "descent.py",
        ("the penalty is forgotten", "pull = pull + l2 * weights", "pull = pull + 0 * weights"),
        ("the others tell of what is far off", "self.proximal * (weights - start)", "self.proximal * weights"),
        ("the intercept is penalised", 'state["bias"], lr, 0.0)', 'state["bias"], lr, descent.l2)'),
        ("the last residual is told", "if told is None:", "if True:"),
        ("the mean of a batch is its sum", "mean = gradient / people", "mean = gradient"),
        ("strangers may speak", "if unasked:", "if False:"),
        ("any score is taken", "if not is_within(found, most):", "if False:"),
    ),
    *of_file(
        HOME + "fedbcd.py",
        ("parties take one step", "LocalSteps(self.q,", "LocalSteps(1,"),
        ("nothing holds weights near", "self.l2, self.proximal)", "self.l2, 0.0)"),
    ),
    *of_file(
        HOME + "linear.py",
        ("single scores are mailed", '!= "clear" and terms.parties >= 3', '!= "clear" and terms.parties >= 9'),
        ("few people are predicted", "len(places) < self.least_predicted", "len(places) < 1"),
        ("the losses of a round are added up", "float(total / rows)", "float(total)"),
        ("predictions forget the intercept", 'scores + own.intercept(state["bias"])', "scores"),
    ),
    *of_file(
        HOME + "quasi_newton.py",
        ("the intercept is penalised", "held[-1] = 0.0", "pass"),
        ("changes are those of the sign", '"changes": gradient - before', '"changes": before - gradient'),
    ),
    *of_file(
        "vertical/curvature.py",
        ("the first direction has no length", "found *= products", "found = found * 1.0 # products"),
        ("the slope goes on beyond the bottom", "if here < 0:\n", "if here > 0:\n"),
    ),
    *of_file(
        "vertical/objectives.py",
        (
            "numbers are not standardised",
            "np.asarray(y, np.float64) - shift) / scale",
            "np.asarray(y, np.float64))",
        ),
        ("all classes are wrong", "found[np.arange(len(y)), y] -= 1.0", "pass"),
    ),
    *of_file(
        "vertical/grid.py",
        ("numbers are cut off", "np.rint(np.ldexp(values, bits))", "np.floor(np.ldexp(values, bits))"),
        ("partial sums are rounded", "if bound * inner < _EXACT:", "if True:"),
    ),
    *of_file(
        "vertical/arithmetic.py",
        (
            "a person depends on the others",
            "found += column[:, None] * weight",
            "found += column[:, None] * weight * (1 + 1e-9 * len(found))",
        ),
        ("the intercept is on another grid", "astype(np.int64) << grid.COLUMNS", "astype(np.int64) << grid.STEPS"),
    ),
    *of_file(
        "vertical/linear.py",
        ("the first party has the intercept", 'party == arrays["label_holder"][0]', "party == 0"),
    ),
]
CHECKS = [
    (test_batches.test_a_round_has_as_many_batches_as_its_pace_says, {"epochs": 2.125}, 9),
    (test_batches.test_rates_and_outputs,),
    (test_quasi_newton.test_the_best_step_is_where_the_slope_is_zero, 5.0),
    (test_quasi_newton.test_a_direction_is_that_of_bfgs,),
    (test_linear.test_a_residual_that_is_none_is_the_label_holders_fault, 2.0**21),
    (test_linear.test_scores_beyond_bounds_are_their_senders_fault, 2**61 + 1, "masked"),
    (test_linear.test_who_speaks_out_of_turn_is_named,),
    (test_linear.test_in_the_clear_it_is_joint_training, 2, 0.5, 0.01, 2),
    (test_linear.test_in_the_clear_it_is_joint_training, 0, 0.1, 0.0, 0),
    (test_linear.test_masked_it_is_exactly_joint_training_on_the_grid, 4, 0.3, (4, 3, 5)),
    (test_linear.test_the_label_holder_hears_nothing_but_a_sum,),
    (test_linear.test_its_loss_falls_and_is_the_joint_one,),
    (test_linear.test_few_rows_are_not_predicted_where_scores_are_hidden,),
    (test_linear.test_a_predicted_person_does_not_depend_on_the_others,),
    (test_fedbcd.test_the_label_holder_looks_again_and_the_others_do_not,),
    (test_quasi_newton.test_it_finds_the_optimum_that_scipy_finds, 0, 0.3),
    (test_quasi_newton.test_a_quadratic_takes_as_many_steps_as_it_has_weights,),
    (test_linear.test_it_holds_the_contract_of_columns, 2, 0.5, "clear"),
    (test_grid.test_products_of_great_numbers_are_exact, 2**40, 2**12),
]
