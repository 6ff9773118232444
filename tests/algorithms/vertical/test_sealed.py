"""Residuals under encryption: exactly the same training, and what would tell labels is refused."""

from dataclasses import replace

import numpy as np
import pytest

from tests.algorithms.vertical.checking import check_columns
from tests.algorithms.vertical.talking import people, play, predicted, roles_of, terms_of
from tests.algorithms.vertical.test_linear import joint_on_grid, trained, vertical, weights_of
from unalike.algorithms.protocol import SUM, Turn, WrongMail
from unalike.algorithms.vertical import sealed
from unalike.algorithms.vertical.batches import batches
from unalike.algorithms.vertical.descent import fixed_batches
from unalike.algorithms.vertical.linear import VerticalLinear
from unalike.algorithms.vertical.sealed import masks, shifted
from unalike.errors import UserError
from unalike.secure.crypto.additive import encrypt, read_public, times
from unalike.vertical.arithmetic import OwnColumns, WholeNumbers


@pytest.fixture(autouse=True)
def few_people(monkeypatch):
    """How many people a batch must have protects labels, and changes nothing of what is computed."""
    monkeypatch.setattr(sealed, "TIMES", 4)


def encrypted(cipher="okamoto-uchiyama", **fields):
    """The protocol with keys that are too short to be allowed, so that tests are quick."""
    made = vertical(protect="encrypted", cipher=cipher, **fields)
    object.__setattr__(made, "bits", 512)
    return made


def in_round_zero(terms, count, round):
    """Everybody is in the same batch in all rounds."""
    return batches(terms, count, 0)


@pytest.mark.parametrize("cipher", ["okamoto-uchiyama", "paillier"])
@pytest.mark.parametrize(("classes", "lr", "widths"), [(2, 0.5, (3, 4)), (3, 0.3, (2, 3, 2)), (0, 0.1, (4, 1))])
def test_it_is_exactly_joint_training_on_the_grid(cipher, classes, lr, widths):
    blocks, y = people(64, widths, classes)
    blocks[1][:, 0] = blocks[1][:, 0] > 0  # a column of zeros and ones
    terms = {"classes": classes, "lr": lr, "batch_size": 32, "rounds": 2, "lr_decay": 0.5}
    roles, states, _ = trained(encrypted(cipher, l2=0.01), blocks, y, **terms)
    w, b = joint_on_grid(roles[0].terms, np.concatenate(blocks, axis=1), y, 0.01, in_round_zero)
    own, bias = weights_of(roles, states)
    assert own.tobytes() == w.tobytes()
    assert bias.tobytes() == b.tobytes()


@pytest.mark.parametrize("widths", [(2, 3), (3, 2, 2)])
def test_it_holds_the_contract_of_columns(widths):
    blocks, y = people(33, widths)
    roles, _ = check_columns(encrypted(), blocks, y, batch_size=16, rounds=2, label_holder=1, spoil_rounds=(1,))
    assert "added together" in encrypted().learns(roles[0].terms)["other holders"]


def test_a_small_last_batch_is_joined_to_the_one_before():
    blocks, y = people(50, (2, 3))
    _, _, spoken = trained(encrypted(), blocks, y, batch_size=16, rounds=1)
    assert spoken[1].turns == 4 * 3 + 1  # 16, 16, 18


@pytest.mark.parametrize(("pace", "turns"), [({"epochs": 1.0}, 3), ({"steps": 2}, 2), ({"epochs": 2.0}, 6)])
def test_everybody_is_in_the_same_batch_for_ever(pace, turns):
    blocks, y = people(50, (2, 3))
    terms = terms_of(blocks, y, batch_size=16, **pace)
    rounds = [fixed_batches(terms, 50, round) for round in (1, 2, 3)]
    assert [len(order) for order in rounds] == [turns] * 3
    played = [tuple(batch) for order in rounds for batch in order]
    assert len(set(played)) == 3
    assert played == (played[:3] * len(played))[: len(played)]  # one after the other, over rounds too
    assert sorted(sum(played[:3], ())) == list(range(50))


def test_nobody_but_the_label_holder_reads_residuals_and_it_reads_no_gradient():
    """The holder gets ciphertexts and its own sums; what is opened for it is random to whoever opens it."""
    blocks, y = people(64, (2, 3))
    roles = roles_of(terms_of(blocks, y, batch_size=64, rounds=1), blocks, y)
    seen = {}

    class Listening(VerticalLinear):
        def step(self, me, state, turn, inbox):
            seen[me.number, turn.round, turn.number] = inbox
            return super().step(me, state, turn, inbox)

    listening = Listening(protect="encrypted")
    object.__setattr__(listening, "bits", 512)
    play(listening, roles)
    got = seen[1, 1, 2][0]
    assert {name: array.dtype.name for name, array in got.items()} == {"residual": "uint8", "key": "uint8"}
    assert set(seen[0, 1, 3]) == {1}
    opened = [int.from_bytes(row.tobytes(), "big", signed=True) for row in seen[1, 1, 4][0]["gradient"]]
    own = masks(roles[2], (1, 0), 3)
    columns = WholeNumbers().columns(blocks[1])
    whole, _ = shifted(columns)
    r = np.round((0.5 - y) * 2.0**24).astype(np.int64)
    assert [a - mask for a, mask in zip(opened, own, strict=True)] == (whole.T @ r).tolist()
    assert min(own) > 2**100  # far beyond the sums that they hide


def test_every_batch_has_masks_of_its_own():
    blocks, y = people(64, (2, 3))
    me = roles_of(terms_of(blocks, y), blocks, y)[2]
    found = [masks(me, at, 3) for at in ((1, 0), (1, 1), (2, 0))]
    assert len({mask for own in found for mask in own}) == 9
    assert masks(me, (1, 1), 3) == found[1]


@pytest.mark.parametrize("most", [1, 37, 2**21])
def test_shifts_are_taken_from_whole_columns(most):
    random = np.random.default_rng(0)
    values = random.integers(-most, most + 1, (20, 4)).astype(float) * [1, 8, 2**20, 0]
    whole, shifts = shifted(OwnColumns(values, 1.0))
    assert (whole << shifts == values).all()
    assert shifts[2] >= 20
    assert shifts[3] == 0
    assert all((column % 2).any() for column in whole.T[:3] if column.any())


# What is refused.


@pytest.fixture
def as_usual(monkeypatch):
    monkeypatch.setattr(sealed, "TIMES", 20)


def test_batches_that_tell_labels_are_refused(as_usual):
    blocks, y = people(900, (5, 41, 3))
    with pytest.raises(UserError) as caught:
        play(encrypted(), roles_of(terms_of(blocks, y, batch_size=64), blocks, y), last=0)
    assert str(caught.value) == (
        "A batch of 64 with 41 columns would let party 1 solve for labels. Use --batch-size 820 or more."
    )
    play(encrypted(), roles_of(terms_of(blocks, y, batch_size=820), blocks, y), last=0)


def test_so_few_people_are_refused(as_usual):
    blocks, y = people(100, (5, 41))
    with pytest.raises(UserError, match="100 people with 41 columns would let party 1 solve for labels"):
        play(encrypted(), roles_of(terms_of(blocks, y, batch_size=820), blocks, y), last=0)


@pytest.mark.parametrize(
    ("bits", "problem"), [(1024, "must be 2048 or more, got 1024"), (16_385, "must be at most 16,384, got 16385")]
)
def test_keys_that_are_too_short_or_never_made_are_refused(bits, problem):
    with pytest.raises(UserError, match=f"vertical's bits {problem}"):
        vertical(protect="encrypted", bits=bits)


@pytest.mark.parametrize("spoil", [0, 255])
def test_ciphertexts_and_sums_that_are_none_are_their_senders_fault(spoil):
    blocks, y = people(40, (2, 3, 2))
    roles = roles_of(terms_of(blocks, y, batch_size=20), blocks, y)
    protocol = encrypted()
    holder, other = roles[1], roles[3]
    scores = {SUM: {"scores": np.zeros((20, 1), np.int64)}}
    state, said = protocol.step(holder, protocol.start(holder), Turn(1, 1), scores)
    mail = said.mail[2]
    for name in ("residual", "key"):
        wrong = {0: {**mail, name: np.full_like(mail[name], spoil)}}
        with pytest.raises(WrongMail, match="Party 0"):
            protocol.step(other, protocol.start(other), Turn(1, 2), wrong)
    kept, _ = protocol.step(other, protocol.start(other), Turn(1, 2), {0: mail})
    good = {
        k: protocol.step(roles[k + 1], protocol.start(roles[k + 1]), Turn(1, 2), {0: mail})[1].mail[0]
        for k in (1, 2)
    }
    with pytest.raises(WrongMail, match="Party 2"):
        protocol.step(holder, state, Turn(1, 3), {**good, 2: {"hidden": np.full_like(good[2]["hidden"], spoil)}})
    opened = protocol.step(holder, state, Turn(1, 3), good)[1].mail[2]["gradient"]
    protocol.step(other, kept, Turn(1, 4), {0: {"gradient": opened}})
    wild = opened.copy()
    wild[0, 0] ^= 64
    with pytest.raises(WrongMail, match="Party 0 said a 'gradient'"):
        protocol.step(other, kept, Turn(1, 4), {0: {"gradient": wild}})


def test_a_number_beyond_the_prime_is_not_told():
    """Its remainder would tell the prime: 2^200 and the remainder differ by a multiple of it."""
    blocks, y = people(40, (2, 1))
    roles = roles_of(terms_of(blocks, y, batch_size=40), blocks, y)
    protocol, holder = encrypted(), roles[1]
    scores = {1: {"scores": np.zeros((40, 1), np.int64)}}
    state, said = protocol.step(holder, protocol.start(holder), Turn(1, 1), scores)
    public = read_public(said.mail[1]["key"], 512, "okamoto-uchiyama", "short")
    for power in (126, *range(180, 300, 6)):
        wild = times(encrypt(public, [1], bytes(32)), [2**power])
        answer = {1: {"hidden": wild.to_array()}}
        if power == 126:
            protocol.step(holder, state, Turn(1, 3), answer)
        else:
            with pytest.raises(WrongMail, match="Party 1"):
                protocol.step(holder, state, Turn(1, 3), answer)


def test_predictions_are_those_of_masked_scores():
    blocks, y = people(64, (2, 3, 2))
    roles, states, _ = trained(encrypted(), blocks, y, batch_size=32, rounds=1)
    assert (
        predicted(encrypted(), roles, states, blocks).tobytes()
        == predicted(replace(vertical(), protect="masked"), roles, states, blocks).tobytes()
    )
