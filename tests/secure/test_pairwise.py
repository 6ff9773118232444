"""Sums in one trip: exact with all vectors, noise with any fewer, or where parties were told different things."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from itertools import combinations

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.secure.test_masks_alone import limit, uniform
from unalike.errors import UserError
from unalike.secure import ProtocolError, TooFewParties
from unalike.secure.crypto import masks
from unalike.secure.crypto.errors import CryptoError
from unalike.secure.crypto.masks import Words
from unalike.secure.crypto.primitives import agreement_public, sign, signing_public
from unalike.secure.pairwise import CHECKS, hide, introduced, introduction, pair_key, terms, total

BITS = pytest.mark.parametrize("bits", [32, 64])
CONTEXT, SESSION, LENGTH = b"a plan", bytes(range(16)), 4000


def made(what, number):
    """The same secret in every run of these tests: what looks uniform once does so always."""
    return sha256(f"{what} {number}".encode()).digest()


class Circle:
    """Parties that know each other's keys."""

    def __init__(self, parties, context=CONTEXT):
        self.parties = parties
        self.signers = [made("signer", number) for number in range(parties + 1)]
        self.secrets = [made("secret", number) for number in range(parties)]
        self.identities = [signing_public(signer) for signer in self.signers]
        self.context = context

    def keys(self, own):
        told = [introduction(self.secrets[i], self.signers[i], self.context) for i in range(self.parties)]
        return {
            i: pair_key(self.secrets[own], introduced(raw, self.identities[i], self.context), self.context)
            for i, raw in enumerate(told)
            if i != own
        }

    def terms(self, length, question=b"what?", bits=64, session=SESSION):
        return terms(session, self.identities, length, question, bits)

    def hidden(self, vectors, bits=64, **changes):
        policy = self.terms(len(vectors[0]), bits=bits, **changes)
        return policy, {i: hide(policy, i, self.keys(i), vector) for i, vector in enumerate(vectors)}


def words(payload, bits):
    return np.frombuffer(payload, Words(bits).dtype)


@given(st.data())
@settings(max_examples=40, deadline=None)
def test_the_sum_is_exact(data):
    parties, bits = data.draw(st.integers(3, 8)), data.draw(st.sampled_from([32, 64]))
    length, top = data.draw(st.integers(1, 200)), limit(bits) // parties
    vectors = np.random.default_rng(data.draw(st.integers(0, 2**32))).integers(-top, top + 1, (parties, length))
    vectors[:, 0] = data.draw(st.sampled_from([top, -top, 0]))  # all at their limit: the sum at its own
    question, session = data.draw(st.binary(max_size=80)), data.draw(st.binary(min_size=16, max_size=16))
    policy, payloads = Circle(parties).hidden(list(vectors), bits, question=question, session=session)
    found = total(policy, payloads)
    assert found.tolist() == [sum(int(entry) for entry in column) for column in vectors.T]
    assert found.dtype == np.int64
    assert {len(payload) for payload in payloads.values()} == {(length + CHECKS) * bits // 8}


def test_unsigned_words_count_modulo():
    vectors = list(np.random.default_rng(3).integers(0, 2**64, (4, 50), np.uint64))
    policy, payloads = Circle(4).hidden(vectors)
    expected = [sum(int(entry) for entry in column) % 2**64 for column in np.array(vectors).T]
    assert total(policy, payloads).view(np.uint64).tolist() == expected


@BITS
def test_masks_are_those_of_the_standards(bits):
    """X25519, HKDF-SHA256 and AES-256-CTR of the library itself; the first of two adds, the second takes away."""
    circle, vector = Circle(3), np.array([5, -7, 0])
    policy = circle.terms(3, bits=bits)
    expected = np.array([*vector, *[0] * CHECKS]).astype(Words(bits).dtype)
    for other in (0, 2):
        private = X25519PrivateKey.from_private_bytes(circle.secrets[1])
        shared = private.exchange(X25519PublicKey.from_public_bytes(agreement_public(circle.secrets[other])))
        root = HKDF(SHA256(), 32, None, b"unalike pair key" + CONTEXT).derive(shared)
        info = b"unalike\x08pairwise\x20" + policy.digest
        info += b"".join(number.to_bytes(4, "big") for number in sorted((1, other)))
        seed = HKDF(SHA256(), 32, None, info).derive(root)
        stream = Cipher(algorithms.AES(seed), modes.CTR(bytes(16))).encryptor().update(bytes(expected.nbytes))
        mask = np.frombuffer(stream, Words(bits).dtype)
        expected = expected + mask if other > 1 else expected - mask
    assert hide(policy, 1, circle.keys(1), vector) == expected.tobytes()


@BITS
@pytest.mark.parametrize("entry", ["zeros", "limits"])
def test_any_fewer_than_all_are_uniform_noise(bits, entry):
    """A single vector, and the sum of any that are not all, whatever is in them; all of them are not."""
    value = 0 if entry == "zeros" else limit(bits) // 4
    vectors = [np.full(LENGTH, value)] * 4
    policy, payloads = Circle(4).hidden(vectors, bits)
    for size in (1, 2, 3):
        for some in combinations(range(4), size):
            assert uniform(sum(words(payloads[i], bits) for i in some)), some
    assert not uniform(sum(words(payload, bits) for payload in payloads.values()))
    assert total(policy, payloads).tolist() == [4 * value] * LENGTH


def test_all_but_two_in_league_with_the_server_have_the_sum_of_the_two():
    """What they share with the two they can take away; the mask of the two stays."""
    circle = Circle(5)
    vectors = list(np.random.default_rng(5).integers(-900, 900, (5, LENGTH)))
    policy, payloads = circle.hidden(vectors)
    left = []
    for honest in (0, 1):
        known = {other: circle.keys(other)[honest] for other in (2, 3, 4)}
        seeds = {n: masks.pair_seed(key, b"pairwise", policy.digest, n, honest) for n, key in known.items()}
        bare = words(payloads[honest], 64).copy()
        masks.add_pairwise(policy.ring, bare, honest, seeds, minus=True)
        assert uniform(bare)
        left.append(bare)
    assert sum(left).view(np.int64)[:LENGTH].tolist() == (vectors[0] + vectors[1]).tolist()


def told_otherwise(circle, policy):
    """By what one party is told otherwise: its terms, and its keys."""
    first, second, third, server = policy.identities
    stranger, keys = made("stranger", 0), circle.keys(1)
    return {
        "question": (replace(policy, question=sha256(b"another").digest()), keys),
        "session": (replace(policy, session=bytes(16)), keys),
        "server": (replace(policy, identities=(first, second, third, signing_public(stranger))), keys),
        "parties": (replace(policy, identities=(server, second, third, first)), keys),
        "bound": (replace(policy, bound=policy.bound - 3), keys),
        "key": (policy, {**keys, 2: pair_key(circle.secrets[1], agreement_public(stranger), CONTEXT)}),
        "context": (policy, Circle(3, b"another plan").keys(1)),
    }


@BITS
@pytest.mark.parametrize("what", ["question", "session", "server", "parties", "bound", "key", "context"])
def test_a_party_that_was_told_something_else_makes_noise(what, bits):
    circle, vectors = Circle(3), [np.full(LENGTH, 7)] * 3
    policy, payloads = circle.hidden(vectors, bits)
    told, keys = told_otherwise(circle, policy)[what]
    payloads[1] = hide(told, 1, keys, vectors[1])
    with pytest.raises(ProtocolError, match="The sum is noise, as the masks do not cancel") as caught:
        total(policy, payloads)
    assert caught.value.party is None
    assert uniform(sum(words(payload, bits) for payload in payloads.values()))


def test_a_missing_vector_is_no_sum():
    policy, payloads = Circle(4).hidden([np.arange(5)] * 4)
    for missing in range(4):
        with pytest.raises(TooFewParties, match=rf"parties \[{missing}\] are missing"):
            total(policy, {i: payload for i, payload in payloads.items() if i != missing})
    with pytest.raises(TooFewParties):
        total(policy, {**payloads, 4: payloads[0]})


@pytest.mark.parametrize("payload", [b"", b"\0" * 8, b"\0" * 57])
def test_a_payload_of_another_size_has_a_name(payload):
    policy, payloads = Circle(3).hidden([np.arange(5)] * 3)
    with pytest.raises(ProtocolError, match="must have 56 bytes") as caught:
        total(policy, {**payloads, 2: payload})
    assert caught.value.party == 2


def test_the_same_terms_have_the_same_bytes_and_others_have_others():
    circle, vector = Circle(3), np.arange(20)
    first = hide(circle.terms(20), 0, circle.keys(0), vector)
    assert hide(circle.terms(20), 0, Circle(3).keys(0), vector) == first
    others = [circle.terms(20, question=b"other"), circle.terms(20, session=bytes(16))]
    assert len({first, *(hide(policy, 0, circle.keys(0), vector) for policy in others)}) == 3


@pytest.mark.parametrize("parties", [1, 2])
def test_fewer_than_three_are_refused(parties):
    with pytest.raises(UserError, match=r"two parties|at least 3 parties"):
        Circle(parties).terms(5)


@BITS
def test_vectors_that_do_not_fit(bits):
    circle, top = Circle(3), limit(bits) // 3
    policy, keys = circle.terms(3, bits=bits), circle.keys(0)
    for beyond in (top + 1, -top - 1, -(2**63)):
        with pytest.raises(UserError, match=f"exceeds {top}"):
            hide(policy, 0, keys, np.array([0, beyond, 0]))
    for wrong in (np.zeros(2, np.int64), np.zeros((3, 1), np.int64), np.zeros(3), np.zeros(3, np.int32)):
        with pytest.raises(UserError, match="must be 3 int64 or uint64"):
            hide(policy, 0, keys, wrong)
    for few in ({}, {1: keys[1]}, {**keys, 0: keys[1]}, {1: keys[1], 3: keys[2]}):
        with pytest.raises(UserError, match="a key with each of the other 2 parties"):
            hide(policy, 0, few, np.zeros(3, np.int64))


class TestIntroductions:
    """A key is another party's only if that one signed it, for this context."""

    circle = Circle(3)

    def test_it_is_what_was_told(self):
        raw = introduction(self.circle.secrets[0], self.circle.signers[0], CONTEXT)
        assert introduced(raw, self.circle.identities[0], CONTEXT) == agreement_public(self.circle.secrets[0])

    @pytest.mark.parametrize(
        ("signer", "context"), [(1, CONTEXT), (0, b"another plan"), (0, b"")], ids=["stranger", "context", "none"]
    )
    def test_of_somebody_else_or_for_something_else(self, signer, context):
        raw = introduction(self.circle.secrets[0], self.circle.signers[signer], context)
        with pytest.raises(CryptoError):
            introduced(raw, self.circle.identities[0], CONTEXT)

    def test_a_key_under_the_signature_of_another_key(self):
        first, second = (introduction(made("x", n), self.circle.signers[0], CONTEXT) for n in (1, 2))
        with pytest.raises(CryptoError):
            introduced(first[:32] + second[32:], self.circle.identities[0], CONTEXT)

    @given(st.binary(max_size=120))
    def test_junk(self, raw):
        with pytest.raises(CryptoError):
            introduced(raw, self.circle.identities[0], CONTEXT)

    @pytest.mark.parametrize("public", [bytes(32), b"\1" + bytes(31)])
    def test_keys_of_low_order(self, public):
        """With these, everybody would know the shared secret."""
        raw = public + sign(self.circle.signers[0], b"unalike pairwise" + public + CONTEXT)
        with pytest.raises(CryptoError, match="of low order"):
            introduced(raw, self.circle.identities[0], CONTEXT)
        with pytest.raises(CryptoError, match="of low order"):
            pair_key(self.circle.secrets[0], public, CONTEXT)
