"""FADA and what disentangles: one-line mutations, and the tests that must notice."""

from tests.algorithms.knowledge import test_fada
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/knowledge/fada.py",
        ("the target's labels are learnt", "batch) if source else 0 * f.sum()", "batch)"),
        ("the judge trains the body to please it", "(judge(d.detach(), f)", "(-judge(d.detach(), f)"),
        ("judges are trained to be fooled", "judge(d.detach(), f)", "judge(d, f)"),
        ("the body helps the judge", "(-judge(d, f.detach())", "(-judge(d, f)"),
        ("the judge takes all for a source's", "(judge(d, party.rec", "(-judge(d, party.rec"),
        ("the target flees the sources", "(-judge(d, f)[", "(judge(d, f)["),
        ("absent judges count", "self.lam * share * batch", "self.lam * batch"),
        ("the weight of the judges is forgotten", "+ told + self.lam * against", "+ told + against"),
        ("the target's head moves", 'if party.phase != "target":', 'if party.phase != "judges":'),
        ("attention is turned round", "(self.sharpness * falls).softmax", "(-self.sharpness * falls).softmax"),
        ("attention looks at the spread itself", "before - torch.stack(after)", "torch.stack(after)"),
        ("the spread has the features' scale", "within.sum() / whole.clamp(min=1e-12)", "within.sum()"),
        ("all updates are tried at once", "w + delta, batch)", "w + deltas.sum(dim=0), batch)"),
        ("the same rows are sent in each round", "party.normal(len(batch.y))", "batch.y"),
        ("the nets that disentangle are forgotten", '{"own": w[size + judge :]}', "dict(party.state)"),
        ("the target teaches its labels to them", "batch, labels=source)", "batch, labels=True)"),
    ),
    *of_file(
        "algorithms/knowledge/disentangle.py",
        ("padding enters the bound", "if batch.mask is None:", "if batch is not None:"),
        ("all pairs belong together", "batch.mean(score.diagonal())", "batch.mean(score.mean(dim=1))"),
        ("the critic makes the bound small", "related - self.info", "related + self.info"),
        ("the identifier trains the code", 'w["identify"], code.detach())', 'w["identify"], code)'),
        ("the code tells the class", "hidden = -guess", "hidden = guess"),
    ),
]
CHECKS = [
    (test_fada.test_a_sources_loss_is_labels_the_judge_and_against_the_judge,),
    (test_fada.test_the_target_learns_to_be_taken_for_a_source_by_those_who_are_there_and_keeps_its_head,),
    (test_fada.test_who_is_asked_what_and_what_goes_to_whom,),
    (test_fada.test_a_smaller_scale_of_the_features_is_no_smaller_spread,),
    (test_fada.test_features_are_those_of_rows_of_the_target_and_are_drawn_anew,),
    (test_fada.test_each_part_of_a_disentangler_goes_its_own_way,),
    (test_fada.test_mutual_information_is_mines_bound, True),
    (test_fada.test_mutual_information_is_mines_bound, False),
    (test_fada.test_nets_that_disentangle_stay_with_their_party,),
    (test_fada.test_a_source_of_noise_counts_less, "sequential"),
    (test_fada.test_the_targets_labels_change_no_bit_and_a_sources_do, "fada(disentangle=0.1)", "sequential"),
    (test_fada.test_a_critic_finds_what_depends_and_nothing_else,),
]
