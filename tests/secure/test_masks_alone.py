"""The protection "masks": exact, never beyond its bound, and a server that learns the sum and nothing else."""

from __future__ import annotations

import re
import sys
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare, ks_2samp

from tests.secure.sessions import SIGNERS, Session, Step, vectors
from unalike.errors import UserError
from unalike.secure import ProtocolError, keys, party, safe_threshold, secure_sum, server
from unalike.secure.crypto import errors, shamir
from unalike.secure.crypto.masks import Words
from unalike.secure.messages import Message

STEPS = ["start", "hello", "shares", "vector", "consent", "unmask"]
BITS = pytest.mark.parametrize("bits", [32, 64])
LENGTH = 4000


def limit(bits):
    return 2 ** (bits - 1) - 1


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_sum_is_exact_whoever_drops_out(data):
    parties = data.draw(st.integers(3, 9))
    bits, length = data.draw(st.sampled_from([32, 64])), data.draw(st.integers(1, 200))
    spare = parties - safe_threshold(parties)
    who = data.draw(st.lists(st.integers(0, parties - 1), max_size=spare, unique=True))
    drop_after = {number: data.draw(st.sampled_from(STEPS)) for number in who}
    top = limit(bits) // parties
    drawn = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(-top, top + 1, (parties, length))
    drawn[:, 0] = data.draw(st.sampled_from([top, -top, 0]))  # all at their limit: the sum at its own
    result = secure_sum(list(drawn), protect="masks", bits=bits, bound=limit(bits), drop_after=drop_after)
    survivors = tuple(i for i in range(parties) if drop_after.get(i) not in STEPS[:3])
    assert result.survivors == survivors
    assert result.total.tolist() == [sum(int(drawn[i, k]) for i in survivors) for k in range(length)]
    assert result.total.dtype == np.int64


@BITS
def test_only_the_server_has_the_sum_and_an_entry_takes_so_many_bits(bits):
    session = Session(vectors(4, 7), "masks", bits=bits)
    session.until(Step.VECTOR)
    assert {len(Message.from_bytes(raw).parts[0]) for raw in session.outbox.values()} == {7 * bits // 8}
    session.until(None)
    assert (session.server.total == sum(vectors(4, 7))).all()
    assert session.answers == {}
    assert all(state.total is None and state.awaits is None for state in session.parties.values())


@BITS
class TestOverflow:
    """An error, never a wrap."""

    def test_a_bound_that_does_not_fit(self, bits):
        ones = [np.ones(3, np.int64)] * 3
        for bound in (2 ** (bits - 1), 2**bits, 2**70, -1):
            with pytest.raises(
                UserError, match=f"must stay within {limit(bits)} to be exact, its bound is {bound}"
            ):
                secure_sum(ones, protect="masks", bits=bits, bound=bound)
        assert secure_sum(ones, protect="masks", bits=bits, bound=limit(bits)).total.tolist() == [3, 3, 3]

    def test_a_vector_beyond_its_part(self, bits):
        part = limit(bits) // 3
        for beyond in (part + 1, -part - 1, limit(bits), -limit(bits) - 1):
            given_vectors = [np.array([1, part]), np.array([beyond, 2]), np.array([3, 3])]
            with pytest.raises(UserError, match=f"Party 1's vector exceeds {part}, its part of the agreed bound"):
                secure_sum(given_vectors, protect="masks", bits=bits, bound=limit(bits))

    def test_a_default_bound_that_does_not_fit(self, bits):
        top = limit(bits) // 3 + 1
        with pytest.raises(UserError, match="Scale values down" + (", or use 64 bits" if bits == 32 else "")):
            secure_sum([np.array([top])] * 3, protect="masks", bits=bits)

    @pytest.mark.parametrize("far", [20_000, -20_000])
    def test_a_party_that_lies_about_its_part(self, bits, far):
        session, words = Session(vectors(4), "masks", bits=bits), Words(bits)

        def lie(step, number, raw):
            if step is not Step.VECTOR or number != 2:
                return raw
            masked = np.frombuffer(Message.from_bytes(raw).parts[0], words.dtype)
            changed = masked + words.elements(np.full(5, far))
            return session.rewrite(2, raw, parts=(changed.tobytes(),))

        with pytest.raises(ProtocolError, match="exceeds the agreed bound 10000") as caught:
            session.run(lie)
        assert caught.value.party is None


def uniform(words):
    """Whether words look uniform, by high bits and by all bytes; wrong once in a thousand million times."""
    high = np.bincount((words >> np.array(words.dtype.itemsize * 8 - 6, words.dtype)).astype(int), minlength=64)
    every = np.bincount(np.frombuffer(words.tobytes(), np.uint8), minlength=256)
    return min(chisquare(high).pvalue, chisquare(every).pvalue) > 1e-9


def run(given_vectors, bits):
    """A sum of five parties, one of which vanishes after sharing its secrets."""
    terms = {"protect": "masks", "bits": bits, "bound": limit(bits)}
    return secure_sum(list(given_vectors), **terms, keep_view=True, drop_after={3: "shares"})


def sent(result, bits):
    """The masked vectors as the server got them."""
    messages = map(Message.from_bytes, result.server_view)
    return {m.sender: np.frombuffer(m.parts[0], Words(bits).dtype) for m in messages if m.step is Step.VECTOR}


def inputs(bits):
    """Sets of inputs as different as they can be; the last two have the same sum."""
    top = limit(bits) // 5
    zeros, extreme = np.zeros((5, LENGTH), np.int64), np.full((5, LENGTH), top)
    one = np.random.default_rng(0).integers(0, 100, (5, LENGTH))
    other = np.zeros_like(one)
    other[4] = one.sum(axis=0)
    return {"zeros": zeros, "extreme": extreme, "least": -extreme, "one": one, "other": other}


@BITS
class TestServerView:
    """What the server receives says nothing but the sum."""

    def test_uniform_whatever_the_inputs_are(self, bits):
        views = {}
        for name, given_vectors in inputs(bits).items():
            result = run(given_vectors, bits)
            views[name] = sent(result, bits)
            assert set(views[name]) == {0, 1, 2, 4}
            words = Words(bits)
            for number, masked in views[name].items():
                assert uniform(masked)
                assert uniform(masked - words.elements(given_vectors[number]))  # the masks
        for name, view in views.items():  # each against each, as if to tell which inputs they were made from
            for other in views.values():
                if other is not view:
                    for number in view:
                        assert ks_2samp(view[number] / 2**bits, other[number] / 2**bits).pvalue > 1e-9, name
                        assert uniform(view[number] - other[number])

    def test_nothing_but_the_vectors_depends_on_the_inputs(self, bits, monkeypatch):
        """With the same secrets and session, all other messages are the same to the byte."""
        views = []
        for given_vectors in (inputs(bits)["one"], inputs(bits)["other"]):
            fixed = (keys.Secrets(*(bytes([4 * i + k]) * 32 for k in range(4))) for i in range(5))
            monkeypatch.setattr(party, "Secrets", lambda fixed=fixed: next(fixed))
            session = Session(list(given_vectors), "masks", bits=bits, session=bytes(16), bound=limit(bits))
            seen = []
            session.until(None, lambda step, number, raw, seen=seen: seen.append((step, number, raw)) or raw)
            views.append((seen, session.server.total))
        (first, total), (second, same) = views
        assert (total == same).all()
        assert [raw for step, _, raw in first if step is not Step.VECTOR] == [
            raw for step, _, raw in second if step is not Step.VECTOR
        ]
        assert all(a != b for (step, _, a), (_, _, b) in zip(first, second, strict=True) if step is Step.VECTOR)

    def test_no_part_of_the_parties_adds_up(self, bits):
        """A server that takes away every mask it may open: all survivors together are the sum, fewer are noise."""
        given_vectors = inputs(bits)["extreme"]
        result = run(given_vectors, bits)
        messages = [Message.from_bytes(raw) for raw in result.server_view]
        terms, publics = _Terms(messages[0].policy, bits), mask_keys(messages)
        peeled = {number: masked.copy() for number, masked in sent(result, bits).items()}
        for number, masked in peeled.items():
            keys.add_self_mask(terms, masked, number, opened(messages, number, result.threshold), minus=True)
            secret = opened(messages, 3, result.threshold)
            keys.add_pairwise_masks(terms, masked, 3, secret, {number: publics[number]})
        for count in (1, 2, 3):
            for who in combinations(peeled, count):
                assert uniform(sum(peeled[number] for number in who))
        assert (Words(bits).integers(sum(peeled.values())) == result.total).all()
        assert (result.total == 4 * given_vectors[0]).all()

    def test_a_vector_that_came_too_late_is_still_masked(self, bits):
        """What the own mask is for: the server opens the masks that a party has with others, then gets it."""
        given_vectors = list(inputs(bits)["extreme"])
        session, messages = Session(given_vectors, "masks", bits=bits, bound=limit(bits)), []
        late = {}

        def withhold(step, number, raw):
            if (step, number) == (Step.VECTOR, 3):
                late[number] = raw
                return None
            messages.append(Message.from_bytes(raw))
            return raw

        session.until(None, withhold)
        masked = np.frombuffer(Message.from_bytes(late[3]).parts[0], Words(bits).dtype).copy()
        publics = {number: key for number, key in mask_keys(messages).items() if number != 3}
        secret = opened(messages, 3, session.policy.threshold)
        keys.add_pairwise_masks(session.policy, masked, 3, secret, publics, minus=True)
        assert uniform(masked)
        assert uniform(masked - Words(bits).elements(given_vectors[3]))


def mask_keys(messages):
    return {m.sender: m.parts[0] for m in messages if m.step is Step.HELLO}


def opened(messages, dealer, threshold):
    """The secret of a party that the revealed shares give: its seed, or its mask key if it left."""
    shares = [
        shamir.Share(m.sender + 1, m.parts[0][33 * dealer :][:33]) for m in messages if m.step is Step.UNMASK
    ]
    return shamir.reconstruct(shares, threshold, 32)


class _Terms:
    """As much of a policy as an attacker needs."""

    def __init__(self, digest, bits):
        self.digest, self.ring = digest, Words(bits)


def test_the_order_in_which_messages_arrive_does_not_matter():
    session = Session(vectors(5), "masks")
    while session.server.awaits is not None:
        backwards = server.step(session.server, list(session.outbox.items())[::-1])
        session.ask_server()
        assert backwards[1] == session.answers
        session.ask_parties()
    assert (backwards[0].total == session.server.total).all()


def test_a_party_that_left_may_not_send_again():
    session = Session(vectors(5), "masks")
    session.until(Step.VECTOR)
    late = session.outbox[4]
    session.until(Step.CONSENT, lambda step, number, raw: None if number == 4 else raw)
    with pytest.raises(ProtocolError, match="Party 4 takes no part in the step consent") as caught:
        server.step(session.server, [*session.outbox.items(), (4, late)])
    assert caught.value.party == 4


def test_the_documented_way_to_carry_messages():
    text = (Path(__file__).parents[2] / "docs/secure-measurement.md").read_text()
    (code,) = [block for block in re.findall(r"```python\n(.*?)```", text, re.S) if "server.step" in block]
    names = {"np": np}
    exec(code, names)
    assert names["central"].total.tolist() == [3, -3]
    assert names["central"].survivors == (0, 1, 2)


def test_it_needs_no_homomorphic_library(monkeypatch):
    errors.library.cache_clear()
    monkeypatch.setitem(sys.modules, "tenseal", None)
    assert secure_sum([np.array([1, -2])] * 3, protect="masks").total.tolist() == [3, -6]
    errors.library.cache_clear()


@pytest.mark.parametrize(("protect", "bits"), [("masks", 0), ("masks", 16), ("none", 32), ("fhe", 64)])
def test_bits_that_are_refused(protect, bits):
    with pytest.raises(UserError, match=f"bits must be 32 or 64 for 'masks' and 0 for the others, got {bits}"):
        Session(vectors(3), protect, bits=bits)


def test_masks_without_identities_are_refused():
    with pytest.raises(UserError, match="Identities must be distinct"):
        Session(vectors(3), "masks", identities=())
    with pytest.raises(UserError, match="Identities must be distinct"):
        Session(vectors(3), "masks", identities=(SIGNERS[0],) * 4)
