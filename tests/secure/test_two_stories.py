"""A lying server and c of n parties against the threshold: it tells different parties different things.

The attacks are played in full, with the real steps of the parties, and try to end with one party's bare vector.
"""

from __future__ import annotations

from contextlib import suppress
from functools import cache

import numpy as np
import pytest

from tests.secure.bare import unmasked
from tests.secure.sessions import SERVER, Session, Step, contexts, take, vectors
from unalike.errors import UserError
from unalike.secure import keys
from unalike.secure.crypto import bfv, shamir
from unalike.secure.errors import ProtocolError
from unalike.secure.messages import EVERYONE, Message, pack_numbers, write
from unalike.secure.policy import TAGS, most_liars, safe_threshold

COUNTS = range(3, 21)
PROMISED = [(parties, liars) for parties in COUNTS for liars in range(most_liars(parties) + 1)]
VICTIM = 0
LENGTH = 3


@cache
def prepared(parties, threshold, protect):
    """A session whose vectors were sent, with the states and the server's answers just before that."""
    session = Session(vectors(parties, LENGTH), protect, threshold=threshold, bound=20_000).until(Step.SHARES)
    session.ask_server()
    before, answers = dict(session.parties), dict(session.answers)
    session.ask_parties()
    return session, before, answers


class Attack:
    """A session whose last parties are in league with the server; what each honest one reveals is collected."""

    def __init__(self, parties, liars, threshold, protect="masks"):
        self.session, self.before, self.answers = prepared(parties, threshold, protect)
        self.states, self.sent = dict(self.session.parties), dict(self.session.outbox)
        self.policy, self.everybody = self.session.policy, list(range(parties))
        self.honest, self.liars = self.everybody[: parties - liars], self.everybody[parties - liars :]

    def say(self, step, *parts, to=EVERYONE):
        return write(self.policy, step, SERVER, to, parts, self.session.signers[-1])

    def signed(self, survivors, told):
        """Tell these that such vectors arrived: the new states, and signatures. Liars sign whatever is wanted."""
        raw = self.say(Step.VECTOR, pack_numbers(survivors))
        answers = {i: take(self.states[i], raw) for i in [*told, *self.liars]}
        return {i: state for i, (state, _) in answers.items()}, {i: consent for i, (_, consent) in answers.items()}

    def shares(self, survivors, told):
        """What these reveal after that story: a share of each member. Liars give theirs away in any case."""
        states, consents = self.signed(survivors, told)
        raw = self.say(Step.CONSENT, *(consents[i] for i in sorted(consents)))
        revealed = {}
        for i, state in states.items():
            kinds = {member: keys.SEED if member in survivors else keys.KEY for member in state.members}
            revealed[i] = {member: state.held[member][kind] for member, kind in kinds.items()}
            if i not in self.liars:
                with suppress(ProtocolError):
                    assert take(state, raw)[1] is not None
                    continue
                del revealed[i]
        return revealed

    def secret(self, revealed, member):
        """What enough shares of a member give; None if there are not enough."""
        shares = [keys.share_of(holder, values[member]) for holder, values in revealed.items()]
        enough = len(shares) >= self.policy.threshold
        return shamir.reconstruct(shares, self.policy.threshold, 32) if enough else None

    def masked(self, number):
        """The vector that the party sent, as its carrier and the liars' key to ciphertexts show it."""
        payload = Message.from_bytes(self.sent[number]).parts[0]
        if not self.policy.encrypted:
            return np.frombuffer(payload, self.policy.ring.dtype)
        secret = contexts()[1]
        return secret.decrypt(secret.read(payload, LENGTH + TAGS)) % bfv.MODULUS

    def publics(self, members):
        return {i: self.session.server.publics[i].mask_public for i in members}

    def two_lists_of_survivors(self, size):
        """``size`` honest parties, the victim too, hear that all survived; the other ones that it did not."""
        told = [self.honest[:size], self.honest[size:]]
        stories = [self.everybody, [i for i in self.everybody if i != VICTIM]]
        found = [
            self.secret(self.shares(survivors, who), VICTIM) for survivors, who in zip(stories, told, strict=True)
        ]
        if None in found:
            return None
        return unmasked(self.policy, self.masked(VICTIM), VICTIM, *found, self.publics(self.everybody))[:LENGTH]

    def two_lists_of_members(self, size):
        """The victim hears of ``size`` honest members, all of which then vanish; the others hear of everybody."""
        gone = self.honest[1 : 1 + size]
        heard = [VICTIM, *gone, *self.liars]
        numbers, boxes, commitments = Message.from_bytes(self.answers[VICTIM]).parts
        assert numbers == pack_numbers(self.everybody)
        mine = [
            b"".join(raw[at * width : (at + 1) * width] for at in (i - 1 for i in heard[1:]))
            for raw, width in ((boxes, keys.BOX_BYTES), (commitments, 2 * keys.COMMITMENT_BYTES))
        ]
        raw = self.say(Step.SHARES, pack_numbers(heard), *mine, to=VICTIM)
        vector = self.session.vectors[VICTIM]
        self.states[VICTIM], self.sent[VICTIM] = take(self.before[VICTIM], raw, vector)
        liars_keys = {i: self.before[i].secrets.mask_key for i in self.liars}
        survivors = [i for i in self.everybody if i not in gone]
        revealed = self.shares(survivors, [i for i in self.honest if i != VICTIM and i not in gone])
        seed = self.secret(revealed, VICTIM)
        found = {i: self.secret(revealed, i) for i in gone}
        if None in (seed, *found.values()):
            return None
        bare = self.masked(VICTIM).copy()
        keys.add_self_mask(self.policy, bare, VICTIM, seed, minus=True)
        for other, secret in (found | liars_keys).items():  # mask(victim, other) is minus mask(other, victim)
            keys.add_pairwise_masks(self.policy, bare, other, secret, self.publics([VICTIM]))
        return (self.policy.ring.integers(bare) if self.policy.bits else bfv.centred(bare))[:LENGTH]


def reads(way, size, *terms):
    """Whether an attack ends with the victim's vector; the parties may refuse anywhere on the way."""
    attack = Attack(*terms)
    with suppress(ProtocolError):
        found = way(attack, size)
        if found is not None:
            assert found.tolist() == attack.session.vectors[VICTIM].tolist()
            return True
    return False


WAYS = pytest.mark.parametrize("way", [Attack.two_lists_of_survivors, Attack.two_lists_of_members])


@WAYS
@pytest.mark.parametrize(("parties", "liars"), PROMISED)
def test_at_the_safe_threshold_no_promised_number_of_liars_reads_a_vector(parties, liars, way):
    threshold = safe_threshold(parties)
    for size in range(1, parties - liars):
        assert not reads(way, size, parties, liars, threshold)


@WAYS
@pytest.mark.parametrize("parties", COUNTS)
def test_one_below_it_the_most_liars_read_a_vector_or_there_is_no_such_policy(parties, way):
    """The attacks work: it is the threshold that stops them."""
    liars, threshold = most_liars(parties), safe_threshold(parties) - 1
    sizes = range(1, parties - liars)
    if threshold < safe_threshold(parties, 0):
        with pytest.raises(UserError, match="more than half of them"):
            Attack(parties, liars, threshold)
    else:
        assert any(reads(way, size, parties, liars, threshold) for size in sizes)


@WAYS
@pytest.mark.parametrize("parties", [5, 8])
def test_ciphertexts_around_the_masks_change_nothing(parties, way):
    """With a party in league the server can open them."""
    liars, safe = most_liars(parties), safe_threshold(parties)
    for threshold in (safe, safe - 1):
        found = [reads(way, size, parties, liars, threshold, "fhe+masks") for size in range(1, parties - liars)]
        assert any(found) is (threshold < safe)


@pytest.mark.parametrize("parties", COUNTS)
def test_with_ciphertexts_alone_more_than_half_of_the_consents_stop_the_server(parties):
    """Two sums that differ in one vector, each of which some are to decrypt: never both."""
    terms = {"threshold": safe_threshold(parties, 0), "bound": 20_000}
    session = Session(vectors(parties, LENGTH), "fhe", **terms).until(Step.VECTOR)
    sent = {i: Message.from_bytes(raw).parts[0] for i, raw in session.outbox.items()}
    session.ask_server()
    everybody = list(range(parties))
    for size in range(1, parties):
        first = story(session, sent, everybody, everybody[:size])
        second = story(session, sent, everybody[1:], everybody[size:])
        assert first is None or second is None
    assert (story(session, sent, everybody, everybody) == sum(session.vectors)).all()


def story(session, sent, survivors, told):
    """The sum of these vectors, as the first that is told so decrypts it; None if it does not."""

    def say(step, *parts):
        return write(session.policy, step, SERVER, EVERYONE, parts, session.signers[-1])

    payload = session.server.carrier.total({i: sent[i] for i in survivors})
    with suppress(ProtocolError):
        answers = [take(session.parties[i], say(Step.VECTOR, pack_numbers(survivors))) for i in told]
        consents = [consent for _, consent in answers]
        return take(answers[0][0], say(Step.CONSENT, pack_numbers(survivors), payload, *consents))[0].total
    return None
