"""FedKT, its parts of rows and its votes: one-line mutations, and the tests that must notice.

The authors' code (QinbinLi/FedKT) counts a party's votes whether its students agree or not where there is no
noise, and compares the sum over all parties with one party's number of students where there is.
"""

from tests.algorithms.knowledge import test_fedkt
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/knowledge/fedkt.py",
        (
            "students need not agree where there is no noise",
            "if self.consistent:",
            "if self.consistent and self.gamma:",
        ),
        (
            "one vote of a party that agrees",
            "votes * (votes == self.partitions)",
            "1.0 * (votes == self.partitions)",
        ),
        ("most of the students are enough", "(votes == self.partitions)", "(2 * votes >= self.partitions)"),
        (
            "teachers are dealt the same parts in each partition",
            "part=(which, self.teachers, deal)",
            "part=(which, self.teachers, 0)",
        ),
        ("every teacher has all rows", "part=(which, self.teachers, deal)", "part=None"),
        (
            "a student learns the labels of the public rows",
            'if party.phase == "student" else None',
            'if party.phase == "pupil" else None',
        ),
        ("a student learns what the last teacher says", 'taught = state["taught"] + vote', "taught = vote"),
        (
            "students learn the votes of earlier partitions too",
            '"taught": state["taught"] * 0',
            '"taught": state["taught"]',
        ),
        ("only the last student votes", '"votes": state["votes"] + vote}', '"votes": vote}'),
        ("rows without a vote are learnt", "(votes.amax(dim=1) > 0)", "(votes.amax(dim=1) >= 0)"),
        ("the label of fewest is learnt", "votes[rows].argmax(dim=1)", "votes[rows].argmin(dim=1)"),
        ("noise grows with gamma", ".reshape(taught.shape) / self.gamma", ".reshape(taught.shape) * self.gamma"),
        ("noise is forgotten", '.startswith("last")', '.startswith("first")'),
        ("the same noise in each partition", "party.normal(count, 4 * which + k)", "party.normal(count, k)"),
        ("normal noise", "return first * second + third * fourth", "return first"),
        ("epsilon is for one count that moves", "return 2 * self.gamma *", "return self.gamma *"),
        ("epsilon is for one partition", "* self.partitions * public", "* public"),
    ),
    *of_file(
        "rounds/worker.py",
        ("a part is the first rows of a deal", "order[which::parts]", "order[: -(-rows // parts)]"),
    ),
]
CHECKS = [
    (test_fedkt.test_parts_of_a_deal_share_no_row_leave_none_out_and_are_drawn,),
    (test_fedkt.test_the_phases_are_the_papers,),
    (test_fedkt.test_teachers_are_trained_on_their_part_and_most_votes_count, "sequential"),
    (test_fedkt.test_a_party_whose_students_differ_on_a_row_has_no_vote_there, "sequential"),
    (test_fedkt.test_the_last_net_learns_the_label_of_most_on_the_rows_that_got_a_vote,),
    (test_fedkt.test_gamma_puts_noise_of_that_scale_on_the_last_teachers_counts_alone,),
    (test_fedkt.test_noise_at_the_party_is_laplaces_and_another_in_each_partition,),
    (test_fedkt.test_a_rows_epsilon_is_the_accountants_for_a_row_that_is_replaced, 0.1, 2, 3),
    (test_fedkt.test_vanishing_noise_is_none,),
]
