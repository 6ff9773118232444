"""What can be wrong with FedCurv, and the tests that notice."""

from tests.algorithms import test_fedcurv as tests
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

MUTATIONS = of_file(
    "algorithms/fedcurv.py",
    ("the square of the batch's gradient", "row = Batch(x[None], y[None], buffers=batch.buffers)", "row = batch"),
    ("a sum in place of the mean", '"fisher": total / real.sum()', '"fisher": total'),
    ("only the last block counts", "total = total + part", "total = part"),
    ("blocks of any size count the same", " * real[rows].sum()", " * block"),
    ("the received model's curvature", "w, task = party.trained", 'w, task = party.received["w"]'),
    ("the party's own curvature is in the penalty", '(sums["fisher"] - own["fisher"])', '(sums["fisher"] + 0)'),
    ("the party's own anchor is in the penalty", 'sums["anchor"] - own["anchor"]', 'sums["anchor"]'),
    ("half of the strength", "return 2 * self.lam * curvature", "return self.lam * curvature"),
    ("half of the gradient", "2 * self.lam * (curvature", "self.lam * (curvature"),
    ("pushed away from the others", '* party.received["w"] - anchor', '* party.received["w"] + anchor'),
    (
        "one strength for all weights",
        "self.lam * curvature,",
        "self.lam * curvature.mean(),",
    ),
    ("absent parties are forgotten", "server[key] + replies", "0 * server[key] + replies"),
    ("all of the curvature is added, not its change", "value - party.state[key]", "value"),
    ("a party forgets its part", "**changes}, now", "**changes}, party.state"),
    ("strengths below 0", ".clamp(min=0)", ""),
)
CHECKS = [
    (tests.test_the_gradient_is_that_of_the_papers_penalty,),
    (tests.test_rounding_never_makes_a_strength_negative,),
    (tests.test_parties_minimise_their_loss_and_the_penalty, Sequential()),
    (tests.test_the_servers_sums_are_those_of_all_parties_absent_ones_too, "sequential"),
    (tests.test_the_fisher_information_of_a_logistic_model, "sequential", 150),
]
