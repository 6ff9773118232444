"""What breaks nets of split columns, and the tests that notice."""

from tests.algorithms.vertical import test_ftl, test_split_net
from tests.contract.mutations import of_file

HOME = "algorithms/vertical/"
MUTATIONS = [
    *of_file(
        HOME + "split_net.py",
        (
            "a batch late",
            "batch_told(turn, leader, len(found), number - 1)]",
            "batch_told(turn, leader, len(found), number - 1) - 1]",
        ),
        (
            "velocities start anew",
            'self._descent(me, turn),\n                state.get("body_velocity"),',
            'self._descent(me, turn),\n                None if turn.number < 3 else state.get("body_velocity"),',
        ),
        ("losses are added up", 'mean = state["loss"] / count', 'mean = state["loss"]'),
        ("noise is of another strength", "self.noise * self.clip * drawn", "self.noise * drawn"),
        ("derivatives are as they are", "if not self.gradient_noise:", "if True:"),
    ),
    *of_file(
        HOME + "ftl.py",
        (
            "the translator is that of the round before",
            'self._with_translator(me, state) | {"loss": mean}',
            'state | {"loss": mean}',
        ),
        (
            "rows that are the label holder's alone say nothing",
            "np.concatenate([me.rows.train, me.rows.apart])",
            "me.rows.train",
        ),
        (
            "the label holder's columns are read",
            "who = 1 - leader if terms.parties == 2 else leader",
            "who = leader",
        ),
        ("more than two parties", "if terms.parties > 2:", "if False:"),
    ),
    *of_file(
        HOME + "nets.py",
        (
            "the label holder follows",
            "learns = self.lead if me.number == label_holder_of(me.terms)",
            "learns = self.lead if me.number == 0",
        ),
    ),
    *of_file(
        HOME + "net_rows.py",
        ("missing values are read", "if wrong:\n", "if False:\n"),
        ("all parties draw the same", "me.secret(use, *place)[:16]", "bytes(16)"),
        ("nothing is too large to be sent", "rows.size and not np.abs(rows).max() <= GREATEST", "False"),
    ),
    *of_file(
        "vertical/block_net.py",
        ("rows are as long as they like", "self.clip / length.clamp(min=self.clip)", "self.clip / self.clip"),
        (
            "numbers are not standardised",
            "np.asarray(y, np.float64) - target[0]) / target[1]",
            "np.asarray(y, np.float64) - target[0])",
        ),
    ),
    *of_file(
        "vertical/transfer.py",
        ("people are not drawn together", "kappa = -1.0 if self.product else -2.0", "kappa = -1.0"),
        ("the curve of the loss is steeper", "scores**2 / 8 if", "scores**2 / 4 if"),
    ),
]
WAY = {"loss": "taylor", "distance": "square", "translator": "mean", "alignment": 0.3, "l2": 0.01, "width": 4}
CHECKS = [
    (test_split_net.test_missing_values_are_refused_with_who_has_them, 1),
    (test_split_net.test_noise_is_as_strong_as_it_says,),
    (test_split_net.test_derivatives_are_hidden_by_noise_of_the_longest_ones_length,),
    (test_split_net.test_training_that_runs_away_says_so,),
    (test_split_net.test_it_has_the_bits_of_the_joint_net, 0, {"merge": "sum", "momentum": 0.9}, 2),
    (test_ftl.test_what_it_cannot_train, {"blocks": 3}, r"ftl is between two parties, got 3"),
    (test_ftl.test_it_descends_the_joint_objective, WAY, 2, 1),
    (test_ftl.test_the_joined_model_reads_the_partners_columns_alone,),
]
