"""Sums of a protocol under masks, as real sites would make them: whole numbers arrive as they are.

``MaskedSums`` are made in one trip, ``SteppedSums`` in five, which bear a party that vanishes once it has added.
"""

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
from unalike.secure.local import secure_sum
from unalike.secure.messages import Step
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
        layout, vectors = _vectors(turn, parts, self._parties)
        length = len(next(iter(vectors.values())))
        if not length:
            return added(parts)
        question = repr((turn, layout)).encode()
        policy = pairwise.terms(new_session(), self._identities, length, question, _BITS)
        sent = {
            number: pairwise.hide(policy, number, self._keys[number], vector.view(np.uint64))
            for number, vector in vectors.items()
        }
        return _split(pairwise.total(policy, sent), layout)


class SteppedSums:
    """The same sums in five steps (``unalike.secure``): all parties' and a server's messages, in one process.

    ``drop_after``: for parties that vanish on the way, the last step that they take part in. A conversation goes
    on only if all have added; who vanishes after that is recovered from the others' shares.
    """

    def __init__(self, parties: int, drop_after: Mapping[int, Step | str] | None = None) -> None:
        self._parties, self._drop_after = parties, dict(drop_after or {})

    def __call__(self, turn: Turn, parts: Mapping[int, Arrays]) -> Arrays:
        """The sum of what all parties add, each of which may use an even part of what 64 bits hold."""
        layout, vectors = _vectors(turn, parts, self._parties)
        ordered = [vectors[number] for number in sorted(vectors)]
        if not len(ordered[0]):
            return added(parts)
        most = 2 ** (_BITS - 1) - 1
        found = secure_sum(ordered, protect="masks", bits=_BITS, bound=most, drop_after=self._drop_after)
        if len(found.survivors) < self._parties:
            missing = sorted(set(range(self._parties)) - set(found.survivors))
            raise TooFewParties(f"Parties {missing} vanished in turn {turn.number} of round {turn.round}.")
        return _split(found.total, layout)


def _vectors(turn: Turn, parts: Mapping[int, Arrays], parties: int) -> tuple[Layout, dict[int, NDArray[np.int64]]]:
    """Names and shapes of what all parties add, and for each its integers as one vector."""
    if len(parts) != parties:
        raise TooFewParties(
            f"{len(parts)} of {parties} parties add in turn {turn.number} of round {turn.round}: under masks all "
            "of them must."
        )
    layout = check_same({number: layout_of(number, part) for number, part in parts.items()})
    empty = np.zeros(0, np.int64)
    return layout, {
        number: np.concatenate([empty, *(part[name].ravel() for name, _ in layout)])
        for number, part in parts.items()
    }


def _split(vector: NDArray[np.int64], layout: Layout) -> Arrays:
    """The arrays that were joined into one vector."""
    sizes = [math.prod(shape) for _, shape in layout]
    parts = np.split(vector, np.cumsum(sizes)[:-1])
    return {name: part.reshape(shape) for (name, shape), part in zip(layout, parts, strict=True)}
