"""What can be wrong with FedMD, and the tests that notice."""

import pytest

from tests.algorithms.knowledge import test_fedmd as tests
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/knowledge/fedmd.py",
        (
            "the consensus is over stale public batches",
            'party.measured["logits"][party.task.public_part(party.round, self.part)]',
            'party.measured["logits"][party.task.public_part(1, self.part)]',
        ),
        (
            "a stale batch is looked up in the consensus",
            "drawn = party.task.public_part(party.round, self.part)",
            "drawn = party.task.public_part(party.round + 1, self.part)",
        ),
        ("a digest over all public rows", 'rows="public", drawn=self.part)', 'rows="public")'),
        ("the consensus by place in the batch", "[place[batch.index]]", "[: len(batch.y)]"),
        ("the distance is squared", 'if self.distance == "absolute" else', "if False else"),
        ("the distance is absolute", 'if self.distance == "absolute" else', "if True else"),
        ("a sum over classes", "apart**2).mean(dim=-1)", "apart**2).sum(dim=-1)"),
        (
            "nobody trains on public rows first",
            'return Phase("public", epochs=self.pretrain, rows="public"), Phase("own", epochs=self.pretrain)',
            'return (Phase("own", epochs=self.pretrain),)',
        ),
        (
            "what is said is of the batch's own statistics",
            'party.state["w"], batch)',
            'party.state["w"], party.task.public)',
        ),
    ),
    *of_file(
        "algorithms/knowledge/own_model.py",
        ("parties forget what they learnt", 'return {}, {**party.state, "w": w}', "return {}, party.state"),
        (
            "phases do not follow each other",
            '        return {**party.state, "w": w}',
            "        return party.state",
        ),
    ),
    *of_file(
        "rounds/worker.py", ("a digest over rows of all rounds", "if phase.drawn < 1:", "if phase.drawn < 0:")
    ),
    *of_file(
        "models/task.py",
        ("the same public rows in every round", '"public part", round)', '"public part", 0)'),
        ("other rows than were asked for", "int(share * count + 0.5)", "int(count)"),
    ),
    *of_file(
        "algorithms/knowledge/scores.py",
        ("padding is a row", "if batch.mask is None else", "if True else"),
        ("batches count by their number", "* (count / real.sum())", "* 1.0"),
        (
            "rows in the order of the batch",
            "index_add(0, batch.index, seen)",
            "index_add(0, batch.index.flip(0), seen)",
        ),
    ),
]


def _patched(check, **arguments):
    """A test that wants pytest's monkeypatch."""

    def run():
        with pytest.MonkeyPatch.context() as patch:
            check(monkeypatch=patch, **arguments)

    run.__name__ = check.__name__
    return (run,)


CHECKS = [
    (tests.test_each_round_draws_other_rows_the_same_for_all_nets,),
    (tests.test_rows_of_the_consensus_are_found_by_their_number,),
    (tests.test_the_consensus_is_the_mean_of_the_parties_logits_on_the_rows_of_the_round, "sequential"),
    (tests.test_a_digest_goes_over_the_rows_of_its_round_and_no_others,),
    _patched(tests.test_equal_parties_agree_already_so_it_is_training_alone, count=2),
    (tests.test_the_first_training_is_on_labelled_public_rows_then_on_own_ones,),
    (tests.test_a_digest_moves_nobody_who_agrees, "absolute", 0.5),
    (tests.test_a_digest_moves_nobody_who_agrees, "squared", 0.25),
    (tests.test_what_a_party_says_comes_of_its_own_running_statistics,),
    (tests.test_a_table_of_all_rows_is_the_mean_of_the_tables_of_its_batches,),
]
