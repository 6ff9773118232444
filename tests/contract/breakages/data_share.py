"""One-line mutations of data sharing, and of training at the server."""

from tests.algorithms.data import test_share
from tests.contract.mutations import of_file

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
]
CHECKS = [
    (test_share.test_without_shared_rows_and_warm_up_it_is_its_base_to_the_bit, "sequential"),
    (test_share.test_a_round_is_fedavgs_on_enlarged_parties, "sequential", 0.5),
    (test_share.test_the_warm_up_is_plain_gradient_descent_on_all_public_rows, "sequential"),
    (test_share.test_a_warm_up_sees_every_public_row_once_an_epoch_but_for_a_last_batch_that_is_not_full,),
    (test_share.test_shared_rows_are_nobodys_to_be_tested_or_selected_on,),
    (test_share.test_everything_that_a_base_does_with_a_partys_rows_counts_the_shared_ones,),
]
