"""What breaks pFedMe, and the tests that notice."""

from tests.algorithms.personal import test_pfedme
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = [
    *of_file(
        "algorithms/personal/pfedme.py",
        (
            "theta is what one step gives",
            "Ahead(self.inner_lr, self.inner_steps, self.lam)",
            "Ahead(self.inner_lr, 1, self.lam)",
        ),
        ("parties count by their rows", "return equal_weight(party)", "return party.size"),
        ("the server's beta is forgotten", "self.beta * replies", "replies"),
        (
            "the model in use is held near nothing",
            "return (self.lam, self.personal",
            "return (0.0, self.personal",
        ),
        (
            "the model in use is made at the run's rate",
            'self.inner_steps) if party.phase == "theta" else None',
            "self.inner_steps) if False else None",
        ),
        ("a party that never trained has a model", 'party.state["trained"] * (party', "(party"),
        ("theta is near the shared w always", 'if self.around == "shared":', "if True:"),
        ("the party's own w is lost", 'kept = {"w": w,', 'kept = {"w": w * 0,'),
        ("passes go as far as one", "self.inner_lr * self.inner_steps)", "self.inner_lr)"),
        ("theta stays halfway", 'Phase("theta", epochs=self.inner_steps)', 'Phase("theta", epochs=1)'),
    ),
    *of_file(
        "algorithms/terms.py",
        ("theta is not held near w", "ahead.steps, ahead.pull)", "ahead.steps)"),
        ("w goes without lam", "ahead.pull * (here - there))", "here - there)"),
        ("w goes away from theta", "ahead.pull * (here - there))", "ahead.pull * (there - here))"),
    ),
    *of_file(
        "models/derivatives.py",
        ("theta is decayed in secret", "v = v - lr * (", "v = 0.999 * v - lr * ("),
        ("theta never goes on from theta", "v = v - lr * (", "v = centre - lr * ("),
        ("theta goes uphill", "v = v - lr * (", "v = v + lr * ("),
    ),
]
CHECKS = [
    (test_pfedme.test_a_round_is_the_papers, ONE, 0.5),
    *(
        (test_pfedme.test_parties_use_theta_of_all_their_training_rows, "sequential", w)
        for w in ("shared", "local")
    ),
]
