"""What masks need on both sides: keys, commitments to shares, and sealed boxes that carry them.

A party has two X25519 key pairs: the *mask* key, whose secret is shared among the others in case the party
vanishes, and the *box* key, which delivers shares and is never revealed. Its own mask comes from a *seed*, which
is shared too. Commitments are SHA-256 of values with 256 random bits. They tell a holder that reveals a wrong
share from a dealer that handed out wrong ones.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

from unalike.secure.crypto import masks, primitives, shamir
from unalike.secure.crypto.masks import Elements
from unalike.secure.crypto.shamir import VALUE_BYTES, Share
from unalike.secure.errors import ProtocolError, blame
from unalike.secure.messages import Message, pack_numbers, parts
from unalike.secure.policy import Policy

BOX_BYTES = 2 * VALUE_BYTES + primitives.TAG_BYTES
COMMITMENT_BYTES = 32
Pair = tuple[bytes, bytes]
SEED, KEY = 0, 1
"""The two kinds of share: of a party's seed, and of its mask key."""


@dataclass(frozen=True)
class Hello:
    """What a party tells the others before a sum: its public keys, and a commitment to its seed."""

    mask_public: bytes
    box_public: bytes
    seed_commitment: bytes

    @staticmethod
    def read(message: Message) -> Hello:
        """What a party tells in its message; keys of a wrong size are refused."""
        hello = Hello(*parts(message, 3))
        if {len(part) for part in message.parts} != {primitives.KEY_BYTES}:
            raise ProtocolError(message.sender, "advertises keys of a wrong size.")
        return hello

    def parts(self) -> tuple[bytes, ...]:
        """The same as the parts that a message is made of."""
        return self.mask_public, self.box_public, self.seed_commitment


@dataclass(frozen=True)
class Secrets:
    """What a party keeps to itself: made anew for every sum."""

    mask_key: bytes = field(default_factory=primitives.new_secret, repr=False)
    box_key: bytes = field(default_factory=primitives.new_secret, repr=False)
    seed: bytes = field(default_factory=primitives.new_secret, repr=False)
    sharing: bytes = field(default_factory=primitives.new_secret, repr=False)

    def shares(self, policy: Policy, holders: Sequence[int]) -> dict[int, Pair]:
        """For each holder its share of the seed and of the mask key.

        They come from the secret ``sharing`` alone: whoever asks twice is told the same, and a box that is sealed
        twice under the same key and nonce has the same content.
        """
        points, found = [party + 1 for party in holders], []
        for name, secret in ((b"seed", self.seed), (b"key", self.mask_key)):
            draw = primitives.below(primitives.derive(self.sharing, b"polynomial " + name + policy.digest))
            found.append([share.values for share in shamir.split(secret, policy.threshold, points, draw)])
        return dict(zip(holders, zip(*found, strict=True), strict=True))

    def hello(self, policy: Policy, party: int) -> Hello:
        """What the others may know of these secrets: public keys, and a commitment to the seed."""
        publics = primitives.agreement_public(self.mask_key), primitives.agreement_public(self.box_key)
        return Hello(*publics, commit_seed(policy, party, self.seed))


def check_distinct(hellos: Mapping[int, Hello]) -> None:
    """No two keys may be equal: whoever copies another's key is after something. Nobody can tell who copied."""
    seen: dict[int, int] = {}
    for party, hello in hellos.items():
        for public in map(primitives.public_number, (hello.mask_public, hello.box_public)):
            first = seen.setdefault(public, party)
            if first != party:
                what = "advertise the same key: one of them copied it."
                raise ProtocolError(None, what, who=f"Party {first} and party {party}")
        if len({primitives.public_number(key) for key in (hello.mask_public, hello.box_public)}) < 2:
            raise ProtocolError(party, "advertises the same key twice.")


def commit_seed(policy: Policy, party: int, seed: bytes) -> bytes:
    """The commitment of a party to its seed."""
    return sha256(b"seed" + policy.digest + pack_numbers([party]) + seed).digest()


def commit_share(policy: Policy, dealer: int, holder: int, kind: int, values: bytes) -> bytes:
    """The commitment of a dealer to the share it gives to a holder."""
    return sha256(b"share" + policy.digest + pack_numbers([dealer, holder, kind]) + values).digest()


def box_keys(policy: Policy, party: int, secret: bytes, hellos: Mapping[int, Hello]) -> dict[int, Pair]:
    """The keys for boxes to and from every other party."""
    agree = primitives.agreement(secret)
    keys = {}
    for other, hello in hellos.items():
        if other != party:
            with blame(other):
                shared = agree(hello.box_public)
            to_other = masks.direction_key(shared, b"box", policy.digest, party, other)
            keys[other] = to_other, masks.direction_key(shared, b"box", policy.digest, other, party)
    return keys


def box_context(policy: Policy, dealer: int, holder: int) -> bytes:
    """What a box is bound to."""
    return policy.digest + pack_numbers([dealer, holder])


def share_of(holder: int, values: bytes) -> Share:
    """A share of the party with the number ``holder``, at the point ``holder + 1``."""
    return Share(holder + 1, values)


def add_pairwise_masks(
    policy: Policy,
    total: Elements,
    party: int,
    secret: bytes,
    publics: Mapping[int, bytes],
    *,
    minus: bool = False,
) -> None:
    """Add a party's masks with others, from its mask key and theirs, to ``total`` in place, or take them away."""
    agree = primitives.agreement(secret)
    seeds = {}
    for other, public in publics.items():
        with blame(other):
            seeds[other] = masks.pair_seed(agree(public), b"mask", policy.digest, party, other)
    masks.add_pairwise(policy.ring, total, party, seeds, minus=minus)


def add_self_mask(policy: Policy, total: Elements, party: int, seed: bytes, *, minus: bool = False) -> None:
    """Add a party's own mask, from its seed, to ``total`` in place, or take it away."""
    key = masks.pair_seed(seed, b"self", policy.digest, party, party)
    policy.ring.add(total, key, minus=minus)


def transcript(policy: Policy, hellos: Sequence[bytes], members: Sequence[int], survivors: Sequence[int]) -> bytes:
    """The digest of all that parties must have been told alike: keys, who shared, whose vectors are in the sum."""
    digest = sha256(b"transcript" + policy.digest)
    for part in (*hellos, pack_numbers(members), pack_numbers(survivors)):
        digest.update(sha256(part).digest())
    return digest.digest()
