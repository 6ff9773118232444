"""What can be wrong with VIRTUAL, and the tests that notice."""

from tests.algorithms.personal import test_virtual as tests
from tests.contract.mutations import of_file

MUTATIONS = of_file(
    "algorithms/personal/virtual.py",
    (
        "the cavity has the party's own factor in it",
        '"precision"] - own["precision"]',
        '"precision"] + 0 * own["precision"]',
    ),
    ("the party's own shift is in the cavity", 'posterior["shift"] - own["shift"]', 'posterior["shift"]'),
    (
        "precisions are taken away twice",
        '{"precision": found - precision,',
        '{"precision": found - 2 * precision,',
    ),
    ("means are subtracted, not shifts", "found * mean - shift}", "mean - shift / precision}"),
    (
        "a variance in place of a precision",
        "/ width**2).maximum",
        "* width**2).maximum",
    ),
    ("precisions below 0", ".maximum(precision)", ""),
    ("noise is drawn once", "batch.normal(len(mean))", "party.normal(len(mean))"),
    ("no noise at all", " + width / posterior.sqrt() * batch.normal(len(mean))", ""),
    ("a deviation in place of a variance", "/ posterior * width**2", "/ posterior * width"),
    ("the divergence of the cavity from q", "- 1 - spread.log()", "- 1 + spread.log()"),
    ("the divergence counts for each row", "+ divergence / party.size", "+ divergence"),
    ("half of the divergence is forgotten", ".sum() / 2", ".sum()"),
    (
        "the whole change is kept, a part is sent",
        "party.state[key] + change for",
        "party.state[key] + change / self.damping for",
    ),
    ("all of the factor is sent, not its change", "(value - party.state[key])", "value"),
    ("what is undamped", "self.damping * (value", "(value"),
    ("absent parties' factors are forgotten", "server[key] + replies", "replies"),
    ("training starts from another width", "widened.exp()", "2 * widened.exp()"),
    ("a prior of another width", "self.deviation**-2", "self.deviation**-1"),
)
CHECKS = [
    (tests.test_one_pass_over_gaussian_likelihoods_is_the_exact_posterior, [[0], [1], [2], [1]]),
    (tests.test_damped_changes_go_the_same_way_step_by_step,),
    (tests.test_the_exact_posterior_is_where_the_expected_gradient_is_zero, 1),
    (tests.test_the_loss_is_that_of_a_draw_and_the_divergence_from_the_cavity,),
    (tests.test_every_step_has_a_draw_of_its_own,),
    (tests.test_a_gaussian_wider_than_the_cavity_takes_no_precision_away,),
    (tests.test_the_posterior_is_the_prior_and_all_factors_absent_ones_too, "sequential"),
]
