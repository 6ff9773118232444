"""One-line mutations of Astraea, Hybrid-FL and XorMixFL, and of the copies of rows that a phase may have."""

import torch

from tests.algorithms.data import test_astraea, test_hybrid_fl, test_xormix
from tests.contract.mutations import of_file

COPIES = of_file(
    "rounds/worker.py",
    ("a fraction is left out", "+ (chance < times % 1)", "+ 0"),
    ("a fraction is always one more", "(chance < times % 1)", "(times % 1 > 0)"),
    ("the same chance in every round", '"copies", order.round,', '"copies", 0,'),
    ("a server may ask for any number of copies", "1, phase.most)", "1, 1000)"),
    ("rows may be left out", "[label], 1, phase", "[label], 0, phase"),
    ("copies count as other rows", "found.places.repeat(often)", "np.arange(often.sum())"),
)
ASTRAEA = of_file(
    "algorithms/data/astraea.py",
    ("common classes are copied", "rare**-self.alpha", "rare**self.alpha"),
    ("classes above the mean are left out", ".clamp(max=1)\n", "\n"),
    ("the mean is over one class", "share * task.classes, 1)", "share, 1)"),
    ("copies do not count", "torch.where(rows > 0, rows, party.size)", "party.size"),
    ("all who are there are one mediator", "len(chain) < gamma", "len(chain) < 99"),
    ("the most uneven first", "best = min(left", "best = max(left"),
    ("a mediator forgets whom it has", "mix = mix + left.pop(best)", "mix = left.pop(best)"),
    ("mediators count alike", "rows @ models / rows.sum()", "models.mean(0)"),
    ("unknown counts bring the model to nothing", "in chains]).clamp(min=1)", "in chains])"),
    ("one pass", "range(self.passes * self.gamma)", "range(self.gamma)"),
    ("a chain begins anew at each party", '+= told["delta"]', '= server["w"] + told["delta"]'),
    ("divergence from nothing", "share * len(share)).sum()", "share).sum()"),
)  # fmt: skip
HYBRID = of_file(
    "algorithms/data/hybrid_fl.py",
    ("the server's model counts like one row", "+ mine * own) / (total + mine)", "+ own) / (total + 1)"),
    (
        "the server's model replaces the mean",
        'total * replies.mean["delta"] + mine * own',
        "(total + mine) * own",
    ),
    ("rows go to everybody", 'return {"w": server["w"]}', "return server"),
    ("labels as they come", "order[turn.argsort(stable=True)]", "order"),
    ("the same order in every round", '{"rounds": server["rounds"] + 1}', '{"rounds": server["rounds"]}'),
    (
        "padding is trained on",
        '"there": torch.ones(len(batch.y), device=batch.y.device)',
        '"there": batch.y * 0 + 1.0 * (batch.y > 0)',
    ),
)
XORMIX = of_file(
    "algorithms/data/xormix.py",
    ("rows in the clear", "(pixels[seeds] ^ pixels[others])[:told]", "pixels[seeds][:told]"),
    ("with a row of the same label", "+ (y == y[seeds][:, None])", "+ (y != y[seeds][:, None])"),
    ("with itself", "others = order.argmin(dim=1)", "others = seeds"),
    ("decoded as the other label", "labels[:, :1] == label", "labels[:, 1:] == label"),
    ("any base row decodes", "& (labels[:, 1:] == y)", "& (labels[:, 1:] >= 0 * y)"),
    ("codes are taken for rows", "code[picked[:, 0]] ^ base[picked[:, 1]]", "code[picked[:, 0]]"),
    ("labels as they come", "missing = self.rows - len(own)", "missing = self.rows"),
    ("the server does not train", "self._work.trained(task, server[\"w\"], x, y)", 'server["w"]'),
)  # fmt: skip
SCALE = of_file(
    "models/byte_scale.py",
    ("bytes are cut, not rounded", ".round().clamp", ".clamp"),
    ("rows are not standardised again", "(whole.to(dtype) - shift) / scale", "whole.to(dtype) / scale"),
)
MUTATIONS = [*COPIES, *ASTRAEA, *HYBRID, *XORMIX, *SCALE]
CHECKS = [
    (test_astraea.test_a_fraction_is_the_chance_of_one_more_drawn_anew_in_every_round,),
    (test_astraea.test_no_server_can_make_a_party_see_a_row_more_often_than_the_plan_says,),
    (test_astraea.test_each_row_is_seen_as_often_as_its_class_says, "sequential"),
    (test_astraea.test_rows_of_a_rare_class_are_copied_by_the_ratio_of_the_mean_to_its_count, "sequential", 0.5),
    (test_astraea.test_one_full_step_is_gradient_descent_on_levelled_classes,),
    (test_astraea.test_the_unevenness_of_labels_is_the_divergence_from_uniform,),
    (test_astraea.test_one_label_each_is_grouped_into_even_mediators,),
    (test_astraea.test_everybody_is_in_one_mediator_and_none_is_less_even_than_its_worst_party, 2),
    (test_astraea.test_one_mediator_of_all_is_descent_from_party_to_party, "sequential", 2),
    (test_astraea.test_mediators_are_averaged_by_their_rows,),
    (test_astraea.test_a_cohort_that_never_told_its_counts_trains_all_the_same,),
    (test_hybrid_fl.test_a_round_is_fedavgs_with_one_more_party_of_the_given_rows, "sequential", (1, 5)),
    (test_hybrid_fl.test_what_is_given_are_rows_of_the_givers_with_labels_as_even_as_they_can_be,),
    (test_hybrid_fl.test_a_giver_with_fewer_rows_gives_all_of_them,),
    (test_hybrid_fl.test_rows_go_up_once_and_never_down,),
    (test_hybrid_fl.test_the_server_goes_through_its_rows_in_another_order_in_every_round,),
    (test_xormix.test_a_code_is_one_of_the_partys_rows_xored_with_one_of_another_label,),
    (test_xormix.test_decoding_is_exact_if_and_only_if_the_base_row_is_the_same,),
    (test_xormix.test_a_code_is_decoded_by_rows_of_its_other_label_alone,),
    (test_xormix.test_the_servers_labels_are_even_and_its_own_rows_come_first, 4),
    (test_xormix.test_the_server_trains_on_them_and_the_rounds_go_on_from_there,),
    (test_xormix.test_every_byte_survives_standardising_and_back, torch.float32),
]
