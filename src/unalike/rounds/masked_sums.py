"""Sums of a protocol under masks, as real sites would make them: whole numbers arrive as they are, in one trip."""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, Turn
from unalike.rounds.conversation import Layout, added, check_same, layout_of
from unalike.secure import pairwise
from unalike.secure.crypto import primitives
from unalike.secure.errors import TooFewParties
from unalike.secure.policy import new_session

INTRODUCTION = 96
"""Bytes by which a party introduces its key to the others: the key, and the signature of it."""
_BITS = 64


class MaskedSums:
    """How parties add under masks that cancel: keys are exchanged once, each sum has masks of its own.

    The masks are drawn afresh in every process. The sums are exact, so nothing depends on them.
    """

    def __init__(self, parties: int) -> None:
        self._parties = parties
        signers = [primitives.new_secret() for _ in range(parties + 1)]
        self._identities = [primitives.signing_public(signer) for signer in signers]
        secrets, context = [primitives.new_secret() for _ in range(parties)], new_session()
        told = [pairwise.introduction(secret, signers[k], context) for k, secret in enumerate(secrets)]
        known = [pairwise.introduced(raw, self._identities[k], context) for k, raw in enumerate(told)]
        self._keys = [
            {other: pairwise.pair_key(secret, known[other], context) for other in range(parties) if other != own}
            for own, secret in enumerate(secrets)
        ]

    def __call__(self, turn: Turn, parts: Mapping[int, Arrays]) -> Arrays:
        """The sum of what all parties add; who is missing would leave noise."""
        if len(parts) != self._parties:
            raise TooFewParties(
                f"{len(parts)} of {self._parties} parties add in turn {turn.number} of round {turn.round}: under "
                "masks all of them must."
            )
        layouts = {number: layout_of(number, part) for number, part in parts.items()}
        layout = check_same(layouts)
        length = sum(math.prod(shape) for _, shape in layout)
        if not length:
            return added(parts)
        question = repr((turn, layout)).encode()
        policy = pairwise.terms(new_session(), self._identities, length, question, _BITS)
        sent = {}
        for number, part in parts.items():
            vector = np.concatenate([part[name].ravel() for name, _ in layout])
            sent[number] = pairwise.hide(policy, number, self._keys[number], vector.view(np.uint64))
        return _split(pairwise.total(policy, sent), layout)


def _split(vector: NDArray[np.int64], layout: Layout) -> Arrays:
    """The arrays that were joined into one vector."""
    sizes = [math.prod(shape) for _, shape in layout]
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(layout, parts, strict=True)}
