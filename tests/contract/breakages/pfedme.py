"""What breaks pFedMe, and the tests that notice."""

from tests.algorithms.personal import test_pfedme
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = of_file(
    "algorithms/personal/pfedme.py",
    ("theta is decayed in secret", "theta = theta - self.inner_lr", "theta = 0.999 * theta - self.inner_lr"),
    ("theta never goes on from theta", "theta = theta - self.inner_lr", "theta = here - self.inner_lr"),
    ("theta goes uphill", "theta = theta - self.inner_lr", "theta = theta + self.inner_lr"),
    ("theta is not held near w", "+ self.lam * (theta - here))", "+ 0 * (theta - here))"),
    ("w goes without lam", "self.lam * (here - theta))", "here - theta)"),
    ("w goes away from theta", "self.lam * (here - theta))", "self.lam * (theta - here))"),
    ("parties count by their rows", "return equal_weight(party)", "return party.size"),
    ("the server's beta is forgotten", "self.beta * replies", "replies"),
    ("the model in use is held near nothing", "return (self.lam, party.received", "return (0.0, party.received"),
    ("the model in use is made at the run's rate", 'if party.phase == "theta" else grad', "if False else grad"),
    ("passes go as far as one", "self.inner_lr * self.inner_steps)", "self.inner_lr)"),
    ("theta stays halfway", 'Phase("theta", epochs=self.inner_steps)', 'Phase("theta", epochs=1)'),
)
CHECKS = [
    (test_pfedme.test_a_round_is_the_papers, ONE, 0.5),
    (test_pfedme.test_parties_use_theta_of_all_their_training_rows, "sequential"),
    (test_pfedme.test_the_fixed_point_is_the_optimum_of_the_envelopes, ONE, 3.0),
]
