"""A server that returns anything but the sum of the vectors it was sent is noticed, in every way it could."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.secure.sessions import SERVER, Session, Step, contexts, steps, take, vectors
from unalike.secure import tags
from unalike.secure.crypto import bfv, masks
from unalike.secure.errors import ProtocolError
from unalike.secure.messages import Message, pack_numbers, write
from unalike.secure.policy import TAGS, new_session

MODES = ["fhe", "fhe+masks"]


def ready(protect, count=4, **fields):
    """A session in which the parties wait for the sum; their ciphertexts, and the true sum."""
    session = Session(vectors(count), protect, **fields)
    session.until(Step.VECTOR)
    sent = {i: Message.from_bytes(raw).parts[0] for i, raw in session.outbox.items()}
    session.until(steps(session.policy)[-1])
    session.ask_server()
    return session, sent, Message.from_bytes(session.answers[0]).parts[1]


def answer(session, number, payload, survivors=None):
    """What party ``number`` makes of this payload as the sum."""
    step = steps(session.policy)[-1]
    consents = Message.from_bytes(session.answers[number]).parts[2:]
    content = pack_numbers(session.server.survivors if survivors is None else survivors), payload, *consents
    raw = write(session.policy, step, SERVER, number, content, session.signers[-1])
    return take(session.parties[number], raw)[0].total


def noticed(session, payload):
    for number in (0, 1):
        with pytest.raises(ProtocolError, match="Some party or the server spoilt the sum: its tags") as caught:
            answer(session, number, payload)
        assert caught.value.party is None


@pytest.mark.parametrize("protect", MODES)
def test_the_true_sum_passes(protect):
    session, _, payload = ready(protect)
    assert (answer(session, 0, payload) == sum(vectors(4))).all()


@pytest.mark.parametrize("protect", MODES)
def test_a_sum_of_the_servers_own_making(protect):
    """A point mass on one label would let it read that label's share from each published degree."""
    session, _, _ = ready(protect)
    public = contexts()[2]
    for forged in (np.zeros(8, np.int64), np.array([0, 900, 900, 900, 900, 1, 2, 3])):
        noticed(session, public.encrypt(forged).to_bytes())


@pytest.mark.parametrize("protect", MODES)
def test_one_partys_ciphertext_as_the_sum(protect):
    session, sent, _ = ready(protect)
    noticed(session, sent[3])


def added(session, payloads):
    return session.server.carrier.total(dict(enumerate(payloads)))


def test_a_partial_sum_or_one_counted_twice():
    session, sent, _ = ready("fhe")
    noticed(session, added(session, [sent[0], sent[1], sent[2]]))
    noticed(session, added(session, [*sent.values(), sent[2]]))
    noticed(session, added(session, [sent[0], sent[1], sent[2], sent[2]]))
    # Said to be what it is, it is not what the parties have signed.
    partial = added(session, [sent[0], sent[1], sent[2]])
    with pytest.raises(ProtocolError, match="other parties than agreed") as caught:
        answer(session, 0, partial, (0, 1, 2))
    assert caught.value.party == SERVER


def test_more_than_the_vectors_of_those_who_signed():
    """The fourth vector came, and all signed that it did not: it is not in the sum, and cannot be put in."""
    late = {}
    session = Session(vectors(4), "fhe").until(Step.VECTOR)
    late[3] = Message.from_bytes(session.outbox[3]).parts[0]
    session.until(Step.CONSENT, lambda step, number, raw: None if number == 3 else raw)
    session.ask_server()
    payload = Message.from_bytes(session.answers[0]).parts[1]
    assert (answer(session, 0, payload) == sum(vectors(4)[:3])).all()
    noticed(session, added(session, [payload, late[3]]))


@pytest.mark.parametrize("protect", MODES)
def test_a_sum_with_something_added(protect):
    session, _, payload = ready(protect)
    for place in range(5 + TAGS):
        change = np.zeros(5 + TAGS, np.int64)
        change[place] = 1
        noticed(session, session.server.carrier.subtract(payload, change))


def test_a_sum_of_another_session():
    _, _, old = ready("fhe")
    session, sent, payload = ready("fhe")
    noticed(session, old)
    _, others, _ = ready("fhe")
    foreign = others[3]
    noticed(session, added(session, [sent[0], sent[1], sent[2], foreign]))
    assert answer(session, 0, payload) is not None


def test_the_tags_of_a_sum_that_wraps_in_a_tag():
    """Tags count modulo t, whatever the numbers are."""
    given = [
        np.full(3, -bfv.HALF // 4 + 1),
        np.full(3, bfv.HALF // 4),
        np.zeros(3, np.int64),
        np.ones(3, np.int64),
    ]
    for protect in MODES:
        assert (Session(given, protect, bound=bfv.HALF).run()[0] == sum(given)).all()


def test_keys_and_pads_are_of_one_policy_and_one_party():
    session = Session(vectors(4))
    shared = contexts()[1].shared
    assert len(shared) == 32
    assert contexts()[2].shared == b""
    assert repr(shared) not in repr(contexts()[1])
    key = tags.tag_key(session.policy, shared)
    assert key != tags.tag_key(replace(session.policy, session=new_session()), shared)
    ends = {tuple(tags.extended(session.policy, key, k, np.zeros(5, np.int64))[5:]) for k in range(4)}
    assert len(ends) == 4


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 300))
def test_tags_add_up(seed, length):
    rng = np.random.default_rng(seed)
    policy = Session(vectors(3, length)).policy
    key = masks.expand(bytes(32), 8, 256).astype(np.uint8).tobytes() * 4
    own = rng.integers(-3000, 3000, (3, length))
    total = sum(tags.extended(policy, key, k, own[k]) for k in (0, 2))
    assert (tags.checked(policy, key, (0, 2), total) == own[0] + own[2]).all()
    with pytest.raises(ProtocolError):
        tags.checked(policy, key, (0, 1), total)


def test_a_guess_of_an_entry_as_documented():
    """The one thing that a lying server may still learn: whether x is v, by changing x to 2x - v."""
    session, _, payload = ready("fhe")
    total = sum(vectors(4))
    read = contexts()[2].read(payload, 5 + TAGS)
    factors = [2, *[1] * (bfv.RING - 1)]
    for guess, right in ((int(total[0]), True), (int(total[0]) + 1, False)):
        twice = bfv.EncryptedVector(read.context, read.length, tuple(chunk.mul(factors) for chunk in read.chunks))
        change = np.zeros(5 + TAGS, np.int64)
        change[0] = guess
        changed = twice.subtract_plain(change).to_bytes()
        if right:
            assert (answer(session, 0, changed) == total).all()
        else:
            noticed(session, changed)
