"""One-line mutations of Ditto, and of what keeps the statistics of its two models apart."""

from tests.algorithms.personal import test_ditto
from tests.contract.mutations import of_file
from unalike.algorithms import Scaffold
from unalike.engines.sequential import Sequential

UNIFORM = "scaffold(option=i, weights=uniform)"
DITTO = of_file(
    "algorithms/personal/ditto.py",
    ("no pull at all", '(self.lam, party.received["w"]) if', "(0.0, party.received['w']) if"),
    ("the pull is to the personal model itself", 'lam, party.received["w"])', 'lam, party.state["personal"])'),
    (
        "the base's correction reaches the personal model",
        'return None if party.phase == "personal" else',
        "return",
    ),
    ("the personal model is lost", '"personal": w, "known": party', '"known": party'),
    (
        "the personal model is replaced by the shared one",
        '{**state, "personal": party.state["personal"], "known"',
        '{**state, "personal": party.received["w"], "known"',
    ),
    (
        "the personal model starts at the shared one",
        'return party.state["personal"] if',
        'return party.received["w"] if',
    ),
    (
        "a newcomer uses the initial weights",
        'torch.where(party.state["known"] > 0',
        'torch.where(party.state["known"] >= 0',
    ),
    ("everybody trains again before use", "return not known", "return True"),
    ("a newcomer does not train", "return not known", "return False"),
    ("both models have one set of statistics", "steps=self.steps, own_statistics=True)", "steps=self.steps)"),
    ("the personal model's work is the run's", '"personal", steps=self.steps, own', '"personal", own'),
)
STATISTICS = [
    *of_file(
        "rounds/local.py",
        (
            "the personal model's statistics are the shared ones'",
            "= beside if order.phases",
            "= buffers if order.phases",
        ),
        ("own statistics are forgotten", 'more["own statistics"] = beside', "pass"),
    ),
    *of_file(
        "rounds/personal.py",
        ("shared statistics under a personal model", "order.own_statistics\n", "order.buffers\n"),
    ),
    *of_file(
        "rounds/order.py",
        ("own statistics begin anew", "self.state.get(OWN_STATISTICS, self.buffers)", "self.buffers"),
    ),
]
AROUND = of_file(
    "algorithms/around.py",
    ("the base begins elsewhere", "self.base.init_server(task, w)", "self.base.init_server(task, w * 0)"),
    (
        "parties use another model than the base's",
        "self.base.send(task, server)",
        'self.base.send(task, server | {"w": server["w"] * 0})',
    ),
    ("the base's weights of parties are forgotten", "return self.base.weight(party)", "return party.size"),
    (
        "the base has another model in each round",
        "self.base.round(task, server)",
        'self.base.round(task, server | {"w": server["w"] * 2})',
    ),
    (
        "what the base measures is nothing",
        "return self.base.measure(party, batch)",
        "return {key: 0 * value for key, value in self.base.measure(party, batch).items()}",
    ),
)
MUTATIONS = [*DITTO, *STATISTICS, *AROUND]
CHECKS = [
    (test_ditto.test_the_shared_model_is_to_the_bit_that_of_its_base, "sequential", UNIFORM),
    (test_ditto.test_ends_between_a_partys_own_optimum_and_the_shared_model, Sequential(), 0.3),
    (test_ditto.test_the_pull_is_to_the_model_as_it_was_received,),
    (test_ditto.test_without_a_pull_it_is_training_alone, Sequential(), Scaffold()),
    (test_ditto.test_the_personal_model_has_steps_of_its_own, 5),
    (test_ditto.test_the_personal_model_has_the_statistics_of_its_own_weights_and_rows,),
    (test_ditto.test_batch_norms_shared_statistics_are_those_of_the_base,),
    (test_ditto.test_a_newcomer_trains_from_the_shared_model_near_it, "sequential"),
]
