"""What can be wrong with how cohorts are chosen, and the tests that notice."""

from tests.contract.mutations import of_file
from tests.rounds.cohorts import test_rules as rules
from tests.runs import test_cohorts as runs

MUTATIONS = [
    *of_file(
        "rounds/cohorts/label_balanced.py",
        ("the worst mix is taken", "int(np.argmin(gaps))", "int(np.argmax(gaps))"),
        (
            "what is there already is forgotten",
            "divergence(total + counts[left], share)",
            "divergence(counts[left], share)",
        ),
        ("all parties are in the pool", "[: round(self.pool * size)]", ""),
        (
            "ties go to whoever was drawn last",
            "np.concatenate([first, others])",
            "np.concatenate([others, first])",
        ),
    ),
    *of_file(
        "rounds/cohorts/clustered.py",
        ("everybody is alike", 'linkage(shares, "ward")', 'linkage(0 * shares, "ward")'),
        ("the row is as it was", 'np.argsort(known.rows[mixed], kind="stable")', "np.arange(len(mixed))"),
        ("the start is always the same", "random.random()) * step", "0.5) * step"),
        ("ties go by number", "mixed = random.permutation(known.parties)", "mixed = np.arange(known.parties)"),
    ),
    *of_file(
        "rounds/cohorts/power_of_choice.py",
        ("the lowest losses", "np.argsort(-np.asarray(losses)", "np.argsort(np.asarray(losses)"),
        ("candidates of any size", "p=known.rows / known.rows.sum()", "p=None"),
    ),
    *of_file(
        "runs/cohorts.py",
        (
            "being asked for a loss costs nothing",
            'ledger.count("up", {"loss": len(drawn) * w.element_size()})',
            "None",
        ),
        ("the model comes for free", "traffic(sent, ledger.buffers, len(drawn))", "{}"),
        ("nobody says who was asked", "if self.chosen else {})", "if False else {})"),
    ),
]
CHECKS = [
    (rules.test_a_step_adds_whoever_brings_the_mix_nearest, 0),
    (
        rules.test_where_labels_are_mixed_alike_label_balanced_is_uniform_to_the_last_party,
        "label-balanced",
        rules.ALIKE,
    ),
    (
        rules.test_where_labels_are_mixed_alike_label_balanced_is_uniform_to_the_last_party,
        "label-balanced(pool=1)",
        rules.SKEWED,
    ),
    (rules.test_clustered_asks_one_of_each_kind,),
    (rules.test_clustered_asks_everybody_equally_often, "clustered(by=rows)", 3),
    (rules.test_where_parties_are_alike_all_cohorts_are_equally_likely, "clustered(by=rows)"),
    (rules.test_power_of_choice_takes_the_highest_losses_and_the_first_of_equal_ones,),
    (rules.test_candidates_are_drawn_by_size,),
    (runs.test_power_of_choice_asks_those_with_the_highest_loss_by_hand_and_counts_the_bytes,),
    (runs.test_the_record_says_who_was_asked_and_what_was_looked_at, "clustered"),
]
