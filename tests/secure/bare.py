"""What an attacker makes of a masked vector once it has all secrets of the party that sent it."""

from unalike.secure import keys
from unalike.secure.crypto import bfv


def unmasked(policy, masked, number, seed, mask_key, publics):
    """The bare vector of a party, for whoever has all its secrets: what nobody but itself may have."""
    bare = masked.copy()
    keys.add_self_mask(policy, bare, number, seed, minus=True)
    others = {other: public for other, public in publics.items() if other != number}
    keys.add_pairwise_masks(policy, bare, number, mask_key, others, minus=True)
    return policy.ring.integers(bare) if policy.bits else bfv.centred(bare)
