"""Parties and servers that do not keep to the protocol: every case ends in an error that names the culprit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.secure.sessions import SERVER, Session, Step, contexts, steps, take, vectors
from unalike.errors import UserError
from unalike.secure import party, server, tags
from unalike.secure.crypto import bfv
from unalike.secure.crypto.primitives import new_secret
from unalike.secure.errors import ProtocolError
from unalike.secure.messages import EVERYONE, Message, pack_numbers, write
from unalike.secure.policy import new_session

MASKED = list(Step)
LIAR = 2


@pytest.fixture(params=["fhe+masks", "masks"])
def both_kinds_of_masks(request, monkeypatch):
    """Sessions are of the one kind, then of the other."""
    monkeypatch.setattr(Session, "default", request.param)
    return request.param


def refused(session, tamper=lambda step, number, raw: raw, *, names, match):
    with pytest.raises(ProtocolError, match=match) as caught:
        session.run(tamper)
    assert caught.value.party == names
    assert "\n" not in str(caught.value)


def of_liar(at, change):
    """Change what the liar sends in the step ``at``."""
    return lambda step, number, raw: change(raw) if step is at and number == LIAR else raw


def tagged(session, number, vector):
    """The ciphertext of a vector with the tags that belong to it, as only a party can make it."""
    key = tags.tag_key(session.policy, session.secret.shared)
    return session.secret.encrypt(bfv.centred(tags.extended(session.policy, key, number, vector))).to_bytes()


def test_an_honest_session_of_every_mode():
    for protect, knowing in (("none", 5), ("fhe", 4), ("fhe+masks", 4), ("masks", 1)):
        given = vectors(4)
        totals = Session(given, protect).run()
        assert len(totals) == knowing
        assert all((total == sum(given)).all() for total in totals)


@pytest.mark.parametrize("protect", ["fhe+masks", "masks"])
@pytest.mark.parametrize("at", MASKED)
class TestWrongMessages:
    """In every step."""

    def test_truncated(self, at, protect):
        refused(Session(vectors(4), protect), of_liar(at, lambda raw: raw[:-1]), names=LIAR, match="cut short")

    def test_empty(self, at, protect):
        refused(Session(vectors(4), protect), of_liar(at, lambda raw: b""), names=LIAR, match="impossible size")

    def test_changed(self, at, protect):
        def change(raw):
            return raw[:-70] + bytes([raw[-70] ^ 1]) + raw[-69:]

        refused(Session(vectors(4), protect), of_liar(at, change), names=LIAR, match="wrong signature")

    def test_unsigned(self, at, protect):
        refused(
            Session(vectors(4), protect),
            of_liar(at, lambda raw: raw[:-64] + bytes(64)),
            names=LIAR,
            match="signature",
        )

    def test_replayed_from_another_session(self, at, protect):
        other = Session(vectors(4), protect).until(at)
        refused(
            Session(vectors(4), protect),
            of_liar(at, lambda raw: other.outbox[LIAR]),
            names=LIAR,
            match="other session",
        )

    def test_replayed_from_another_step(self, at, protect):
        session = Session(vectors(4), protect)
        first = session.outbox[LIAR]
        later = session.rewrite(LIAR, first, step=Step.UNMASK)
        wrong = later if at is Step.HELLO else first
        refused(session, of_liar(at, lambda raw: wrong), names=LIAR, match="of the step")

    def test_in_the_name_of_another(self, at, protect):
        session = Session(vectors(4), protect).until(at)
        refused(session, of_liar(at, lambda raw: session.outbox[0]), names=LIAR, match="in the name of another")

    def test_meant_for_another(self, at, protect):
        session = Session(vectors(4), protect)
        change = of_liar(at, lambda raw: session.rewrite(LIAR, raw, receiver=1))
        refused(session, change, names=LIAR, match="meant for another")

    def test_of_another_policy(self, at, protect):
        session = Session(vectors(4), protect)
        other = replace(session.policy, bound=9999)
        change = of_liar(at, lambda raw: session.rewrite(LIAR, raw, policy=other))
        refused(session, change, names=LIAR, match="another policy")

    def test_twice(self, at, protect):
        session = Session(vectors(4), protect).until(at)
        with pytest.raises(ProtocolError, match=r"two messages") as caught:
            server.step(session.server, [*session.outbox.items(), (LIAR, session.outbox[LIAR])])
        assert caught.value.party == LIAR

    def test_wrong_parts(self, at, protect):
        for parts in ((), (b"x",), (b"x", b"y"), (b"x" * 32,) * 3, (b"",) * 9):
            session = Session(vectors(4), protect)
            change = of_liar(at, lambda raw, s=session, p=parts: s.rewrite(LIAR, raw, parts=p))
            refused(session, change, names=LIAR, match="Party 2")

    def test_server_messages_changed_on_the_way(self, at, protect):
        session = Session(vectors(4), protect).until(at)
        session.ask_server()
        if not session.answers:
            assert (at, protect) == (Step.UNMASK, "masks")  # the sum ends at the server
            return
        raw = session.answers[1]
        for wrong in (raw[:-1], raw[:-64] + bytes(64), session.outbox[1], b""):
            with pytest.raises(ProtocolError) as caught:
                take(session.parties[1], wrong)
            assert caught.value.party == SERVER


def test_a_party_that_was_gone_or_is_unknown():
    session = Session(vectors(4)).until(Step.SHARES, lambda step, number, raw: None if number == 3 else raw)
    late = session.rewrite(3, session.outbox[0])
    for number in (3, 4, -1):
        with pytest.raises(ProtocolError, match="takes no part") as caught:
            server.step(session.server, [*session.outbox.items(), (number, late)])
        assert caught.value.party == number


@pytest.mark.usefixtures("both_kinds_of_masks")
class TestKeys:
    """Parties that lie about keys and shares."""

    def lying(self, **changes):
        session = Session(vectors(5))
        state = session.parties[LIAR]
        session.parties[LIAR] = replace(state, secrets=replace(state.secrets, **changes))
        return session

    def test_shares_of_another_key_than_advertised(self):
        gone = of_liar(Step.VECTOR, lambda raw: None)
        refused(self.lying(mask_key=new_secret()), gone, names=LIAR, match="secret of its public key")

    def test_shares_of_another_seed_than_committed(self):
        refused(self.lying(seed=new_secret()), names=LIAR, match="seed that it committed to")

    def test_boxes_under_another_key(self):
        refused(self.lying(box_key=new_secret()), names=None, match="Party 2 or the server sent .* does not open")

    def test_a_garbled_box(self):
        session = Session(vectors(4))

        def change(raw):
            boxes, commitments = Message.from_bytes(raw).parts
            return session.rewrite(LIAR, raw, parts=(b"\0" + boxes[1:], commitments))

        refused(session, of_liar(Step.SHARES, change), names=None, match="Party 2 or the server .* does not open")

    def test_other_commitments_than_shares(self):
        session = Session(vectors(4))

        def change(raw):
            boxes, commitments = Message.from_bytes(raw).parts
            return session.rewrite(LIAR, raw, parts=(boxes, bytes(len(commitments))))

        refused(session, of_liar(Step.SHARES, change), names=None, match="Party 2 or the server .* committed to")

    def test_a_wrong_share_is_the_holders_fault(self):
        session = Session(vectors(4))

        def change(raw):
            (shares,) = Message.from_bytes(raw).parts
            return session.rewrite(LIAR, raw, parts=(bytes(33) + shares[33:],))

        refused(session, of_liar(Step.UNMASK, change), names=LIAR, match="not the one it got from party 0")

    def test_a_key_of_low_order(self):
        session = Session(vectors(4))
        for place in (0, 1):

            def change(raw, place=place):
                parts = list(Message.from_bytes(raw).parts)
                parts[place] = bytes(32)
                return session.rewrite(LIAR, raw, parts=parts)

            refused(session, of_liar(Step.HELLO, change), names=LIAR, match="low order")

    def test_a_copied_key(self):
        session = Session(vectors(4))
        mask, box, seed = Message.from_bytes(session.outbox[0]).parts
        other_mask, other_box, _ = Message.from_bytes(session.outbox[LIAR]).parts
        same_number = mask[:31] + bytes([mask[31] ^ 0x80])  # X25519 ignores the top bit
        for copied in ((mask, box), (mask, other_box), (other_mask, mask), (same_number, other_box)):
            change = of_liar(Step.HELLO, lambda raw, two=copied: session.rewrite(LIAR, raw, parts=(*two, seed)))
            refused(session, change, names=None, match="Party 0 and party 2 advertise the same key")
        twice = of_liar(Step.HELLO, lambda raw: session.rewrite(LIAR, raw, parts=(other_box, other_box, seed)))
        refused(session, twice, names=LIAR, match="same key twice")

    def test_consent_to_something_else(self):
        session = Session(vectors(4))
        change = of_liar(Step.CONSENT, lambda raw: session.rewrite(LIAR, raw, parts=(bytes(32),)))
        refused(session, change, names=LIAR, match="something else")


class TestCiphertexts:
    """Vectors that are not what they should be."""

    def sending(self, payload, protect="fhe+masks"):
        session = Session(vectors(4), protect)
        return session, of_liar(Step.VECTOR, lambda raw: session.rewrite(LIAR, raw, parts=(payload(raw),)))

    @pytest.mark.parametrize("protect", ["fhe", "fhe+masks"])
    def test_of_another_key(self, protect):
        foreign = bfv.load(bfv.deal().secret, secret=True).encrypt(np.zeros(5, np.int64)).to_bytes()
        session, tamper = self.sending(lambda raw: foreign, protect)
        refused(session, tamper, names=LIAR, match="another key")

    def test_of_another_key_in_disguise_is_noticed_but_has_no_name(self):
        foreign = bfv.load(bfv.deal().secret, secret=True).encrypt(np.zeros(8, np.int64)).to_bytes()
        session, tamper = self.sending(lambda raw: contexts()[0].fingerprint + foreign[32:])
        refused(session, tamper, names=None, match="one of another key was added")

    @pytest.mark.parametrize("protect", ["none", "fhe", "fhe+masks", "masks"])
    def test_cut_empty_or_too_long(self, protect):
        changes = (lambda payload: b""), (lambda payload: payload[:-9]), (lambda payload: payload + bytes(8))
        for change in changes:
            session, tamper = self.sending(lambda raw, c=change: c(Message.from_bytes(raw).parts[0]), protect)
            refused(session, tamper, names=LIAR, match="Party 2 sent something that is refused")

    @pytest.mark.parametrize("protect", ["none", "fhe"])
    def test_a_sum_beyond_the_bound(self, protect):
        huge = np.full(5, 1_000_000)
        session, tamper = self.sending(
            lambda raw: huge.tobytes() if protect == "none" else tagged(session, LIAR, huge), protect
        )
        refused(session, tamper, names=None, match="exceeds the agreed bound 10000")


@pytest.mark.usefixtures("both_kinds_of_masks")
class TestServer:
    """A server that lies."""

    def say(self, session, step, *parts):
        return write(session.policy, step, SERVER, EVERYONE, parts, session.signers[-1])

    def blamed(self, state, raw, match):
        with pytest.raises(ProtocolError, match=match) as caught:
            take(state, raw)
        assert caught.value.party == SERVER

    def test_different_survivors_for_different_parties(self):
        """The reason for consents: shares of both kinds for party 4 would bare its vector."""
        session = Session(vectors(5)).until(Step.VECTOR)
        session.ask_server()
        everyone, fewer = (
            self.say(session, Step.VECTOR, pack_numbers(who)) for who in ([0, 1, 2, 3, 4], [0, 1, 2, 3])
        )
        told = [take(session.parties[i], fewer if i < 2 else everyone) for i in range(4)]
        mixed = self.say(session, Step.CONSENT, *(consent for _, consent in told))
        for i, (state, _) in enumerate(told):
            self.blamed(state, mixed, "different things")
            own_side = [consent for _, consent in (told[:2] if i < 2 else told[2:])]
            self.blamed(state, self.say(session, Step.CONSENT, *own_side), "2 consents; 4 are needed")
            repeated = self.say(session, Step.CONSENT, *own_side, *own_side)
            self.blamed(state, repeated, "out of order, or twice")

    def test_a_second_question_gets_no_answer(self):
        session = Session(vectors(5)).until(Step.UNMASK)
        consents = next(iter(session.answers.values()))
        state = session.parties[0]
        assert state.held == {}
        refusal = "after the end" if Session.default == "masks" else "of the step (consent|vector) in the step"
        self.blamed(state, consents, refusal)
        self.blamed(state, self.say(session, Step.VECTOR, pack_numbers([0, 1, 2, 3])), refusal)

    def test_each_party_reveals_one_kind_of_share(self):
        gone = of_liar(Step.VECTOR, lambda raw: None)
        session = Session(vectors(5)).until(Step.CONSENT, gone)
        held = session.parties[0].held
        session.until(Step.UNMASK)
        (revealed,) = Message.from_bytes(session.outbox[0]).parts
        kinds = [0, 0, 1, 0, 0]  # the seed of those that are there, the key of the one that is gone
        assert revealed == b"".join(held[i][kind] for i, kind in enumerate(kinds))
        assert not any(held[i][1 - kind] in revealed for i, kind in enumerate(kinds))

    def test_survivors_that_cannot_be(self):
        session = Session(vectors(5)).until(Step.VECTOR, lambda s, n, raw: None if n == 4 else raw)
        session.ask_server()
        for who, match in (
            ([0, 1, 2, 3, 4], "shared no secrets"),
            ([1, 2, 3], "goes on with 3"),
            ([0, 1, 2], "goes on with 3 parties; the threshold is 4"),
            ([0, 1, 2, 2, 3], "out of order"),
            ([0, 1, 2, 9], "names others"),
            ([], "goes on with 0"),
        ):
            self.blamed(session.parties[0], self.say(session, Step.VECTOR, pack_numbers(who)), match)
        self.blamed(session.parties[0], self.say(session, Step.VECTOR, b"abc"), "malformed list")

    def test_leaving_a_party_out_of_what_it_is_told(self):
        session = Session(vectors(5)).until(Step.VECTOR)
        session.ask_server()
        self.blamed(
            session.parties[0], self.say(session, Step.VECTOR, pack_numbers([1, 2, 3, 4])), "leaves ours out"
        )

    def test_too_few_or_foreign_keys(self):
        session = Session(vectors(5))
        hellos = list(session.outbox.values())
        for passed in (hellos[:3], hellos[1:], [*hellos, hellos[0]], [*hellos[:4], b"junk"]):
            self.blamed(session.parties[0], self.say(session, Step.HELLO, *passed), "passed on")
        forged = session.rewrite(4, hellos[4], parts=[new_secret()] * 3)
        wrong = forged[:-64] + hellos[4][-64:]
        match = "passed on, as party 4's, a message with a wrong signature"
        self.blamed(session.parties[0], self.say(session, Step.HELLO, *hellos[:4], wrong), match)
        replayed = Session(vectors(5)).outbox[4]
        match = "passed on, as party 4's, a message of another session"
        self.blamed(session.parties[0], self.say(session, Step.HELLO, *hellos[:4], replayed), match)
        copied = session.rewrite(4, hellos[4], parts=Message.from_bytes(hellos[3]).parts)
        with pytest.raises(ProtocolError, match="Party 3 and party 4 advertise the same key") as caught:
            take(session.parties[0], self.say(session, Step.HELLO, *hellos[:4], copied))
        assert caught.value.party is None
        short = session.rewrite(4, hellos[4], parts=[b"x"] * 3)  # this party 4 did sign
        with pytest.raises(ProtocolError, match="keys of a wrong size") as caught:
            take(session.parties[0], self.say(session, Step.HELLO, *hellos[:4], short))
        assert caught.value.party == 4
        other = session.rewrite(0, hellos[0], parts=[new_secret()] * 3)
        self.blamed(session.parties[0], self.say(session, Step.HELLO, other, *hellos[1:]), "not ours")

    @pytest.mark.parametrize("place", [1, 2])
    def test_changed_boxes_or_commitments_are_not_the_partys_fault(self, place):
        session = Session(vectors(4)).until(Step.SHARES)
        session.ask_server()
        parts = list(Message.from_bytes(session.answers[0]).parts)
        parts[place] = parts[place][:90] + bytes([parts[place][90] ^ 1]) + parts[place][91:]
        with pytest.raises(ProtocolError, match="Party 2 or the server sent") as caught:
            take(session.parties[0], self.say(session, Step.SHARES, *parts))
        assert caught.value.party is None

    def test_a_forged_consent(self):
        session = Session(vectors(4)).until(Step.CONSENT)
        session.ask_server()
        consents = list(Message.from_bytes(session.answers[0]).parts)
        consents[2] = consents[2][:-1] + bytes([consents[2][-1] ^ 1])
        match = "passed on, as party 2's, a message with a wrong signature"
        self.blamed(session.parties[0], self.say(session, Step.CONSENT, *consents), match)

    def test_a_sum_of_others_than_agreed(self):
        session = Session(vectors(5), "fhe+masks").until(Step.UNMASK)
        session.ask_server()
        _, payload = Message.from_bytes(session.answers[0]).parts
        wrong = self.say(session, Step.UNMASK, pack_numbers([0, 1, 2, 3]), payload)
        self.blamed(session.parties[0], wrong, "other parties than agreed")

    def test_nothing_comes_after_the_end(self):
        session = Session(vectors(4))
        session.run()
        self.blamed(session.parties[0], self.say(session, Step.UNMASK), "after the end")
        with pytest.raises(ProtocolError, match="after the end"):
            server.step(session.server, list(session.outbox.items()) or [(0, b"")])

    def test_the_server_refuses_the_secret_key(self):
        session = Session(vectors(4))
        with pytest.raises(ProtocolError, match="given the secret key"):
            server.start(session.policy, context=contexts()[1])


def test_states_forget_what_they_no_longer_need():
    session = Session(vectors(4)).until(Step.VECTOR)
    state = session.parties[0]
    assert state.secrets is None
    assert "secret" not in repr(state).replace("secrets=", "")


@pytest.mark.parametrize(
    ("protect", "at"),
    [("fhe+masks", at) for at in (Step.HELLO, Step.VECTOR, Step.CONSENT)]
    + [("masks", at) for at in (Step.HELLO, Step.SHARES, Step.VECTOR, Step.CONSENT)],
)
def test_the_same_state_and_message_give_the_same_answer(protect, at):
    """Pure steps, all but encryption, whose randomness is its own. No box is sealed twice with other content."""
    session = Session(vectors(4), protect).until(at)
    before = session.parties[0]
    session.ask_server()
    first, second = (take(before, session.answers[0])[1] for _ in range(2))
    assert first == second
    assert before.awaits is at


def test_shares_stay_the_same_whoever_is_said_to_be_there():
    """The server cannot get two boxes with different content under one key by telling different stories."""
    session = Session(vectors(4))
    secrets = session.parties[0].secrets
    all_of_them = secrets.shares(session.policy, (0, 1, 2, 3))
    assert secrets.shares(session.policy, (0, 1, 3)) == {k: all_of_them[k] for k in (0, 1, 3)}
    assert len({value for pair in all_of_them.values() for value in pair}) == 8
    other = replace(session.policy, session=new_session())
    assert secrets.shares(other, (0, 1, 2, 3)) != all_of_them


@pytest.mark.parametrize("protect", ["none", "fhe", "fhe+masks", "masks"])
def test_the_vector_is_given_where_it_is_sent(protect):
    session = Session(vectors(4), protect)
    ready = list(Step)[list(steps(session.policy)).index(Step.VECTOR) - 1]
    session.until(ready)
    session.ask_server()
    state, raw, good = session.parties[0], session.answers[0], session.vectors[0]
    assert state.needs_vector
    for vector, match in (
        (None, "vector is needed now"),
        (np.zeros(4, np.int64), "must be 5 int64"),
        (np.zeros(5), "must be 5 int64, got float64"),
        (np.zeros((5, 1), np.int64), "must be 5 int64"),
        ([0] * 5, "must be 5 int64, got list"),
        (np.full(5, 2501), "exceeds 2500, its part of the agreed bound 10000"),
        (np.full(5, -2501), "exceeds 2500"),
        (np.full(5, np.iinfo(np.int64).min), "its part of the agreed bound"),
    ):
        with pytest.raises(UserError, match=match):
            party.step(state, raw, vector)
    sent = party.step(state, raw, good)[0]
    assert not sent.needs_vector
    with pytest.raises(UserError, match="needed not now"):
        party.step(sent, raw, good)


def test_party_arguments():
    session = Session(vectors(4))
    keywords = {"context": contexts()[1], "signer": session.signers[0]}
    with pytest.raises(UserError, match=r"number must be in 0\.\.3"):
        party.start(session.policy, 4, **keywords)
    foreign = bfv.load(bfv.deal().secret, secret=True)
    with pytest.raises(UserError, match="not those of the policy"):
        party.start(session.policy, 0, context=foreign)
    for change in ({"session": b""}, {"identities": ()}, {"identities": (bytes(32),) * 5}, {"length": 0}):
        with pytest.raises(UserError):
            replace(session.policy, **change)
    assert replace(session.policy, session=new_session()).digest != session.policy.digest
