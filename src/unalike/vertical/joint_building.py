"""How a tree is built from one party's own histograms and others' sums of unnamed candidates: the same tree.

The label holder knows its own columns by bin, and of every other party the sums of rows that each candidate
would send left, under numbers that only that party can read.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from unalike.models.trees import Trees
from unalike.trees.building import Building
from unalike.trees.cuts import Arrays, Cuts
from unalike.trees.split import LEAST_GAIN, best_splits, gains_of


class JointBuilding(Building):
    """A tree while it is built from all parties' columns, in party order.

    What is kept of a node has the slots of own columns first, then the candidates of each party. A node that is
    split by party k has ``feature`` = own columns + k. Where a candidate of another party is best, :attr:`tied`
    has all that are as good, int32 [candidates, 4]: node, party, number, and which of them have equal sums. That
    party knows which is to be preferred, and :meth:`choose` takes its word.
    """

    def __init__(
        self,
        cuts: Cuts,
        settings: Trees,
        allowed: NDArray[np.bool_],
        party: int,
        candidates: Sequence[int],
    ) -> None:
        super().__init__(cuts, settings, allowed)
        self.signs = np.zeros(cuts.features + len(candidates), np.int8)
        self.party = party
        self.begins = cuts.slots + np.concatenate([[0], np.cumsum(candidates)]).astype(np.int64)
        self.tied = np.zeros((0, 4), np.int32)

    def owner(self, node: int) -> int:
        """Whose column the best split of a node is on; -1 where it has none."""
        feature = int(self.found_feature[node])
        return (
            feature - self.cuts.features if feature >= self.cuts.features else self.party if feature >= 0 else -1
        )

    def choose(self, node: int, candidate: int) -> None:
        """Take the candidate that its party has chosen among the tied."""
        self.found_left[node] = self.hist[node][self.begins[self.owner(node)] + candidate]

    def beyond(self) -> tuple[int, int] | None:
        """A party and a node where its sums of second derivatives, or of rows, are below none or above all."""
        for node, hist in sorted(self.hist.items()):
            part = hist[self.begins[0] :, 1:]
            wrong = ((part < 0) | (part > self.sums[node, 1:])).any(axis=1)
            if wrong.any():
                place = int(np.argmax(wrong)) + int(self.begins[0])
                return int(np.searchsorted(self.begins, place, side="right")) - 1, node
        return None

    def _threshold(self, feature: int, bin: int) -> np.float32:
        return super()._threshold(feature, bin) if feature < self.cuts.features else np.float32(0)

    def _find(self, nodes: list[int]) -> None:
        at = np.array(nodes, np.int64)
        self.tied = np.zeros((0, 4), np.int32)
        if not nodes:
            return
        stacked = np.stack([self.hist[node] for node in nodes])
        self.found_feature[at], self.found_gain[at] = -1, 0.0
        best = np.full(len(nodes), -np.inf)
        tied: dict[int, NDArray[np.int32]] = {}
        for party in range(len(self.begins) - 1):
            if party == self.party:
                best = self._find_own(at, stacked[:, : self.cuts.slots], best)
                for node in at[np.isin(self.found_feature[at], np.arange(self.cuts.features))].tolist():
                    tied.pop(node, None)
                continue
            left = stacked[:, self.begins[party] : self.begins[party + 1]]
            if not left.shape[1]:
                continue
            gains = self._gains(at, left)
            gain = gains.max(axis=1)
            better = (gain > best) & (gain > LEAST_GAIN) & (gain >= self.settings.gain)
            best = np.where(better, gain, best)
            self.found_feature[at[better]], self.found_gain[at[better]] = self.cuts.features + party, gain[better]
            self.found_bin[at[better]], self.found_missing[at[better]] = 0, 0
            for k in np.flatnonzero(better).tolist():
                tied[nodes[k]] = _tied(nodes[k], party, gains[k], left[k])
        self.tied = np.concatenate([self.tied, *(tied[node] for node in sorted(tied))])
        for node in nodes:
            if self.found_feature[node] < 0:
                del self.hist[node]

    def _find_own(
        self, at: NDArray[np.int64], hist: NDArray[np.int64], best: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        """Keep the best split on own columns where it is better than those of parties before."""
        if not self.allowed.any():
            return best
        found = best_splits(hist, self.cuts, self.settings, self.allowed, self.bounds[at])
        gain = np.where(found.feature >= 0, found.gain, -np.inf)
        better = gain > best
        for name, values in (
            ("feature", found.feature),
            ("bin", found.bin),
            ("missing", found.missing_left),
            ("gain", found.gain),
            ("left", found.left),
        ):
            getattr(self, f"found_{name}")[at[better]] = values[better]
        return np.where(better, gain, best)

    def _gains(self, at: NDArray[np.int64], left: NDArray[np.int64]) -> NDArray[np.float64]:
        count = left.shape[1]
        return gains_of(
            left, self.sums[at], np.ones(count, bool), np.zeros(count, np.int8), self.settings, self.bounds[at]
        )

    def arrays(self) -> Arrays:
        """The whole state as arrays; between turns of a round they are as many as are needed."""
        hist, self.hist = self.hist, {}
        found = super().arrays()
        self.hist = hist
        kept = sorted(hist)
        empty = np.zeros((0, int(self.begins[-1]), self.sums.shape[1]), np.int64)
        return found | {
            "hist": np.stack([hist[node] for node in kept]) if kept else empty,
            "hist_node": np.array(kept, np.int32),
            "tied": self.tied,
        }

    def fill(self, arrays: Arrays) -> None:
        """Go on from the state that :meth:`arrays` has written."""
        super().fill(arrays)
        self.tied = arrays["tied"]


def _tied(node: int, party: int, gains: NDArray[np.float64], left: NDArray[np.int64]) -> NDArray[np.int32]:
    """The candidates of a party that are as good as its best, and which of them have the same sums."""
    places = np.flatnonzero(gains == gains.max())
    # Numbered by where a sum comes first: in the order of sums, the numbers would tell of them.
    _, first, group = np.unique(left[places], axis=0, return_index=True, return_inverse=True)
    columns = (np.full(len(places), node), np.full(len(places), party), places, first[group.reshape(-1)])
    return np.stack(columns, axis=1).astype(np.int32)
