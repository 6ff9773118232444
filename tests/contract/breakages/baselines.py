"""Breakages of training alone, of all rows at one place, and of tuned FedAvg."""

from tests.algorithms.personal import test_baselines
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/personal/baselines.py",
        ("alone, a party begins anew in each round", 'return {}, {"w": w}', "return {}, party.state"),
        ("tuning is left out", '(Phase("fine-tune", epochs=self.epochs),)', "()"),
        ("tuning has its usual length, whatever is asked", "epochs=self.epochs)", "epochs=1)"),
    ),
    *of_file(
        "runs/simulation.py",
        (
            "alone, newcomers never train",
            'if self.algorithm.sends == "nothing" else population',
            "if 0 else population",
        ),
        (
            "newcomers' rows count in the pool",
            "population.member_rows.sum()",
            "population.rows.sum()",
        ),
        ("a pool works as much as one party", "replace(self.recipe, work=work)", "self.recipe"),
    ),
    *of_file(
        "rounds/federation.py",
        (
            "newcomers' rows are in the pool",
            "for number in members]",
            "for number in range(self.federation.size)]",
        ),
        (
            "the pool has held-out rows",
            "self.federation.train_rows(number, round) for",
            "self.federation.partition.rows[number] for",
        ),
    ),
    *of_file(
        "runs/rules.py",
        (
            "with a sample the pool sees all rows",
            "spec.work.count(rows) * cohort / parties",
            "spec.work.count(rows)",
        ),
        ("steps of one party, not of the cohort", "steps=cohort * spec.steps", "steps=spec.steps"),
    ),
    *of_file(
        "runs/training.py",
        ("a pool's model is counted as sent", "if not self.algorithm.pools:", "if self.algorithm is not None:"),
        ("a channel is charged for what nobody sends", "None if apart else spec.channel", "spec.channel"),
    ),
]
CHECKS = [
    (test_baselines.test_alone_a_party_descends_on_its_own_rows_and_newcomers_do_as_long, 0.34),
    (test_baselines.test_alone_nothing_is_sent_whatever_the_channel,),
    (test_baselines.test_pooled_is_descent_on_all_training_rows, 0.34),
    (
        test_baselines.test_pooled_passes_over_the_rows_as_often_as_the_cohort_does,
        {"epochs": 2, "sample": 0.5},
        1.0,
    ),
    (test_baselines.test_pooled_passes_over_the_rows_as_often_as_the_cohort_does, {"epochs": None, "steps": 3}, 0),
    (test_baselines.test_pooled_sends_nothing_and_has_everybodys_own_rows_to_be_tried_on,),
    (test_baselines.test_tuned_is_fedavg_with_fine_tune_to_the_bit, "fedavg-tuned(epochs=3)", 3),
]
