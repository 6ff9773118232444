"""A party's side of a sum: ``start``, then ``step`` for every message of the server.

The vector is needed only at the step that sends it (``PartyState.needs_vector``): in a round of training it does
not exist before, and whoever shared secrets and then fails to train is one that dropped out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unalike.errors import UserError
from unalike.secure import keys, tags
from unalike.secure.carrier import Carrier, Vector, check_bound, largest, make_carrier
from unalike.secure.crypto import bfv
from unalike.secure.crypto.primitives import seal, unseal
from unalike.secure.crypto.shamir import VALUE_BYTES
from unalike.secure.errors import SERVER, ProtocolError, blame, or_server
from unalike.secure.keys import BOX_BYTES, COMMITMENT_BYTES, KEY, SEED, Hello, Pair, Secrets
from unalike.secure.messages import (
    Message,
    Step,
    parts,
    pieces,
    read,
    read_relayed,
    steps,
    unpack_numbers,
    write,
)
from unalike.secure.policy import Policy


@dataclass(frozen=True, eq=False)
class PartyState:
    """What a party knows. A state is used for ONE step: keep the new one, and never answer twice from an old one.

    awaits: the step that the server's next message must answer; None at the end.
    tag_key: what tags are made with (``tags``).
    members: parties that shared their secrets, or all where there are none to share; ``held`` are their shares, of
    seed and key.
    survivors: parties whose vectors are in the sum, as this party signed.
    total: the sum, in the end; None where it ends at the server.
    """

    policy: Policy
    number: int
    carrier: Carrier = field(repr=False)
    signer: bytes = field(repr=False)
    awaits: Step | None = Step.HELLO
    tag_key: bytes = field(default=b"", repr=False)
    secrets: Secrets | None = field(default=None, repr=False)
    hello: bytes = field(default=b"", repr=False)
    hellos: tuple[bytes, ...] = field(default=(), repr=False)
    publics: Mapping[int, Hello] = field(default_factory=dict, repr=False)
    boxes: Mapping[int, Pair] = field(default_factory=dict, repr=False)
    members: Sequence[int] = ()
    held: Mapping[int, Pair] = field(default_factory=dict, repr=False)
    survivors: tuple[int, ...] = ()
    total: Vector | None = field(default=None, repr=False)

    @property
    def needs_vector(self) -> bool:
        """Whether the next step sends the vector, so that ``step`` must be given it."""
        return self.awaits is steps(self.policy)[steps(self.policy).index(Step.VECTOR) - 1]


def start(
    policy: Policy, number: int, *, context: bfv.Context | None = None, signer: bytes = b""
) -> tuple[PartyState, bytes]:
    """The state of a party, and its first message.

    context: the dealer's secret context, None for "none" and "masks". signer: the party's Ed25519 secret key.
    """
    if not 0 <= number < policy.parties:
        raise UserError(f"The party's number must be in 0..{policy.parties - 1}, got {number}.")
    carrier = make_carrier(policy, context)
    key = tags.tag_key(policy, context.shared) if policy.encrypted and context is not None else b""
    state = PartyState(policy, number, carrier, signer, tag_key=key)
    if not policy.masked:
        return state, _say(state, Step.HELLO)
    own = Secrets()
    hello = _say(state, Step.HELLO, *own.hello(policy, number).parts())
    return replace(state, secrets=own, hello=hello), hello


def step(state: PartyState, raw: bytes, vector: Vector | None = None) -> tuple[PartyState, bytes | None]:
    """Take the server's answer to the last step: the new state, and the next message if there is one.

    vector: int64, to be given just when ``state.needs_vector``. A vector that is refused may be mended and given
    again; once there was an answer, the state is used up: two vectors under the same masks tell their difference.
    """
    if state.awaits is None:
        raise ProtocolError(SERVER, "sent a message after the end.")
    if (vector is not None) != state.needs_vector:
        when = "now" if vector is None else "not now"
        raise UserError(f"Party {state.number}'s vector is needed {when}. See PartyState.needs_vector.")
    message = read(state.policy, raw, state.awaits, SERVER, state.number)
    order = steps(state.policy)
    if state.awaits is order[-1]:
        return _finish(state, message), None
    following = order[order.index(state.awaits) + 1]
    if vector is not None:
        content = _content(state, vector)
        new, answer = (_shared if state.policy.masked else _greeted_plainly)(state, message, content)
    else:
        new, answer = _TAKE[state.awaits](state, message)
    ended = following is order[-1] and not state.policy.parties_learn
    return replace(new, awaits=None if ended else following), _say(state, following, *answer)


def _content(state: PartyState, vector: Vector) -> Vector:
    """The vector as it is added: checked, with its tags."""
    policy, own = state.policy, state.number
    if not isinstance(vector, np.ndarray) or vector.dtype != np.int64 or vector.shape != (policy.length,):
        got = f"{vector.dtype} {vector.shape}" if isinstance(vector, np.ndarray) else type(vector).__name__
        raise UserError(f"Party {own}'s vector must be {policy.length} int64, got {got}.")
    if largest(vector) > policy.most:
        raise UserError(
            f"Party {own}'s vector exceeds {policy.most}, its part of the agreed bound {policy.bound}. "
            "Agree on a larger one, or scale values down."
        )
    return tags.extended(policy, state.tag_key, own, vector) if state.tag_key else vector


def _greeted_plainly(state: PartyState, message: Message, vector: Vector) -> tuple[PartyState, tuple[bytes, ...]]:
    """Everybody is there: send the vector, without masks."""
    parts(message, 0)
    return replace(state, members=range(state.policy.parties)), (state.carrier.pack(vector),)


def _greeted(state: PartyState, message: Message) -> tuple[PartyState, tuple[bytes, ...]]:
    """All keys are known: share the own seed and mask key, a sealed box for each other party."""
    policy, own = state.policy, state.number
    assert state.secrets is not None
    hellos = read_relayed(policy, message.parts, Step.HELLO)
    publics = {party: Hello.read(hello) for party, hello in hellos.items()}
    if own not in hellos or state.hello not in message.parts or len(hellos) < policy.threshold:
        raise ProtocolError(
            SERVER, f"passed on {len(hellos)} keys, or not ours; at least {policy.threshold} belong."
        )
    keys.check_distinct(publics)
    boxes = keys.box_keys(policy, own, state.secrets.box_key, publics)
    pairs = state.secrets.shares(policy, tuple(publics))
    sealed = b"".join(
        seal(key, b"".join(pairs[party]), keys.box_context(policy, own, party))
        for party, (key, _) in boxes.items()
    )
    commitments = b"".join(
        keys.commit_share(policy, own, party, kind, pairs[party][kind]) for party in pairs for kind in (SEED, KEY)
    )
    new = replace(state, hellos=message.parts, publics=publics, boxes=boxes, held={own: pairs[own]})
    return new, (sealed, commitments)


def _shared(state: PartyState, message: Message, vector: Vector) -> tuple[PartyState, tuple[bytes, ...]]:
    """All shares are here: open the boxes, mask the vector, encrypt it if that is asked for."""
    policy, own = state.policy, state.number
    assert state.secrets is not None
    numbers, sealed, commitments = parts(message, 3)
    members = unpack_numbers(numbers, policy, SERVER)
    others = [party for party in members if party != own]
    if own not in members or not set(members) <= set(state.publics):
        raise ProtocolError(SERVER, "counts parties that sent no keys, or leaves us out.")
    held = dict(state.held)
    committed = pieces(commitments, len(others), 2 * COMMITMENT_BYTES, SERVER)
    for party, box, promised in zip(
        others, pieces(sealed, len(others), BOX_BYTES, SERVER), committed, strict=True
    ):
        with blame(None, or_server(party)):  # boxes and commitments are not signed by the party
            content = unseal(state.boxes[party][1], box, keys.box_context(policy, party, own))
            pair = content[:VALUE_BYTES], content[VALUE_BYTES:]
            for values in pair:
                keys.share_of(own, values)
        if b"".join(keys.commit_share(policy, party, own, kind, pair[kind]) for kind in (SEED, KEY)) != promised:
            raise ProtocolError(None, "sent shares other than those committed to.", who=or_server(party))
        held[party] = pair
    publics = {party: state.publics[party].mask_public for party in others}
    masked = policy.ring.elements(vector)
    keys.add_pairwise_masks(policy, masked, own, state.secrets.mask_key, publics)
    keys.add_self_mask(policy, masked, own, state.secrets.seed)
    # The secrets are not needed any more: forget them.
    return replace(state, members=members, held=held, secrets=None, boxes={}), (state.carrier.pack(masked),)


def _counted(state: PartyState, message: Message) -> tuple[PartyState, tuple[bytes, ...]]:
    """The server says whose vectors arrived: sign what we were told, once."""
    (numbers,) = parts(message, 1)
    survivors = unpack_numbers(numbers, state.policy, SERVER)
    if state.number not in survivors or not set(survivors) <= set(state.members):
        raise ProtocolError(SERVER, "counts vectors of parties that shared no secrets, or leaves ours out.")
    return replace(state, survivors=survivors), (_transcript(state, survivors),)


def _agreed(state: PartyState, message: Message) -> tuple[PartyState, tuple[bytes, ...]]:
    """Enough parties signed the same: reveal ONE kind of share of each party, the seed's if its vector came."""
    _check_consents(state, message.parts)
    kinds = {party: SEED if party in state.survivors else KEY for party in state.members}
    return replace(state, held={}), (b"".join(state.held[party][kind] for party, kind in kinds.items()),)


def _check_consents(state: PartyState, raws: Sequence[bytes]) -> None:
    """So many parties as the threshold must have signed what this one did."""
    consents = read_relayed(state.policy, raws, Step.CONSENT)
    expected = _transcript(state, state.survivors)
    for party, consent in consents.items():
        if party not in state.survivors or parts(consent, 1) != (expected,):
            raise ProtocolError(SERVER, f"told party {party} and party {state.number} different things.")
    if len(consents) < state.policy.threshold:
        raise ProtocolError(SERVER, f"shows {len(consents)} consents; {state.policy.threshold} are needed.")


def _finish(state: PartyState, message: Message) -> PartyState:
    """Decrypt the sum, and check it against the agreed bound.

    Where this is the answer to the own consent, the others' come with it: nothing is decrypted without them.
    """
    consents = message.parts[2:] if state.awaits is Step.CONSENT else ()
    numbers, payload = parts(message, 2 + len(consents))[:2]
    if state.awaits is Step.CONSENT:
        _check_consents(state, consents)
    survivors = unpack_numbers(numbers, state.policy, SERVER)
    if state.number not in survivors or (state.survivors and survivors != state.survivors):
        raise ProtocolError(SERVER, "returns a sum of other parties than agreed.")
    with blame(None):
        total = state.carrier.unpack(payload)
    if state.tag_key:
        total = tags.checked(state.policy, state.tag_key, survivors, total)
    check_bound(state.policy, total)
    return replace(state, awaits=None, survivors=survivors, total=total)


def _transcript(state: PartyState, survivors: tuple[int, ...]) -> bytes:
    return keys.transcript(state.policy, state.hellos, state.members, survivors)


def _say(state: PartyState, step: Step, *content: bytes) -> bytes:
    return write(state.policy, step, state.number, SERVER, content, state.signer)


_TAKE: dict[Step, Callable[[PartyState, Message], tuple[PartyState, tuple[bytes, ...]]]] = {
    Step.HELLO: _greeted,
    Step.VECTOR: _counted,
    Step.CONSENT: _agreed,
}
