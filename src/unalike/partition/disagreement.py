"""What parties get wrong of attributes that several of them have: inconsistent values of one thing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Inconsistency:
    """A ``share`` of the values of shared attributes is another person's, at every party but the label holder.

    Each party errs in its own way, and an attribute's columns are wrong together: a category stays one. So an
    attribute by itself looks the same everywhere, and what goes with it, such as the label, differs.
    ``attributes`` are the columns of each shared attribute.
    """

    share: float
    seed: int
    attributes: tuple[Places, ...]
    size: int
    """How many training rows there are: the people that values are mixed up with."""

    def whose(self, party: int, attribute: int, rows: Places, *, test: bool, label_holder: int) -> Places:
        """The training row that each of these rows has this attribute from; -1: from itself.

        ``attribute`` is the place in ``attributes``, and ``rows`` are rows of the training or of the test set.
        """
        if party == label_holder or not len(rows):
            return np.full(len(rows), -1, np.int64)
        drawn = np.random.default_rng(np.random.SeedSequence([self.seed, party, attribute, int(test)]))
        count = self.size if not test else int(rows.max()) + 1
        # One pair of numbers for each row, row by row: what is drawn for a row does not depend on later ones.
        wrong, other = drawn.random((count, 2)).T
        donors: Places = np.where(wrong < self.share, (other * self.size).astype(np.int64), -1)
        return donors[rows]
