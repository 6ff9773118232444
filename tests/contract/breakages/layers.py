"""One-line mutations of the algorithms with layers of one's own; among them bugs of public code."""

from tests.algorithms.personal import test_partial
from tests.contract.mutations import of_file

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
MUTATIONS = [*OWN_LAYERS, *PARTIAL]
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
]
