"""What the label holder of ``secureboost`` has to encrypt for a tree: derivatives, by keys of the tree's own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from unalike.algorithms.protocol import Arrays, Me, Turn
from unalike.algorithms.trees.own_rows import drawn_rows, objective_in, training_labels
from unalike.algorithms.vertical.boost_rows import (
    MOST_BYTES,
    Sealing,
    allowed_here,
    code_of,
    remember_last,
    rows_by_bin,
)
from unalike.secure.crypto.additive import Ciphers, SecretKeys, encrypt, make_keys
from unalike.trees.split import channels_of


@dataclass(frozen=True, eq=False)
class SealedTrees:
    """The label holder's derivatives in one turn; trees of the round look at columns of ``owners``."""

    me: Me
    turn: Turn
    sealing: Sealing
    owners: tuple[int, ...]
    outputs: int

    @property
    def hosts(self) -> list[int]:
        """The other parties that take part in the round."""
        return [party for party in self.owners if party != self.me.number]

    def number(self, k: int) -> int:
        """The number of the round's tree for one output, among all trees."""
        return (self.turn.round - 1) * self.outputs + k

    def gradients(self, state: Arrays) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
        """Derivatives of all rows that are followed, [outputs, rows]: 0 for those of validation."""

        def make() -> tuple[NDArray[np.int32], NDArray[np.int32]]:
            g, h = objective_in(self.me.terms).gradients(state["margins"], training_labels(self.me))
            behind = ((0, 0), (0, rows_by_bin(self.me, state).rows - g.shape[1]))
            return np.pad(g, behind), np.pad(h, behind)

        return remember_last(self.me, "derivatives", (self.turn.round,), make)

    def drawn(self, state: Arrays) -> NDArray[np.bool_]:
        """Which rows the round's trees are grown on."""
        drawn = drawn_rows(self.me, self.turn.round)
        found = np.zeros(rows_by_bin(self.me, state).rows, bool)
        found[np.arange(drawn) if isinstance(drawn, int) else drawn] = True
        return found

    def allowed(self, k: int) -> NDArray[np.bool_]:
        """Own columns that a tree may split on."""
        allowed = allowed_here(self.me.terms, self.me.number, self.number(k))
        return allowed if self.me.number in self.owners else np.zeros_like(allowed)

    def keys(self, k: int) -> SecretKeys:
        """The keys of one tree, made when it begins."""
        place = (self.turn.round, k)
        secret = self.me.secret("keys of a tree", *place)
        return remember_last(self.me, "keys", place, lambda: make_keys(secret, *vars(self.sealing).values()))

    def total(self, state: Arrays, k: int) -> NDArray[np.int64]:
        """The sums over all rows that a tree is grown on."""
        (g, h), drawn = self.gradients(state), self.drawn(state)
        sums = [g[k][drawn].sum(dtype=np.int64), h[k][drawn].sum(dtype=np.int64), drawn.sum()]
        return np.array(sums[: channels_of(self.me.terms.model)], np.int64)

    def ciphers(self, state: Arrays, k: int) -> Ciphers:
        """The derivatives of the rows that a tree is grown on, encrypted."""

        def make() -> Ciphers:
            (g, h), drawn = self.gradients(state), self.drawn(state)
            numbers = code_of(self.me).coded(g[k][drawn], h[k][drawn])
            return encrypt(self.keys(k), numbers, self.me.secret("sealed rows", self.turn.round, k))

        return remember_last(self.me, "ciphers", (self.turn.round, k), make)

    def encrypted_sums(self, keys: SecretKeys, sums: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Sums of whole nodes, for others to subtract from."""
        secret = self.me.secret("sealed sums", self.turn.round, self.turn.number)
        return encrypt(keys, code_of(self.me).coded(sums[:, 0], sums[:, 1]), secret).to_array()

    def at_once(self, keys: SecretKeys) -> int:
        """How many ciphertexts go to each of the others in one turn."""
        return max(1, MOST_BYTES // keys.public.width // len(self.hosts))
