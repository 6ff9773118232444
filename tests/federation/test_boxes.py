"""Boxes between sites: what was put in comes out at its place, and nowhere else."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.federation.test_mail import ARRAYS, NAMES, same
from unalike.algorithms.protocol import SERVER, Turn, WrongMail
from unalike.federation.boxes import BOX, SiteBoxes
from unalike.federation.envelope import Refused
from unalike.secure import pairwise
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.primitives import agreement_public, seal_fixed, unseal_fixed

SECRETS = [bytes([number]) * 32 for number in (1, 2, 3)]
TURN, NEXT = Turn(2, 5), Turn(2, 6)
MAIL = {"z": np.arange(6, dtype=np.float64).reshape(2, 3), "rows": np.arange(3)}


def boxes_of(own, session=b"run", context=b"plan"):
    pairs = {
        number: pairwise.pair_key(SECRETS[own], agreement_public(secret), context)
        for number, secret in enumerate(SECRETS)
        if number != own
    }
    return SiteBoxes(pairs, own, session)


def sent(turn=TURN, by=0, to=1, mail=None, **how):
    return {by: boxes_of(by, **how).sealed(turn, {to: mail or MAIL})[to]}


@given(st.dictionaries(NAMES, ARRAYS, max_size=4))
@settings(max_examples=60, deadline=None)
def test_what_is_put_in_comes_out(arrays):
    opened = boxes_of(1).opened(NEXT, sent(mail=arrays or MAIL))
    assert same(opened, {0: arrays or MAIL})


def test_the_server_sees_bytes_that_tell_nothing_but_their_number():
    (box,) = sent()[0].values()
    values = MAIL["z"].tobytes()
    assert values not in box.tobytes()
    assert b"rows" not in box.tobytes()
    other = sent(mail={**MAIL, "z": MAIL["z"] + 1})[0][BOX]
    assert len(other) == len(box)
    assert not np.array_equal(other[:16], box[:16])


def test_the_same_mail_at_the_same_place_is_the_same_box_so_that_a_round_can_be_played_again():
    assert sent()[0][BOX].tolist() == sent()[0][BOX].tolist()


def test_what_is_for_the_server_stays_as_it_is():
    mail = {SERVER: {"ended": np.ones(1, np.int64)}}
    assert boxes_of(0).sealed(TURN, mail) == mail
    assert boxes_of(0).opened(TURN, mail) == mail


@pytest.mark.parametrize(
    ("place", "how"),
    [
        ({"turn": Turn(2, 4)}, {}),
        ({"turn": Turn(1, 5)}, {}),
        ({"turn": Turn(2, 5, "predict")}, {}),
        ({"session": b"other run"}, {}),
        ({"context": b"other plan"}, {}),
        ({"to": 2}, {}),  # the server swaps the boxes of two receivers
        ({"by": 2}, {}),  # or says that it is from somebody else
        ({"by": 1, "to": 0}, {}),  # or gives a site its own back
    ],
)
def test_a_box_opens_at_no_other_place(place, how):
    ((_, box),) = sent(**place).items()
    with pytest.raises(WrongMail, match="Party 0 sent a box that does not open") as error:
        boxes_of(1).opened(NEXT, {0: box})
    assert error.value.sender == 0


@pytest.mark.parametrize("at", [0, 15, 16, -1])
def test_a_box_with_one_bit_changed_does_not_open(at):
    box = sent()[0][BOX].copy()
    box[at] ^= 1
    with pytest.raises(WrongMail, match="does not open"):
        boxes_of(1).opened(NEXT, {0: {BOX: box}})


@pytest.mark.parametrize(
    "arrays",
    [
        {},
        MAIL,
        {BOX: np.zeros(3)},
        {BOX: np.zeros((2, 2), np.uint8)},
        {**sent()[0], "more": np.zeros(1)},
    ],
)
def test_mail_that_is_in_no_box_is_refused(arrays):
    with pytest.raises(WrongMail, match="Party 0 wrote to this site without a box"):
        boxes_of(1).opened(NEXT, {0: arrays})


@pytest.mark.parametrize("box", [b"", bytes(15), bytes(16)])
def test_a_box_that_is_too_short_does_not_open(box):
    with pytest.raises(WrongMail, match="does not open"):
        boxes_of(1).opened(NEXT, {0: {BOX: np.frombuffer(box, np.uint8)}})


@pytest.mark.parametrize(
    "content", [b"\0", b"\0\0\0\2[]", b"\0\0\0\1x", b"\0\0\0\4null", b'\0\0\0\x0c[["z","int64"', b"\xff" * 40]
)
def test_a_site_that_seals_no_mail_is_named(content):
    """Only the other of the two can seal a box: what is in it is checked all the same."""
    boxes = boxes_of(0)
    box = seal_fixed(boxes._key(1), content, boxes._place(TURN, TURN.number, 0, 1))
    if content == b"\0\0\0\2[]":
        assert boxes_of(1).opened(NEXT, {0: {BOX: np.frombuffer(box, np.uint8)}}) == {0: {}}
        return
    with pytest.raises(WrongMail, match="Party 0 sent a box that holds no mail"):
        boxes_of(1).opened(NEXT, {0: {BOX: np.frombuffer(box, np.uint8)}})


def test_without_a_shared_key_nothing_is_sealed():
    with pytest.raises(Refused, match="no key that this site shares with party 7"):
        boxes_of(0).sealed(TURN, {7: MAIL})


def test_a_fixed_box_is_bound_to_its_whole_context():
    """Every part of the context counts, and where one ends."""
    key, context = bytes(range(64)), [b"a", b"b"]
    box = seal_fixed(key, b"text", context)
    assert unseal_fixed(key, box, context) == b"text"
    for other in ([b"ab"], [b"b", b"a"], [b"a"], [b"a", b"b", b""]):
        with pytest.raises(CryptoError):
            unseal_fixed(key, box, other)
