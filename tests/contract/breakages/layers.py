"""One-line mutations of the algorithms with layers of one's own and of Ditto; among them bugs of public code."""

from tests.algorithms.personal import test_ditto, test_partial
from tests.contract.mutations import of_file
from unalike.algorithms import Scaffold
from unalike.engines.sequential import Sequential

OWN_LAYERS = of_file(
    "algorithms/personal/own_layers.py",
    (
        "the proximal term holds the own part too",
        "return self._nothing_own(party, strength * centre.new_ones(centre.shape)), self._whole(party, centre)",
        "return strength, self._whole(party, centre)",
    ),
    (
        "the base's correction reaches the own part",
        "return None if added is None else self._nothing_own(party, added)",
        "return None if added is None else self._whole(party, added)",
    ),
    ("the own part is lost after a round", '{**state, "own": split.own(w)}', "{**state, **party.state}"),
    (
        "the own part is lost after a phase",
        'return {**party.state, "own": self',
        'return {**party.state, "": self',
    ),
    ("training starts elsewhere", "self.base.start(party))", "self.base.start(party) * 0)"),
    ("another shared part is used", 'party.received["w"])', 'party.received["w"] * 0)'),
    ("newcomers use an initial own part", "return self.adapt_all or not known", "return self.adapt_all"),
    ("everybody adapts", "return self.adapt_all or not known", "return True"),
    ("newcomers train all of the net", "self.adapt_epochs, trains=own),)", "self.adapt_epochs),)"),
    ("own statistics are averaged", "or task.parts.have_statistics(*self.own_parts(task))", ""),
    ("shared layers move with the own ones", '"own", own, trains=self.own_parts(task))', '"own", own)'),
    ("own layers move with the shared ones", '"shared", shared, trains=rest)', '"shared", shared)'),
)
PARTIAL = of_file(
    "algorithms/personal/partial.py",
    ("LG-FedAvg keeps the last layers", "[: self.layers]", "[-self.layers :]"),
    ("LG-FedAvg keeps the head", 'return ("body",) if', 'return ("head",) if'),
    ("FedBN goes by name", 'return ("norm",)', 'return tuple(n for n in task.slices if "bn" in n)'),
    (
        "FedRep's head epochs are the run's",
        "self.own_first(task, self.head_epochs, self",
        "self.own_first(task, None, self",
    ),
    (
        "FedRep's epochs are swapped",
        "task, self.head_epochs, self.body_epochs)",
        "task, self.body_epochs, self.head_epochs)",
    ),
    ("FedBABU trains its head", 'return (Phase(trains="body"),)', "return (Phase(),)"),
    ("FedBABU tunes too much", 'trains="head" if self.tunes == "head" else "")', 'trains="")'),
    ("FedBABU tunes newcomers alone", "return True", "return not known"),
    ("FedBABU's global head is zero", "split.own(task.initial())", "split.own(task.initial()) * 0"),
)
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
MUTATIONS = [*OWN_LAYERS, *PARTIAL, *DITTO, *STATISTICS]
MOMENTUM = "sgd(momentum=0.9, weight_decay=0.1)"
CHECKS = [
    *(
        (test_partial.test_the_shared_part_is_the_bases_and_the_own_one_is_trained_alone, *which)
        for which in (("scaffold", None), ("fedprox(mu=0.5)", None), ("fedavg", 1))
    ),
    (
        test_partial.test_own_layers_differ_between_parties_and_only_the_others_travel,
        "lg-fedavg(1)",
        ("body.0",),
        "mlp(6,4)",
    ),
    (test_partial.test_presets_are_choices_of_partial,),
    (test_partial.test_fedreps_work_is_its_own_whatever_the_runs_is,),
    (test_partial.test_newcomers_train_their_own_part_on_the_shared_one, "sequential"),
    (test_partial.test_what_is_frozen_keeps_its_bits, "sequential", MOMENTUM),
    (test_partial.test_statistics_stay_with_the_layers_that_have_them, "lg-fedavg", True),
    (test_partial.test_fedbns_scales_shifts_and_statistics_stay_at_home, "test-nameless-norm"),
    (test_partial.test_fedbabus_global_model_is_the_shared_body_with_the_initial_head, "sequential"),
    (test_partial.test_fedbabu_tunes_before_use, "head"),
    (test_ditto.test_ends_between_a_partys_own_optimum_and_the_shared_model, Sequential(), 0.3),
    (test_ditto.test_the_pull_is_to_the_model_as_it_was_received,),
    (test_ditto.test_without_a_pull_it_is_training_alone, Sequential(), Scaffold()),
    (test_ditto.test_the_personal_model_has_steps_of_its_own, 5),
    (test_ditto.test_the_personal_model_has_the_statistics_of_its_own_weights_and_rows,),
    (test_ditto.test_batch_norms_shared_statistics_are_those_of_the_base,),
    (test_ditto.test_a_newcomer_trains_from_the_shared_model_near_it, "sequential"),
]
