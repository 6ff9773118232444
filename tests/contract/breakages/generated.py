"""What breaks generators, judges, FedGAN and FAug, and the tests that notice."""

from tests.algorithms.generated import test_faug, test_fedgan, test_gan
from tests.contract.mutations import of_file

MUTATIONS = [
    *of_file(
        "algorithms/generated/nets.py",
        ("all pictures are as large", ", : self.shape[1], : self.shape[2]]", "]"),
        ("the judge is told no label", "return score if self.label is None else", "return score if True else"),
    ),
    *of_file(
        "algorithms/generated/gan.py",
        (
            "the generator is told no label",
            "self.generator(g, z, self.labels(y, z))",
            "self.generator(g, z, 0 * self.labels(y, z))",
        ),
        (
            "the judge takes made rows for real",
            "+ functional.softplus(self.score(d, made, y))",
            "+ functional.softplus(-self.score(d, made, y))",
        ),
        (
            "the generator is to be found out",
            "return functional.softplus(-self.score(d, made, y))",
            "return functional.softplus(self.score(d, made, y))",
        ),
        ("the judge's loss moves the generator", "made.detach(), y) + ratio", "made, y) + ratio"),
        ("the generator's loss moves the judge", "d.detach(), made, y)", "d, made, y)"),
        ("the ratio is forgotten", "+ ratio * gan.passing", "+ gan.passing"),
        (
            "made rows have the labels of those they replace",
            "y = torch.where(stays, batch.y, drawn)",
            "y = batch.y",
        ),
        ("own rows go, made ones stay away", "stays = drawn >= len(fill)", "stays = drawn < len(fill)"),
        (
            "all steps are filled alike",
            "numbers.key_of_step(batch.key, batch.step)",
            "numbers.key_of_step(batch.key, 0)",
        ),
    ),
    *of_file(
        "algorithms/generated/learning.py",
        ("Adam's bias stays", "first / (1 - BETA1 ** (step + 1))", "first"),
        ("the server goes uphill", "w -= lr * way", "w += lr * way"),
        ("a rehearsal takes as long as a run", "1 if task.rehearsing else steps", "steps"),
        ("the same noise is in no stream", "generator=stream, dtype=task.dtype", "dtype=task.dtype"),
    ),
    *of_file(
        "algorithms/generated/fedgan.py",
        ("made rows come from the start", "self.fill and party.round > self.after", "self.fill"),
        ("rounds are counted from 0", "party.round > self.after", "party.round > self.after + 1"),
        (
            "parties count the same",
            "server[name] + replies.mean[name] for",
            "server[name] + 0.9 * replies.mean[name] for",
        ),
        (
            "the ratio is that of the judge",
            "gan.noise_of(batch), self.ratio)",
            "gan.noise_of(batch), 1 / self.ratio)",
        ),
        (
            "the same noise for both uses",
            'party.received["generator"], z, y',
            'party.received["generator"] * 0, z, y',
        ),
        ("tasks without labels are filled", "if self.fill:\n            check", "if False:\n            check"),
    ),
    *of_file(
        "algorithms/generated/faug.py",
        (
            "it prepares where nothing lacks",
            "        if self.lack:\n            sent",
            "        if True:\n            sent",
        ),
        ("labels are filled beyond the level", "made / (made.sum() + counts.sum())", "made / counts.sum()"),
        ("labels that nobody sent are filled", 'made = lacking * party.received["known"]', "made = lacking"),
        (
            "seeds and redundant rows are mixed up",
            "torch.where(lacking > 0, self.seeds, self.redundant)",
            "torch.where(lacking > 0, self.redundant, self.seeds)",
        ),
        (
            "rows of other labels are sent",
            'torch.where(has, party.normal(len(batch.y)), float("inf"))',
            "torch.where(has, party.normal(len(batch.y)), 0)",
        ),
        ("empty places hold rows", '"rows": batch.x[order] * shown', '"rows": batch.x[order]'),
        ("more rows are said than there are", "self.redundant).minimum(counts)", "self.redundant) + 0 * counts"),
        (
            "empty places are learnt",
            "whole(task, stream, 2**40, 64) % counts[y]",
            "whole(task, stream, 2**40, 64) % there.shape[1]",
        ),
        (
            "empty places come first",
            "torch.argsort(~there, dim=1, stable=True)",
            "torch.argsort(there.int(), dim=1, stable=True)",
        ),
        (
            "the base's state is lost",
            "upload, state = self.base.upload(party, w)\n        return upload, party.state | state",
            "upload, state = self.base.upload(party, w)\n        return upload, party.state",
        ),
        ("the base's correction is lost", "return self.base.linear(party)", "return None"),
        ("no row at all is no matter", "if task.rehearsing:", "if True:"),
    ),
]
CHECKS = [
    (test_gan.test_rows_of_any_shape_are_made_and_judged, (2, 5, 7), 3),
    (test_gan.test_rows_are_made_and_judged_for_their_label_alone,),
    (test_gan.test_both_losses_are_the_cross_entropies_and_each_moves_its_own_net,),
    (test_gan.test_a_filled_batch_has_made_rows_of_each_label_in_its_share,),
    (test_gan.test_the_servers_steps_are_those_of_torchs_adam,),
    (test_fedgan.test_one_party_trains_a_centralised_gan_and_several_their_weighted_mean, "sequential", [3, 5], 2),
    (test_fedgan.test_made_rows_come_from_the_received_generator_with_labels_evenly,),
    (test_fedgan.test_after_so_many_rounds_made_rows_are_used,),
    (test_fedgan.test_a_task_of_numbers_has_a_generator_without_labels_and_nothing_to_fill_up,),
    (test_faug.test_where_nothing_lacks_it_is_the_base_to_the_bit, "scaffold", "sequential"),
    (test_faug.test_filled_up_labels_are_level, 0.5),
    (test_faug.test_seeds_are_rows_of_the_party_with_that_label_and_as_many_as_are_asked, 2, 1),
    (test_faug.test_seeds_are_rows_of_the_party_with_that_label_and_as_many_as_are_asked, 40, 40),
    (test_faug.test_labels_of_which_nobody_sends_a_row_stay_as_they_are, "sequential"),
    (test_faug.test_the_generator_makes_rows_like_the_seeds_of_each_label,),
    (test_faug.test_parties_that_have_no_row_of_what_they_lack_are_told_so,),
]
