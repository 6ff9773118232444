"""What breaks linear models whose residuals are encrypted, and encryption that adds; and the tests that notice."""

import pytest

from tests.algorithms.vertical import test_linear, test_sealed
from tests.contract.mutations import of_file
from tests.secure.crypto import test_additive, test_packing
from unalike.algorithms.vertical import sealed

HOME = "algorithms/vertical/"
MUTATIONS = [
    *of_file(
        HOME + "descent.py",
        (
            "everybody is in ever new batches",
            "steps=None, epochs=1.0)), people, 0)",
            "steps=None, epochs=1.0)), people, round)",
        ),
        ("a small last batch stands alone", "if whole and len(last) < pace.batch_size:", "if False:"),
    ),
    *of_file(
        HOME + "sealed.py",
        ("all batches have the same masks", 'me.secret("masks of sums", *at)', 'me.secret("masks of sums", 0, 0)'),
        ("masks are short", '"big") >> 2 for one', '"big") >> 90 for one'),
        (
            "whole columns are shifted by one bit less",
            "whole >> shifts, shifts",
            "whole >> shifts, shifts - (shifts > 0)",
        ),
        ("any batch tells labels", "if size < TIMES * columns:", "if False:"),
        ("so few people tell labels", "if people < TIMES * columns:", "if False:"),
    ),
    *of_file(
        HOME + "told.py",
        ("two parties are told that scores are sums", "summed if terms.parties >= 3 else _SCORES", "summed"),
        ("nobody is told of labels", '"other holders": _GRADIENTS', '"other holders": "nothing"'),
    ),
    *of_file(
        "secure/crypto/additive.py",
        (
            "integers of any size are encrypted",
            "if any(abs(value) >> public.room for value in numbers):",
            "if False:",
        ),
        ("signs are lost", "value - size if value > half else value", "value"),
        ("weights below zero are added", "plus * inverse(minus, modulus)", "plus * minus"),
        (
            "sums are as they were",
            "Ciphers(ciphers.public, ciphers.public.zeros(secret, len(ciphers))))",
            "Ciphers(ciphers.public, [1] * len(ciphers)))",
        ),
        ("ciphertexts that share a divisor are taken", "public.n) != 1:", "public.n) == 0:"),
    ),
    *of_file(
        "secure/crypto/packing.py",
        ("the first is the highest", "reversed(lower)", "lower"),
        ("what was borrowed is not given back", "rest = (rest - digit) >> width", "rest = rest >> width"),
        ("more than all is read", "if rest:\n", "if False:\n"),
    ),
]


def few_people(check, *arguments):
    """A check where a batch may have few people, as quick ones do."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed, "TIMES", 4)
        check(*arguments)


CHECKS = [
    (test_additive.test_a_weighted_sum_is_made_fresh_before_it_is_sent, "okamoto-uchiyama"),
    (test_additive.test_the_greatest_integers_are_read_back_by_us_and_by_the_papers_formulas, "paillier", "short"),
    (test_additive.test_ciphertexts_of_others_are_looked_at_before_they_are_used, "okamoto-uchiyama"),
    (test_packing.test_parents_less_children_are_siblings_while_they_are_packed,),
    (test_packing.test_what_is_too_much_is_refused,),
    (test_sealed.test_everybody_is_in_the_same_batch_for_ever, {"epochs": 2.0}, 6),
    (test_sealed.test_shifts_are_taken_from_whole_columns, 37),
    (test_sealed.test_batches_that_tell_labels_are_refused, None),
    (test_sealed.test_so_few_people_are_refused, None),
    (few_people, test_sealed.test_nobody_but_the_label_holder_reads_residuals_and_it_reads_no_gradient),
    (few_people, test_sealed.test_a_number_beyond_the_prime_is_not_told),
    (few_people, test_sealed.test_ciphertexts_and_sums_that_are_none_are_their_senders_fault, 255),
    (few_people, test_sealed.test_a_small_last_batch_is_joined_to_the_one_before),
    (few_people, test_sealed.test_every_batch_has_masks_of_its_own),
    (test_linear.test_roles_are_told_what_they_see,),
]
