"""One-line mutations of data sharing, and of training at the server."""

from tests.algorithms.data import test_share
from tests.contract.mutations import of_file
from tests.rounds import test_channels

MUTATIONS = [
    *of_file(
        "algorithms/data/share.py",
        ("shared rows do not count", "return self.base.weight(self._enlarged(party))", "return party.size"),
        ("all public rows count, whoever has them", "round(self.alpha * len(", "round(1 * len("),
        ("everybody gets all public rows", 'rows="own+public", share=self.alpha', 'rows="own+public"'),
        ("only shared rows are trained on", 'Phase(rows="own+public"', 'Phase(rows="public"'),
        ("the model is not warmed up", "if self.warm:", "if False:"),
        ("the base's term is left out", "self.base.proximal(self._enlarged(party))", "None"),
        ("the base's correction is left out", "self.base.linear(self._enlarged(party))", "None"),
    ),
    *of_file(
        "algorithms/data/at_server.py",
        ("one epoch, whatever is said", "range(self.epochs)", "range(1)"),
        ("uphill", "w - self.rate", "w + self.rate"),
        ("the same order in every epoch", "torch.randperm(len(y), generator=drawn)", "torch.arange(len(y))"),
        ("a batch that is not full counts as one", "[: full * self.batch or None]", ""),
    ),
    *of_file(
        "rounds/federation.py",
        (
            "parties keep the public rows, and are judged on some",
            "np.split(order, [round(fraction * len(order))])",
            "(order[: round(fraction * len(order))], order + 0)",
        ),
        (
            "test rows are shared",
            "return left, dataset.x[public], dataset.y[public]",
            "return left, *(v[public % len(v)] for v in (dataset.x_test, dataset.y_test))",
        ),
    ),
    *of_file(
        "rounds/worker.py",
        (
            "shared rows come with rows that are kept to judge by",
            "both = np.concatenate([own, ",
            "both = np.concatenate([np.resize(np.append(own[:1], self.validation()), len(own)), ",
        ),
        (
            "everybody is given the same rows",
            '"shared rows", self.number',
            '"shared rows", 0',
        ),
    ),
    *of_file(
        "runs/rules.py",
        ("channels make other rows of what is sent", "algorithm.needs_whole and channel.parts", "False"),
    ),
]
CHECKS = [
    (test_share.test_without_shared_rows_and_warm_up_it_is_its_base_to_the_bit, "sequential"),
    (test_share.test_a_round_is_fedavgs_on_enlarged_parties, "sequential", 0.5),
    (test_share.test_the_warm_up_is_plain_gradient_descent_on_all_public_rows, "sequential"),
    (test_share.test_a_warm_up_sees_every_public_row_once_an_epoch_but_for_a_last_batch_that_is_not_full,),
    (test_share.test_shared_rows_are_nobodys_to_be_tested_or_selected_on,),
    (test_share.test_every_party_keeps_the_rows_that_it_was_given,),
    (test_channels.test_no_channel_makes_other_rows_labels_or_counts_of_what_is_sent, "hybrid-fl", "clip(1.0)"),
    (test_share.test_everything_that_a_base_does_with_a_partys_rows_counts_the_shared_ones,),
]
