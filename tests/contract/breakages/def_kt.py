"""Def-KT: one-line mutations, and the tests that must notice."""

from tests.algorithms.knowledge import test_def_kt
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/knowledge/def_kt.py",
        ("a receiver keeps its own model", '"w": w[: party.task.size]}', '"w": w[party.task.size :]}'),
        ("a sender goes back to its old model", 'return {"w": w}, {"w": w}', 'return {"w": w}, party.state'),
        ("an old model is sent", 'return {"w": w}, {"w": w}', 'return {"w": party.state["w"]}, {"w": w}'),
        ("the other model is taught too", "fixed = others.detach()", "fixed = others"),
        ("both ways are one", "(scores, scores[::-1])", "(scores, scores)"),
        ("the divergence is the other way", "(fixed.exp() * (fixed - mine))", "(mine.exp() * (mine - fixed))"),
        ("the divergence's weight is forgotten", "loss + self.beta * batch", "loss + batch"),
        ("the pairs stay the same", '"rounds": server["rounds"] + 1', '"rounds": server["rounds"]'),
        ("models go to the wrong receivers", "torch.arange(len(asked))", "torch.arange(len(asked)).flip(0)"),
        ("receivers of absent senders are asked", "to=tuple(asked)", "to=tuple(receivers.values())"),
    ),
]
CHECKS = [
    (test_def_kt.test_models_are_handed_on_and_everybody_has_one, "sequential"),
    (test_def_kt.test_the_divergence_is_the_papers_and_vanishes_where_both_models_agree,),
    (test_def_kt.test_an_absent_sender_leaves_its_receiver_untouched, "sequential"),
    (test_def_kt.test_pairs_change_from_round_to_round_and_come_back_when_resumed,),
]
