"""The driver: exact in every mode and with any dropouts; what the server sees; what is refused."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chisquare

from tests.secure.sessions import contexts
from unalike.errors import UserError
from unalike.secure import keys as protocol_keys
from unalike.secure.crypto import bfv, errors, shamir
from unalike.secure.crypto.masks import Residues
from unalike.secure.local import secure_sum
from unalike.secure.messages import Message, Step
from unalike.secure.policy import TAGS, safe_threshold

STEPS = ["start", "hello", "shares", "vector", "consent", "unmask"]
MODES = ["none", "fhe", "fhe+masks"]


@given(st.data())
@settings(max_examples=20, deadline=None)
def test_the_sum_is_exact_whoever_drops_out(data):
    parties = data.draw(st.integers(3, 8))
    length = data.draw(st.one_of(st.integers(1, 20), st.integers(1, 9000), st.just(4092)))
    spare = parties - safe_threshold(parties)
    who = data.draw(st.lists(st.integers(0, parties - 1), max_size=spare, unique=True))
    drop_after = {party: data.draw(st.sampled_from(STEPS)) for party in who}
    top = bfv.HALF // parties
    seed = data.draw(st.integers(0, 2**32))
    vectors = list(np.random.default_rng(seed).integers(-top, top + 1, (parties, length)))
    survivors = tuple(i for i in range(parties) if drop_after.get(i) not in ("start", "hello", "shares"))
    for protect in MODES:
        result = secure_sum(vectors, protect=protect, drop_after=drop_after, keys=contexts()[0])
        assert result.survivors == survivors
        assert (result.total == sum(vectors[i] for i in survivors)).all()
        assert result.total.dtype == np.int64
        assert result.server_view == ()


def test_costs_are_counted():
    vectors = [np.arange(10)] * 4
    result = secure_sum(vectors, drop_after={3: "hello"}, keys=contexts()[0], keep_view=True)
    assert sum(map(len, result.server_view)) == sum(result.bytes_up)
    assert result.bytes_up[3] < 1000 < 88_000 < result.bytes_up[0] < 95_000
    assert set(result.seconds) == {"keys", *Step}
    assert result.threshold == 3
    assert result.protect == "fhe+masks"


def decrypted_uploads(result, length):
    """What an attacker reads who has every byte the server received, and the dealer's secret key."""
    secret = bfv.load(contexts()[0].secret, secret=True)
    messages = [Message.from_bytes(raw) for raw in result.server_view]
    return {
        m.sender: secret.decrypt(secret.read(m.parts[0], length + TAGS))[:length]
        for m in messages
        if m.step is Step.VECTOR
    }


def uniform(vector):
    """Whether numbers modulo the plain modulus look uniform; refuses a uniform one once in a million times."""
    counts = np.histogram(vector % bfv.MODULUS, bins=20, range=(0, bfv.MODULUS))[0]
    return chisquare(counts).pvalue > 1e-6


def test_attack_on_fhe_reads_every_vector():
    """The weak point of the paper's protocol, as documented: the server and the key together see all."""
    vectors = list(np.random.default_rng(1).integers(0, 500, (4, 2000)))
    result = secure_sum(vectors, protect="fhe", keys=contexts()[0], keep_view=True)
    stolen = decrypted_uploads(result, 2000)
    assert all((stolen[i] == vectors[i]).all() for i in range(4))
    assert not any(uniform(stolen[i]) for i in range(4))


def test_attack_on_masks_reads_nothing_but_the_sum():
    """The same attacker, who also takes away all masks that the server may reconstruct."""
    vectors = list(np.random.default_rng(1).integers(0, 500, (5, 2000)))
    result = secure_sum(vectors, drop_after={2: "shares"}, keys=contexts()[0], keep_view=True)
    stolen = decrypted_uploads(result, 2000)
    assert set(stolen) == {0, 1, 3, 4}
    unmasks = [m for m in map(Message.from_bytes, result.server_view) if m.step is Step.UNMASK]
    peeled = {}
    for i, vector in stolen.items():
        assert (vector != vectors[i]).mean() > 0.99
        assert uniform(vector)
        shares = [shamir.Share(m.sender + 1, m.parts[0][33 * i : 33 * i + 33]) for m in unmasks]
        seed = shamir.reconstruct(shares, result.threshold, 32)
        policy = _Terms(unmasks[0].policy, 2000)
        peeled[i] = vector % bfv.MODULUS
        protocol_keys.add_self_mask(policy, peeled[i], i, seed, minus=True)
        assert (peeled[i] != vectors[i]).mean() > 0.99
        assert uniform(peeled[i])
        assert uniform(peeled[i] - vectors[i])
    # The seeds were the true ones: party 2's masks are all that keeps the four from adding up.
    secret = shamir.reconstruct(
        [shamir.Share(m.sender + 1, m.parts[0][66:99]) for m in unmasks], result.threshold, 32
    )
    hellos = [m for m in map(Message.from_bytes, result.server_view) if m.step is Step.HELLO]
    publics = {m.sender: m.parts[0] for m in hellos if m.sender in stolen}
    total = sum(peeled.values()) % bfv.MODULUS
    protocol_keys.add_pairwise_masks(policy, total, 2, secret, publics)
    assert (bfv.centred(total) == result.total).all()


class _Terms:
    """As much of a policy as an attacker has: its digest and the length."""

    def __init__(self, digest, length):
        self.digest, self.width, self.ring = digest, length, Residues(bfv.MODULUS)


def test_the_server_view_holds_neither_vector_nor_secret_key():
    vectors = [np.full(50, 77 + i) for i in range(3)]
    view = b"".join(secure_sum(vectors, keys=contexts()[0], keep_view=True).server_view)
    assert not any(vector.tobytes() in view for vector in vectors)


def test_noise_is_added_and_small():
    vectors = [np.full(400, 1000)] * 3
    result = secure_sum(vectors, protect="none", noise_sigma=3.0)
    assert result.total.std() == pytest.approx(3 * 3**0.5, rel=0.35)
    assert abs(result.total.mean() - 3000) < 3
    assert (secure_sum(vectors, protect="none").total == 3000).all()


@pytest.mark.parametrize("protect", MODES)
def test_two_parties_need_a_flag(protect):
    two = [np.array([1, -5]), np.array([2, 3])]
    with pytest.raises(UserError, match="allow_two"):
        secure_sum(two, protect=protect)
    assert secure_sum(two, protect=protect, allow_two=True, keys=contexts()[0]).total.tolist() == [3, -2]


@pytest.mark.parametrize("protect", MODES)
@pytest.mark.parametrize("step", STEPS[:-1])
def test_too_few_survivors(protect, step):
    if (protect, step) in (("none", "vector"), ("none", "consent"), ("fhe", "consent")):
        pytest.skip("it is a party's last word")
    with pytest.raises(UserError, match=r"Only 2 of 4 parties took the step \w+, the threshold is 3"):
        secure_sum([np.arange(3)] * 4, protect=protect, drop_after={1: step, 2: step}, keys=contexts()[0])


ONES = [np.ones(3, np.int64)] * 3


@pytest.mark.parametrize(
    ("vectors", "fields", "text"),
    [
        ([], {}, "needs at least 3 parties, got 0"),
        (ONES[:1], {}, "needs at least 3 parties, got 1"),
        (ONES * 4000, {}, "at most 10000 parties can add up, got 12000. Use fewer, or 'fhe'"),
        (
            ONES * 20000,
            {"protect": "none"},
            "at most 50000 parties can add up, got 60000. Use fewer.$",
        ),
        ([one * 6_000_000 for one in ONES], {"bound": 8_000_000}, "Party 0's vector exceeds 2666666, its part"),
        ([one * 6_000_000 for one in ONES], {"bound": 8_000_000, "protect": "none"}, "Party 0's vector exceeds"),
        (ONES, {"protect": "fhe+mask"}, "Did you mean 'fhe.masks'"),
        (ONES, {"threshold": 1}, "threshold must be in 3..3"),
        (ONES, {"threshold": 4}, "threshold must be in 3..3"),
        (ONES * 3, {"threshold": 4}, "more than half of them"),
        (ONES, {"bound": bfv.HALF + 1}, "Scale values down"),
        ([one * (bfv.HALF // 3 + 1) for one in ONES], {}, "Scale values down"),
        ([one * 2**61 for one in ONES], {"protect": "none"}, "Scale values down"),
        (ONES, {"bound": 0}, "Party 0's vector exceeds 0, its part of the agreed bound 0"),
        (ONES, {"drop_after": {3: "hello"}}, "names party 3; parties are 0..2"),
        (ONES, {"drop_after": {0: "helo"}}, "Did you mean 'hello'"),
        ([*ONES[:2], np.ones(4, np.int64)], {}, "Party 2's vector has 4 entries, party 0's 3"),
        ([*ONES[:2], np.ones(3)], {}, "Party 2's vector must be one-dimensional int64"),
        ([np.zeros(0, np.int64)] * 3, {}, "not empty"),
        ([*ONES[:2], np.ones((1, 3), np.int64)], {}, "Party 2's vector must be one-dimensional"),
    ],
)
def test_bad_arguments(vectors, fields, text):
    with pytest.raises(UserError, match=text):
        secure_sum(vectors, **{"keys": contexts()[0]} | fields)


def test_without_the_libraries_plain_sums_still_work(monkeypatch):
    errors.library.cache_clear()
    for name in ("tenseal", "cryptography.hazmat.primitives.asymmetric.ed25519"):
        monkeypatch.setitem(sys.modules, name, None)
    assert secure_sum(ONES, protect="none").total.tolist() == [3, 3, 3]
    with pytest.raises(UserError, match="is not installed"):
        secure_sum(ONES)
    errors.library.cache_clear()
