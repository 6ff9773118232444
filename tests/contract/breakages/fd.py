"""What can be wrong with FD, and the tests that notice."""

from tests.algorithms.knowledge import test_fd as tests
from tests.contract.mutations import of_file

MUTATIONS = of_file(
    "algorithms/knowledge/fd.py",
    ("one's own scores teach, too", "- own * party.state[key]", "- 0 * party.state[key]"),
    ("absent parties take themselves out", "- own * party.state[key]", "- party.state[key]"),
    ("absent labels pull to zero", "parties.clamp(min=1)[:, None]", "parties.max()"),
    ("labels that nobody has teach", "batch.mean(known[batch.y] * distance)", "batch.mean(distance)"),
    ("padding is taught", "batch.mean(known[batch.y] * distance)", "(known[batch.y] * distance).mean()"),
    ("the teacher of another label", "told[batch.y] * logits", "told[0] * logits"),
    ("gamma is forgotten", "+ self.gamma * batch", "+ batch"),
    (
        "the model before training speaks",
        "party.task.logits(party.trained, batch)",
        'party.task.logits(party.state["w"], batch)',
    ),
    ("logits, not scores", "batch).softmax(dim=-1)", "batch)"),
    ("sums of scores, not means", "/ (share + 1 - has)[:, None]", "/ 1"),
    ("sums pile up", "replies.sum[key] for key", "server[key] + replies.sum[key] for key"),
    ("parties forget what they learnt", 'return own, {"w": w,', 'return own, {"w": party.state["w"],'),
)
CHECKS = [
    (tests.test_the_mean_is_that_of_the_others_who_have_the_label,),
    (tests.test_a_row_is_taught_by_its_label_unless_nobody_else_has_it,),
    (tests.test_the_server_has_the_sums_over_parties_that_have_a_label, "sequential"),
    (tests.test_without_a_teacher_it_is_training_alone, "sequential"),
    (tests.test_absent_parties_hear_the_sums_of_those_who_were_there,),
]
