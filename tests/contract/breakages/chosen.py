"""What can be wrong where both sides know which entries are sent, and the tests that notice."""

from tests.channels import test_chosen as tests
from tests.contract.mutations import of_file
from tests.rounds import test_channels

MUTATIONS = [
    *of_file(
        "channels/subsample.py",
        ("nothing is divided", "1.0 if self.keep or not count", "1.0 if True"),
        ("what is kept for later is divided, too", "1.0 if self.keep or not count", "1.0 if not count"),
        ("all parties draw the same", "() if self.same or setting.party is None", "() if True"),
        ("parties draw for themselves where they should not", "() if self.same or setting", "() if setting"),
        ("the same entries in every round", "setting.round, setting.turn, *whose", "0, setting.turn, *whose"),
        (
            "the same entries in every exchange of a round",
            "setting.round, setting.turn, *whose",
            "setting.round, 0, *whose",
        ),
    ),
    *of_file(
        "channels/layers.py",
        (
            "deep layers are sent in all other rounds",
            "if setting.round % self.every == 0:",
            "if setting.round % self.every:",
        ),
        ("the first layers are left out", "< first, [size", ">= first, [size"),
        (
            "of a stack of nets, only one is cut",
            "np.tile(shallow, size // len(shallow))",
            "np.resize([*shallow, *np.ones(size, bool)], size)",
        ),
    ),
    *of_file(
        "channels/sent.py",
        (
            "single numbers are left out",
            "Sent(layout, chosen | ~layout.free, factor)",
            "Sent(layout, chosen, factor)",
        ),
        ("single numbers are divided, too", "np.where(self.layout.free, self.factor, 1.0)", "self.factor"),
        ("what was left out is forgotten", "        body = body + rest.cpu().numpy()\n", "        pass\n"),
    ),
    *of_file(
        "channels/channel.py",
        ("hidden sums are not divided", "vector = sent.scaled(vector * layout", "vector = (vector * layout"),
        ("hidden sums add everything", "sent.take(values[: layout.size])", "values[: layout.size]"),
        ("under hidden sums nothing is kept", "places)), kept", "places)), {}"),
    ),
    *of_file(
        "rounds/gather.py",
        ("the server draws as for nobody", "wire.setting(order, reply.party)", "wire.setting(order, None)"),
    ),
    *of_file(
        "rounds/upload.py",
        ("running statistics are divided", "frozenset([BUFFERS])", "frozenset([])"),
    ),
]
CHECKS = [
    (tests.test_the_mean_over_draws_is_the_upload, "subsample(0.25)"),
    (tests.test_each_party_and_exchange_draws_for_itself_unless_all_send_the_same,),
    (tests.test_layers_sends_deep_ones_in_every_third_round,),
    (tests.test_layers_takes_stacks_of_nets_apart_and_leaves_other_things_alone,),
    (tests.test_single_numbers_and_what_must_be_complete_are_sent_whole, "subsample(0.1)"),
    (tests.test_with_keep_nothing_is_lost_for_good, "subsample(0.2, keep=true)"),
    (tests.test_hidden_sums_add_only_what_is_sent, "subsample(0.25, same=true)", 1, 11, "masked(64)"),
    (tests.test_under_a_hidden_sum_too_what_was_left_out_is_kept,),
    (test_channels.test_what_arrived_and_what_was_kept_are_the_update, "subsample(0.3, keep=true)"),
    (test_channels.test_running_statistics_are_sent_whole_however_little_else_is,),
]
