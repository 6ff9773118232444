"""What breaks FedDyn, and the tests that notice."""

from tests.algorithms import test_feddyn
from tests.contract.mutations import of_file
from unalike.engines.sequential import Sequential

ONE = Sequential()
MUTATIONS = of_file(
    "algorithms/feddyn.py",
    ("the linear term has the other sign", 'return -party.state["gradient"]', 'return party.state["gradient"]'),
    (
        "a party's gradient grows the other way",
        '["gradient"] - self.alpha * delta',
        '["gradient"] + self.alpha * delta',
    ),
    ("a party's gradient forgets alpha", '["gradient"] - self.alpha * delta', '["gradient"] - delta'),
    ("a party forgets its gradient", '{"gradient": party.state["gradient"] - self', '{"gradient": -self'),
    ("h grows the other way", 'server["h"] - self.alpha * share', 'server["h"] + self.alpha * share'),
    ("h is that of the cohort alone", "self.alpha * share * replies", "self.alpha * replies"),
    ("h is not taken off", '["delta"] - h / self.alpha', '["delta"]'),
    ("h is added", '["delta"] - h / self.alpha', '["delta"] + h / self.alpha'),
    ("h is not divided by alpha", "- h / self.alpha", "- h"),
    (
        "the sum is over all parties, the model is taken off once",
        'share * replies.mean["delta"]',
        '(share * replies.mean["delta"] + (share - 1) * server["w"])',
    ),
    (
        "the share is in rows where parties count the same",
        "else replies.size / replies.population",
        "else replies.share",
    ),
    ("equal weights are by size", "else party.size / party.size", "else party.size"),
    ("equal weights are by steps", "else party.size / party.size", "else party.steps"),
    ("parties are held near nothing", 'return self.alpha, party.received["w"]', 'return 0.0, party.received["w"]'),
)
CHECKS = [
    (test_feddyn.test_a_partys_memory_becomes_its_gradient, ONE),
    (test_feddyn.test_round_one_goes_twice_as_far_as_fedprox, "sequential", 0.5),
    (test_feddyn.test_reaches_it_with_two_of_five, "uniform"),
    (test_feddyn.test_reaches_it_with_two_of_five, "size"),
    (test_feddyn.test_reaches_it_where_parties_take_more_steps_than_others, "uniform"),
]
