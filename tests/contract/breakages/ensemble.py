"""The ensemble of one round: one-line mutations, and the tests that must notice."""

from tests.algorithms.knowledge import test_ensemble
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/knowledge/ensemble.py",
        ("logits are averaged, not probabilities", 'mean="scores")', 'mean="logits")'),
        ("everybody is a member", "for number in numbers], mean", "for number in replies.each], mean"),
        (
            "the worst are members",
            '-float(uploads[number]["by"])',
            'float(uploads[number]["by"])',
        ),
        ("one member too many", ")[: self.count])", ")[: self.count + 1])"),
        ("the party with the larger loss is better", '-party.measured["loss"]', 'party.measured["loss"]'),
        ("members are chosen on training rows", 'rows="validation" if best else "train")', 'rows="train")'),
        (
            "the initial weights are judged",
            "party.task.loss(party.trained, batch)",
            'party.task.loss(party.received["w"], batch)',
        ),
        (
            "the student begins at a member",
            'distil(task, server["w"], task',
            'distil(task, replies.each[0]["w"], task',
        ),
        ("labels are learnt instead", "task.public, told, self", "task.public, task.public.y, self"),
        ("the long training is as short as the run's", "Phase(epochs=self.epochs or None)", "Phase()"),
        (
            "an ensemble is its mean",
            'return server["models"][server["member"] > 0]',
            'return server["models"][server["member"] > 0].mean(dim=0)',
        ),
    ),
]
CHECKS = [
    (test_ensemble.test_a_net_learns_the_mean_of_what_all_members_say, "sequential"),
    (test_ensemble.test_one_partys_ensemble_is_its_own_net_distilled,),
    (test_ensemble.test_members_are_chosen_by_rows_or_by_their_own_validation_rows, "best", "sequential"),
    (test_ensemble.test_an_ensemble_that_is_not_distilled_is_judged_by_the_mean_of_its_answers,),
    (test_ensemble.test_the_long_training_may_be_longer_than_the_runs,),
]
