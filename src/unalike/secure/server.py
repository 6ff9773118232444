"""The server's side of a sum: ``start``, then ``step`` with what the parties sent, once for every step.

Whoever carries the messages decides how long a step lasts. Parties that have not sent by then are gone; what they
send later is not handed in. The server holds no secret key and no vector that it could read (except with "none");
with "masks" the sum ends here, as ``ServerState.total``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unalike.secure import keys
from unalike.secure.carrier import Carrier, Vector, check_bound, make_carrier
from unalike.secure.crypto import bfv, primitives, shamir
from unalike.secure.crypto.primitives import KEY_BYTES
from unalike.secure.crypto.shamir import VALUE_BYTES, Share
from unalike.secure.errors import SERVER, ProtocolError, TooFewParties, blame
from unalike.secure.keys import BOX_BYTES, COMMITMENT_BYTES, KEY, SEED, Hello
from unalike.secure.messages import (
    EVERYONE,
    Message,
    Step,
    pack_numbers,
    parts,
    pieces,
    read,
    steps,
    write,
)
from unalike.secure.policy import Policy

Received = Mapping[int, tuple[bytes, Message]]
Answers = Mapping[int, tuple[bytes, ...]] | tuple[bytes, ...]
"""The parts of a message for each party, or of one for everyone."""


@dataclass(frozen=True, eq=False)
class ServerState:
    """What the server knows.

    awaits: the step whose messages come next; None at the end.
    active: the parties that may send in it.
    members: parties that shared their secrets, or all; survivors: those whose vectors are in the sum.
    total: the sum, at the end, where the server can read it ("masks" and "none").
    """

    policy: Policy
    carrier: Carrier = field(repr=False)
    signer: bytes = field(repr=False)
    awaits: Step | None
    active: tuple[int, ...]
    hellos: tuple[bytes, ...] = field(default=(), repr=False)
    publics: Mapping[int, Hello] = field(default_factory=dict, repr=False)
    members: Sequence[int] = ()
    commitments: Mapping[int, Mapping[int, bytes]] = field(default_factory=dict, repr=False)
    survivors: tuple[int, ...] = ()
    payload: bytes = field(default=b"", repr=False)
    total: Vector | None = field(default=None, repr=False)


def start(policy: Policy, *, context: bfv.Context | None = None, signer: bytes = b"") -> ServerState:
    """The server's state before the parties' first messages.

    context: the dealer's public context, None for "none" and "masks". signer: the server's Ed25519 secret key.
    """
    if context is not None and context.can_decrypt:
        raise ProtocolError(SERVER, "was given the secret key. Give it the public context.")
    return ServerState(policy, make_carrier(policy, context), signer, Step.HELLO, tuple(range(policy.parties)))


def step(state: ServerState, received: Sequence[tuple[int, bytes]]) -> tuple[ServerState, dict[int, bytes]]:
    """Take one step's messages, each with the party it came from: the new state, and the answer to each party.

    There is no answer to the last step of "masks": parties are not told the sum.
    """
    policy, now = state.policy, state.awaits
    if now is None:
        raise ProtocolError(received[0][0] if received else None, "sent a message after the end.")
    messages: dict[int, tuple[bytes, Message]] = {}
    for party, raw in sorted(received, key=lambda one: one[0]):
        if party not in state.active:
            raise ProtocolError(party, f"takes no part in the step {now!s}: it is unknown or was gone before.")
        if party in messages:
            raise ProtocolError(party, f"sent two messages in the step {now!s}.")
        messages[party] = raw, read(policy, raw, now, party, SERVER)
    _check_enough(state, now, len(messages))
    order = steps(policy)
    following = None if now is order[-1] else order[order.index(now) + 1]
    take = _TAKE if policy.masked else _TAKE_ENCRYPTED if policy.encrypted else _TAKE_PLAIN
    new, answers = take[now](state, messages)
    new = replace(new, awaits=following, active=tuple(messages))
    if isinstance(answers, tuple):
        one = write(policy, now, SERVER, EVERYONE, answers, state.signer)
        return new, dict.fromkeys(messages, one)
    return new, {to: write(policy, now, SERVER, to, answer, state.signer) for to, answer in answers.items()}


def _check_enough(state: ServerState, now: Step, count: int) -> None:
    if count < state.policy.threshold:
        raise TooFewParties(
            f"Only {count} of {state.policy.parties} parties took the step {now!s}, the threshold is "
            f"{state.policy.threshold}. Start again with those that are there."
        )


def _greet(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Pass all keys on to everyone."""
    publics = {party: Hello.read(message) for party, (_, message) in received.items()}
    for party, hello in publics.items():
        with blame(party):
            primitives.check_public(hello.mask_public)
            primitives.check_public(hello.box_public)
    keys.check_distinct(publics)
    hellos = tuple(raw for raw, _ in received.values())
    return replace(state, hellos=hellos, publics=publics), hellos


def _share(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Deliver every sealed box, and its dealer's commitments, to the party it is for."""
    boxes, commitments = {}, {}
    for dealer, (_, message) in received.items():
        sealed, committed = parts(message, 2)
        others = [party for party in state.publics if party != dealer]
        boxes[dealer] = dict(zip(others, pieces(sealed, len(others), BOX_BYTES, dealer), strict=True))
        each = pieces(committed, len(state.publics), 2 * COMMITMENT_BYTES, dealer)
        commitments[dealer] = dict(zip(state.publics, each, strict=True))
    members = tuple(received)
    answers = {}
    for holder in members:
        dealers = [party for party in members if party != holder]
        sealed = b"".join(boxes[dealer][holder] for dealer in dealers)
        answers[holder] = pack_numbers(members), sealed, b"".join(commitments[d][holder] for d in dealers)
    return replace(state, members=members, commitments=commitments), answers


def _add(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Add the masked vectors; tell everyone whose arrived."""
    payload = state.carrier.total({party: parts(message, 1)[0] for party, (_, message) in received.items()})
    survivors = tuple(received)
    return replace(state, survivors=survivors, payload=payload), (pack_numbers(survivors),)


def _consent(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Pass on as many of the parties' signatures under what they were told as are needed.

    Without masks there is nothing to unmask: the parties get the sum with the signatures, and decrypt it.
    """
    expected = keys.transcript(state.policy, state.hellos, state.members, state.survivors)
    for party, (_, message) in received.items():
        if parts(message, 1) != (expected,):
            raise ProtocolError(party, "signed something else than it was told.")
    consents = tuple(raw for raw, _ in received.values())[: state.policy.threshold]
    if state.policy.masked:
        return state, consents
    return state, (pack_numbers(state.survivors), state.payload, *consents)


def _unmask(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Take the masks that are left away from the sum: one that is encrypted stays so."""
    policy, shares = state.policy, _revealed(state, received)
    correction = policy.ring.elements(np.zeros(policy.width, np.int64))
    survivors = {party: state.publics[party].mask_public for party in state.survivors}
    for dealer in state.members:
        with blame(dealer):
            secret = shamir.reconstruct(shares[dealer], policy.threshold, KEY_BYTES)
        if dealer in survivors:
            if keys.commit_seed(policy, dealer, secret) != state.publics[dealer].seed_commitment:
                raise ProtocolError(dealer, "lies: its shares do not give the seed that it committed to.")
            keys.add_self_mask(policy, correction, dealer, secret)
        else:
            if primitives.agreement_public(secret) != state.publics[dealer].mask_public:
                raise ProtocolError(dealer, "lies: its shares do not give the secret of its public key.")
            # The survivors added mask(j, dealer), which is minus mask(dealer, j).
            keys.add_pairwise_masks(policy, correction, dealer, secret, survivors, minus=True)
    return _result(replace(state, payload=state.carrier.subtract(state.payload, correction)))


def _revealed(state: ServerState, received: Received) -> dict[int, list[Share]]:
    """The shares that were revealed of every member, each checked against its dealer's commitment."""
    shares: dict[int, list[Share]] = {dealer: [] for dealer in state.members}
    for holder, (_, message) in received.items():
        values = pieces(parts(message, 1)[0], len(state.members), VALUE_BYTES, holder)
        for dealer, value in zip(state.members, values, strict=True):
            kind = SEED if dealer in state.survivors else KEY
            promised = state.commitments[dealer][holder][kind * COMMITMENT_BYTES :][:COMMITMENT_BYTES]
            if keys.commit_share(state.policy, dealer, holder, kind, value) != promised:
                raise ProtocolError(holder, f"revealed a share that is not the one it got from party {dealer}.")
            with blame(dealer):
                shares[dealer].append(keys.share_of(holder, value))
    return shares


def _greet_plainly(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Without masks a hello only says who is there."""
    for _, message in received.values():
        parts(message, 0)
    return replace(state, members=range(state.policy.parties)), ()


def _add_plainly(state: ServerState, received: Received) -> tuple[ServerState, Answers]:
    """Add vectors that are no secret, and return the sum."""
    return _result(_add(state, received)[0])


def _result(state: ServerState) -> tuple[ServerState, Answers]:
    """The sum, for whoever may have it."""
    if state.policy.server_learns:
        total = state.carrier.unpack(state.payload)
        check_bound(state.policy, total)
        state = replace(state, total=total)
    return state, (pack_numbers(state.survivors), state.payload) if state.policy.parties_learn else {}


_Take = Callable[[ServerState, Received], tuple[ServerState, Answers]]
_TAKE: dict[Step, _Take] = {
    Step.HELLO: _greet,
    Step.SHARES: _share,
    Step.VECTOR: _add,
    Step.CONSENT: _consent,
    Step.UNMASK: _unmask,
}
_TAKE_ENCRYPTED: dict[Step, _Take] = {Step.HELLO: _greet_plainly, Step.VECTOR: _add, Step.CONSENT: _consent}
_TAKE_PLAIN: dict[Step, _Take] = {Step.HELLO: _greet_plainly, Step.VECTOR: _add_plainly}
